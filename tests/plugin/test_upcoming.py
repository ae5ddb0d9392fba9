"""What a worker runs next, while other workers take items away from it."""

from __future__ import annotations

from types import SimpleNamespace

from execnet.gateway_base import get_execmodel
from xdist.remote import WorkerInteractor

from pytest_cwsandbox.upcoming import Upcoming


def test_an_item_is_either_here_or_taken() -> None:
    sent: list[tuple[str, dict[str, object]]] = []
    plugins: list[object] = []
    config = SimpleNamespace(
        workerinput={"testrunuid": "a run"},
        option=SimpleNamespace(debug=False),
        pluginmanager=SimpleNamespace(register=plugins.append, get_plugins=lambda: plugins),
    )
    gateway = SimpleNamespace(execmodel=get_execmodel("thread"))
    channel = SimpleNamespace(gateway=gateway, send=sent.append)
    worker = WorkerInteractor(config, channel)
    session = SimpleNamespace(config=config, items=[f"item {number}" for number in range(6)])
    worker.nextitem_index = 0
    for index in range(1, 6):
        worker.torun.put(index)
    kept: set[object] = set()
    upcoming = Upcoming(session)  # type: ignore[arg-type]  # as above
    upcoming.keep(kept.__contains__)

    worker.steal([4, 5])
    kept.add("item 3")
    assert upcoming.has("item 3")  # type: ignore[arg-type]  # as above
    assert not upcoming.has("item 4")  # type: ignore[arg-type]  # as above
    worker.steal([2, 3])
    assert sent == [("unscheduled", {"indices": [4, 5]}), ("unscheduled", {"indices": [2]})]
