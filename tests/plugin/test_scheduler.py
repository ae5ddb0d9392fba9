"""How xdist's workers are fed in load mode, where they run ahead."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from xdist.remote import Producer

from pytest_cwsandbox.scheduling import DeepScheduling
from pytest_cwsandbox.shares import Share

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 120
# Each worker notes, when it begins an item, how many more it knows of: the next one and its queue.
CONFTEST = """
import os

import pytest

class Looking:
    def __init__(self, interactor):
        self.interactor = interactor

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item, nextitem):
        with self.interactor.torun.lock() as queue:
            following = [self.interactor.nextitem_index, *queue]
        known = sum(isinstance(index, int) for index in following)
        with open(os.environ["PYTEST_XDIST_WORKER"] + ".known", "a") as file:
            file.write(f"{known}\\n")

def pytest_collection_finish(session):
    plugins = session.config.pluginmanager
    for plugin in plugins.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor":
            plugins.register(Looking(plugin))
"""
SUITE = f"""
import time

import pytest

@pytest.mark.parametrize("n", range({COUNT}))
def test_waits(n):
    time.sleep(0.02)
"""


@pytest.fixture(autouse=True)
def _suite(pytester: pytest.Pytester) -> None:
    pytester.plugins = ["no:asyncio", "no:anyio", "no:cacheprovider"]
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(SUITE)


def known(folder: Path) -> dict[str, list[int]]:
    """What each worker knew of, item by item."""
    files = folder.glob("*.known")
    return {file.stem: [int(line) for line in file.read_text().split()] for file in files}


def test_workers_know_of_as_many_items_as_they_may_start(pytester: pytest.Pytester) -> None:
    args = ("-n20", "--cwsandbox-processes=2", "-v")
    result = pytester.runpytest_subprocess(*args)
    result.assert_outcomes(passed=COUNT)
    result.stdout.fnmatch_lines(["scheduling tests via DeepScheduling"])
    for counts in known(pytester.path).values():
        assert max(counts) <= 2 * 10 + 1
        # One, while a refill is on its way, may be missing; in the end there is nothing to know.
        assert min(counts[: len(counts) // 2]) >= 10 - 1


@pytest.mark.parametrize(
    ("args", "name"),
    [
        (("-n2",), "LoadScheduling"),
        (("-n8", "--dist=worksteal"), "WorkStealingScheduling"),
        (("-n8", "--dist=loadscope"), "LoadScopeScheduling"),
        (("-n8", "--dist=loadfile"), "LoadFileScheduling"),
    ],
)
def test_other_runs_keep_the_scheduler_of_xdist(
    pytester: pytest.Pytester, args: tuple[str, ...], name: str
) -> None:
    result = pytester.runpytest_subprocess(*args, "--cwsandbox-processes=2", "-v")
    result.assert_outcomes(passed=COUNT)
    result.stdout.fnmatch_lines([f"scheduling tests via {name}"])


def test_a_scheduler_of_the_project_wins(pytester: pytest.Pytester) -> None:
    (pytester.path / "conftest.py").write_text(
        "from xdist.scheduler import LoadScheduling\n"
        "class Own(LoadScheduling): pass\n"
        "def pytest_xdist_make_scheduler(config, log):\n    return Own(config, log)\n"
    )
    result = pytester.runpytest_subprocess("-n8", "--cwsandbox-processes=2", "-v")
    result.assert_outcomes(passed=COUNT)
    result.stdout.fnmatch_lines(["scheduling tests via Own"])


def test_maxschedchunk_is_kept(pytester: pytest.Pytester) -> None:
    args = ("-n8", "--cwsandbox-processes=2", "--maxschedchunk=1")
    pytester.runpytest_subprocess(*args).assert_outcomes(passed=COUNT)
    assert max(map(max, known(pytester.path).values())) <= 2  # and not 2 * 4 + 1


@pytest.mark.parametrize("count", [1, 2, 3, 5, 9])
def test_few_items_are_all_run(pytester: pytest.Pytester, count: int) -> None:
    pytester.makepyfile(SUITE.replace(f"range({COUNT})", f"range({count})"))
    result = pytester.runpytest_subprocess("-n8", "--cwsandbox-processes=3", timeout=120)
    result.assert_outcomes(passed=count)
    assert sum(map(len, known(pytester.path).values())) == count


# The scheduler alone, with workers that do what the test says.


@dataclass(eq=False)
class Worker:
    in_flight: int
    sent: list[int] = field(default_factory=list)
    shutting_down: bool = False
    workerinput: dict[str, object] = field(default_factory=dict)
    died: bool = False
    gateway: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(id="gw"))

    def __post_init__(self) -> None:
        Share(self.in_flight, 2).tell(self.workerinput)

    def send_runtest_some(self, indices: list[int]) -> None:
        assert not self.shutting_down
        if self.died:
            raise OSError("cannot send (already closed?)")
        self.sent += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def scheduled(items: int, *workers: Worker) -> DeepScheduling:
    options = {"tx": [f"{len(workers)}*popen"], "maxschedchunk": None}
    config = SimpleNamespace(getvalue=options.get, getoption=options.get)
    scheduler = DeepScheduling(config, Producer("", enabled=False), lambda: True)  # type: ignore[arg-type]  # all that it reads
    for worker in workers:
        join(scheduler, worker, items)
    return scheduler


def join(scheduler: DeepScheduling, worker: Worker, items: int) -> None:
    scheduler.add_node(worker)
    scheduler.add_node_collection(worker, [str(number) for number in range(items)])
    if scheduler.collection_is_completed:
        scheduler.schedule()


def run(scheduler: DeepScheduling, worker: Worker, count: int | None = None) -> list[int]:
    """Let a worker run items, in order: as many, or all that it may."""
    ran: list[int] = []
    # All but the last, which it runs once it knows that it is.
    while len(queue := scheduler.node2pending[worker]) > (not worker.shutting_down):
        if len(ran) == count:
            break
        ran.append(queue[0])
        scheduler.mark_test_complete(worker, queue[0], 1.0)
    return ran


def test_a_slow_worker_does_not_hoard() -> None:
    slow, fast = Worker(4), Worker(4)
    scheduler = scheduled(100, slow, fast)
    assert len(slow.sent) == len(fast.sent) == 100 // 2 // 4  # xdist's first share
    run(scheduler, fast, 50)
    run(scheduler, slow, 35)
    assert len(scheduler.node2pending[slow]) <= 4 + 1 + 1  # what it can start, and a refill
    run(scheduler, fast)
    run(scheduler, slow)
    assert sorted(slow.sent + fast.sent) == list(range(100))


def test_what_died_with_a_worker_goes_to_workers_that_run_in_order() -> None:
    dies, survives, replacement = Worker(4), Worker(4), Worker(1)
    scheduler = scheduled(40, dies, survives)
    run(scheduler, dies, 3)
    under_way = scheduler.node2pending[dies][:5]
    crashed = scheduler.remove_node(dies)
    assert crashed == str(under_way[0])
    scheduler.mark_test_pending(crashed)
    run(scheduler, survives)
    assert survives.shutting_down
    assert not scheduler.tests_finished
    join(scheduler, replacement, 40)
    assert sorted(run(scheduler, replacement)) == under_way
    assert sorted(dies.sent[:3] + survives.sent + replacement.sent) == list(range(40))


def test_a_replacement_runs_what_is_suspect_first() -> None:
    dies, survives, replacement = Worker(4), Worker(4), Worker(1)
    scheduler = scheduled(400, dies, survives)
    under_way = scheduler.node2pending[dies][:5]
    scheduler.mark_test_pending(scheduler.remove_node(dies))
    join(scheduler, replacement, 400)
    assert sorted(run(scheduler, replacement, 5)) == under_way


def test_what_does_not_reach_a_worker_that_has_just_died_is_not_lost() -> None:
    dies, survives = Worker(4), Worker(4)
    scheduler = scheduled(40, dies, survives)
    known = [*scheduler.node2pending[dies]]
    dies.died = True
    for ran in known[:4]:  # its reports are still on their way
        scheduler.mark_test_complete(dies, ran, 1.0)
    assert scheduler.remove_node(dies) == str(known[4])
    assert scheduler.node2pending.keys() == {survives}
    ran = known[:4] + survives.sent + scheduler.pending
    assert sorted(ran) == [each for each in range(40) if each != known[4]]
