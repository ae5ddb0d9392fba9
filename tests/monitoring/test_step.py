"""The numbers of a training step."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.monitoring import log_step, step_metrics
from pytest_cwsandbox.outcome import Outcome, Verdict
from pytest_cwsandbox.rollouts import StopReason, Trajectory, run_group
from pytest_cwsandbox.sessions import agent_session, judge_session
from tests.monitoring.runs import DOUBLE, RIGHT, WRONG, StandInRun, StandInWandb, plays

if TYPE_CHECKING:
    from cwsandbox import SandboxDefaults


def trajectory(reward: float | None, **fields: float) -> Trajectory:
    lost = reward is None
    return Trajectory(
        messages=(),
        tools=(),
        stop_reason=StopReason.MODEL_ERROR if lost else StopReason.SUBMITTED,
        reward=reward,
        verdict="" if lost else ("passed" if reward == 1 else "wrong_answer"),
        metrics=fields,
    )


def test_a_step_in_numbers() -> None:
    metrics = step_metrics(
        [
            trajectory(1.0, tool_calls=2, seconds=1, tokens_in=10, tokens_out=1, cost=0.25),
            trajectory(1.0, tool_calls=4, seconds=2, tokens_in=20, tokens_out=2, cost=0.5),
            trajectory(0.0, tool_calls=6, seconds=3, tokens_in=30, tokens_out=3, cost=0.5),
            trajectory(None, tool_calls=0, seconds=99, tokens_in=40, tokens_out=4, cost=0.5),
        ]
    )
    some = {name: metrics[f"rollout/{name}"] for name in ("pass_rate_low", "pass_rate_high")}
    assert some == pytest.approx({"pass_rate_low": 0.20766, "pass_rate_high": 0.93851}, abs=1e-5)
    assert {name: value for name, value in metrics.items() if value and "rate_" not in name} == {
        "rollout/samples": 3,
        "rollout/pass_rate": 2 / 3,
        "rollout/mean_reward": 2 / 3,
        "rollout/infra_rate": 0.25,
        "rollout/seconds_p50": 2,
        "rollout/seconds_p95": 3,
        "rollout/verdict/passed": 2,
        "rollout/verdict/wrong_answer": 1,
        "rollout/stop_reason/submitted": 3,
        "rollout/stop_reason/model_error": 1,
        "rollout/tool_calls": 3,
        "rollout/max_tool_calls": 6,
        "rollout/tokens_in": 100,
        "rollout/tokens_out": 10,
        "rollout/cost": 1.75,
    }


def test_what_is_lost_is_no_zero() -> None:
    lost = [Outcome(Verdict.INFRASTRUCTURE_ERROR, seconds=1.0)] * 3
    metrics = step_metrics(lost, prefix="grade")
    assert metrics["grade/infra_rate"] == 1.0
    assert metrics["grade/samples"] == 0
    assert metrics["grade/verdict/infrastructure_error"] == 3
    assert not {"grade/pass_rate", "grade/mean_reward", "grade/seconds_p50"} & metrics.keys()


def test_a_step_without_rollouts_has_no_rates() -> None:
    metrics = step_metrics([])
    assert not any(metrics.values())
    assert not [name for name in metrics if "rate" in name or "mean" in name]


def test_every_metric_is_a_finite_float() -> None:
    metrics = step_metrics([trajectory(math.inf, seconds=math.nan), trajectory(1.0)])
    assert "rollout/mean_reward" not in metrics
    assert {type(value) for value in metrics.values()} == {float}
    assert all(map(math.isfinite, metrics.values()))


async def test_a_step_is_logged_with_the_session(
    defaults: SandboxDefaults, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = StandInRun()
    monkeypatch.setitem(sys.modules, "wandb", StandInWandb(run))
    with agent_session(defaults) as session:
        for step, answer in ((3, RIGHT), (7, WRONG)):
            policy = plays("print(1)", "raise SystemExit(1)", submits=answer)
            [group] = await run_group(policy, [DOUBLE], 2, session=session)
            assert log_step(session, group, step=step)
    assert list(run.rows) == [3, 7]
    assert run.rows[3]["rollout/pass_rate"] == 1.0
    assert run.rows[7]["rollout/pass_rate"] == 0.0
    for row in run.rows.values():  # what was logged once does not count again
        assert row["cwsandbox/sandboxes_created"] == 2
        assert row["cwsandbox/executions"] == 4
        assert row["cwsandbox/exec_completed_ok"] == 2
        assert row["cwsandbox/exec_completed_nonzero"] == 2
        assert row["cwsandbox/avg_execs_per_sandbox"] == 2


async def test_counters_go_on_without_reset(
    defaults: SandboxDefaults, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = StandInRun()
    monkeypatch.setitem(sys.modules, "wandb", StandInWandb(run))
    with agent_session(defaults) as session:
        for step in (1, 2):
            [group] = await run_group(plays("print(1)"), [DOUBLE], session=session)
            log_step(session, group, step=step, reset=False)
        assert session.get_metrics()["cwsandbox/executions"] == 2
    assert [run.rows[step]["cwsandbox/executions"] for step in (1, 2)] == [1, 2]


async def test_a_run_of_its_own_gets_it_all(defaults: SandboxDefaults) -> None:
    run = StandInRun()
    with agent_session(defaults) as session:
        for step in (1, 2):
            [group] = await run_group(plays("print(1)"), [DOUBLE], session=session)
            assert log_step(session, group, step=step, run=run)
    assert run.rows[2]["cwsandbox/executions"] == 1
    assert run.rows[2]["cwsandbox/max_execs_per_sandbox"] == 1  # counted since the run is known
    assert run.rows[2]["rollout/stop_reason/no_tool_call"] == 1


async def test_without_a_run_nothing_is_logged_and_nothing_is_lost(
    defaults: SandboxDefaults,
) -> None:
    with agent_session(defaults) as session:
        [group] = await run_group(plays("print(1)"), [DOUBLE], session=session)
        assert not log_step(session, group, step=1)
        assert session.get_metrics()["cwsandbox/executions"] == 1


def test_a_session_that_reports_nowhere_counts_nothing(defaults: SandboxDefaults) -> None:
    with agent_session(defaults, []) as session, session.sandbox() as sandbox:
        sandbox.exec(["true"]).result()
        assert session.get_metrics() == {}
        assert sandbox.exec_stats["exec_count"] == 1


def test_grades_beside_a_session_count_nothing(defaults: SandboxDefaults) -> None:
    with agent_session(defaults) as agents, judge_session(agents) as judges:
        with judges.sandbox() as sandbox:
            sandbox.exec(["true"]).result()
            assert sandbox.tags == ("test:monitoring",)
        assert agents.get_metrics()["cwsandbox/executions"] == 0


def test_wandb_is_not_imported_for_its_own_sake(defaults: SandboxDefaults) -> None:
    code = """
import sys
import types
from importlib.abc import MetaPathFinder

class Watch(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "wandb":
            print("imported wandb")

sys.meta_path.insert(0, Watch())
from cwsandbox import SandboxDefaults
from pytest_cwsandbox.monitoring import log_step
from pytest_cwsandbox.sessions import agent_session

with agent_session(SandboxDefaults(container_image=sys.argv[1])) as session:
    with session.sandbox() as sandbox:
        sandbox.exec(["true"]).result()
    assert not log_step(session, [], step=1)
print("executions:", session.get_metrics()["cwsandbox/executions"])
"""
    command = [sys.executable, "-c", code, str(defaults.container_image)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["executions: 1"], done.stderr
