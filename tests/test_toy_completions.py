"""The toy completions run side by side, not one after the other."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import cwsandbox

from pytest_cwsandbox.problems import TOY_COMPLETIONS

if TYPE_CHECKING:
    from cwsandbox import Session

STAMPED = """\
import time
print(time.time(), flush=True)
try:
    exec({code!r}, {{"__name__": "__main__"}})
finally:
    print(time.time(), flush=True)
"""


def test_their_executions_overlap(cwsandbox_session: Session) -> None:
    sandboxes = [cwsandbox_session.sandbox() for _ in TOY_COMPLETIONS]
    cwsandbox.wait([sandbox.start() for sandbox in sandboxes])
    processes = [
        sandbox.exec(["python", "-c", STAMPED.format(code=toy.code)], timeout_seconds=60)
        for sandbox, toy in zip(sandboxes, TOY_COMPLETIONS, strict=True)
    ]
    done, pending = cwsandbox.wait(processes)
    assert not pending
    assert len(done) == len(TOY_COMPLETIONS)
    results = [process.result() for process in processes]
    codes = [result.returncode for result in results]
    assert [code == 0 for code in codes] == [toy.expected_reward == 1.0 for toy in TOY_COMPLETIONS]
    # The two longest sleep 2 s and 3 s: one after the other, neither would see the other run.
    spans = sorted(
        (float(lines[0]), float(lines[-1]))
        for lines in (result.stdout.split() for result in results)
    )
    assert any(following[0] < running[1] for running, following in pairwise(spans))
