"""Rollouts that do not stop."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.rollouts import RolloutOptions, run_group
from pytest_cwsandbox.sessions import agent_session
from tests.monitoring.runs import DOUBLE, StandInRun, StandInWandb, plays, sandboxes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cwsandbox import SandboxDefaults

    from pytest_cwsandbox.rollouts.messages import Message

TOKENS = ("CWSANDBOX_API_KEY", "CWSANDBOX_BASE_URL", "CWSANDBOX_LOCAL_RUNNER")
LOOPS = """
import pytest

def loops(messages, tools):
    function = {"name": "execute_code", "arguments": '{"code": "print(1)"}'}
    call = {"id": str(len(messages)), "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}

@pytest.mark.problems("bundled")
async def test_loops(problem, rollout):
    await rollout(problem, policy=loops)
"""


async def test_a_runaway_is_told_once_while_it_runs(
    defaults: SandboxDefaults, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = StandInRun()
    monkeypatch.setitem(sys.modules, "wandb", StandInWandb(run))
    known: list[int] = []
    told: list[str] = []
    three = plays("print(1)", "print(2)", "print(3)", "print(4)")

    def policy(messages: Sequence[Message], tools: object) -> object:
        known.append(len(told))
        return three(messages, ())

    options = RolloutOptions(alert_tool_calls=2, on_runaway=told.append)
    with agent_session(defaults) as session:
        [[trajectory]] = await run_group(policy, [DOUBLE], session=session, options=options)  # type: ignore[arg-type]  # a policy all the same
    [sandbox] = sandboxes_of(trajectory)
    text = f"runaway rollout: own-1 makes tool call 3, more than 2; sandboxes: {sandbox}"
    assert told == [text]
    assert known == [0, 0, 0, 1, 1]  # before its fourth turn
    warned = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [record.getMessage() for record in warned] == [text]
    assert run.alerts == [("Runaway rollout: own-1", text)]


async def test_an_alert_that_fails_does_not_end_the_rollout(
    defaults: SandboxDefaults, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(StandInRun):
        def alert(self, *_: str) -> None:
            raise RuntimeError("the run is finished")

    monkeypatch.setitem(sys.modules, "wandb", StandInWandb(Broken()))
    options = RolloutOptions(alert_tool_calls=1)
    with agent_session(defaults) as session:
        policy = plays("print(1)", "print(2)")
        [[trajectory]] = await run_group(policy, [DOUBLE], session=session, options=options)
    assert trajectory.reward == 0.0
    assert "the alert did not reach W&B: the run is finished" in caplog.text


@pytest.mark.parametrize("where", ["command line", "ini file"])
def test_a_run_warns_of_runaways(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    for name in TOKENS:
        monkeypatch.delenv(name, raising=False)
    pytester.makepyfile(LOOPS)
    options = ["--cwsandbox-limit=1", "--cwsandbox-max-tool-calls=3"]
    if where == "command line":
        options.append("--cwsandbox-alert-tool-calls=2")
    else:
        pytester.makeini("[pytest]\ncwsandbox_alert_tool_calls = 2")
    result = pytester.runpytest_subprocess("-n0", *options)
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(
        ["*RunawayWarning: runaway rollout: bundled-1 makes tool call 3, more than 2; sandboxes: *"]
    )


def test_an_alert_that_never_comes_is_a_mistake(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("--cwsandbox-alert-tool-calls=20")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*--cwsandbox-alert-tool-calls=20 can never be exceeded: --cwsandbox-max-tool-calls is 20"]
    )
