"""Executions of agents: counted apart from those of grades, and told in the log."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.grading import Grader
from pytest_cwsandbox.monitoring import training_step
from pytest_cwsandbox.rollouts import RolloutOptions, Task, run_group
from pytest_cwsandbox.sessions import agent_session, judge_session
from tests.monitoring.runs import DOUBLE, RIGHT, StandInRun, StandInWandb, plays, sandboxes_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cwsandbox import SandboxDefaults, Session

    from pytest_cwsandbox.problems import Problem

STATE = Task(
    task_id="state",
    prompt="Do nothing.",
    files={"notes.txt": "notes"},
    test_command=("test", "-e", "notes.txt"),
    test_files={"more.txt": "more"},
    tools=("execute_code",),
    source="own",
)


@pytest.fixture
def session(defaults: SandboxDefaults, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """A session whose executions are counted per sandbox."""
    monkeypatch.setitem(sys.modules, "wandb", StandInWandb(StandInRun()))
    with agent_session(defaults) as session:
        yield session


@pytest.mark.parametrize("goal", [DOUBLE, STATE], ids=["problem", "task"])
async def test_executions_per_sandbox_are_the_agents_tool_calls(
    session: Session, goal: Problem | Task
) -> None:
    policy = plays("print(1)", "print(2)", "print(3)", submits=RIGHT if goal is DOUBLE else None)
    [group] = await run_group(policy, [goal], 2, session=session)
    assert [trajectory.reward for trajectory in group] == [1.0, 1.0]
    metrics = session.get_metrics()
    assert metrics["cwsandbox/sandboxes_created"] == 2
    assert metrics["cwsandbox/executions"] == 6
    assert metrics["cwsandbox/min_execs_per_sandbox"] == 3
    assert metrics["cwsandbox/max_execs_per_sandbox"] == 3


async def test_the_log_tells_of_each_execution(
    session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "pytest_cwsandbox")
    policy = plays("print('four')", "import sys; sys.exit('bad')", submits=RIGHT)
    with training_step(7):
        [[trajectory]] = await run_group(policy, [DOUBLE], session=session)
    agents = [record for record in caplog.records if record.name == "pytest_cwsandbox.rollouts"]
    [sandbox] = sandboxes_of(trajectory)
    facts = ("step", "sandbox_id", "returncode", "stdout_len", "stderr_len", "error")
    assert [tuple(getattr(record, name) for name in facts) for record in agents] == [
        (7, sandbox, 0, 5, 0, ""),
        (7, sandbox, 1, 0, 4, ""),
    ]
    grades = [record for record in caplog.records if record.name == "pytest_cwsandbox.grading"]
    assert grades  # and those with which the grader tests itself
    assert {record.__dict__["step"] for record in grades} == {7}
    assert sandbox not in {record.__dict__["sandbox_id"] for record in grades}


async def test_the_log_tells_of_executions_that_failed(
    session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "pytest_cwsandbox.rollouts")
    options = RolloutOptions(tool_seconds=0.5)
    policy = plays("import time; time.sleep(600)")
    await run_group(policy, [DOUBLE], session=session, options=options)
    [record] = caplog.records
    assert record.__dict__["returncode"] is None
    assert record.__dict__["step"] is None
    assert record.__dict__["error"]
    assert "exit code None" in record.getMessage()


def test_grades_of_another_thread_know_their_step(
    session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "pytest_cwsandbox.grading")
    with judge_session(session) as judges:
        grader = Grader(judges)
        with training_step(1):
            first = grader.grade_code(DOUBLE, RIGHT)
        with training_step(2):
            second = grader.grade_code(DOUBLE, RIGHT)
        assert (first.result().reward, second.result().reward) == (1.0, 1.0)
        grader.close()
    assert {record.__dict__["step"] for record in caplog.records} >= {1, 2}
