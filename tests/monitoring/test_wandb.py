"""With the real wandb, offline: its run's file holds what it should."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from concurrent import futures
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from cwsandbox._proto import sandbox_pb2 as pb

from pytest_cwsandbox.monitoring import log_step
from pytest_cwsandbox.rollouts import RolloutOptions, run_group
from pytest_cwsandbox.sessions import agent_session
from tests.monitoring import wandb_file
from tests.monitoring.runs import DOUBLE, RIGHT, WRONG, plays, sandboxes_of
from tests.test_grade_command import without_account

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cwsandbox import SandboxDefaults

wandb = pytest.importorskip("wandb", reason="needs the [wandb] extra")

# Both tables of CoreWeave's guide.
OF_THE_GUIDE = {
    f"cwsandbox/{name}"
    for name in (
        "sandboxes_created",
        "executions",
        "exec_completed_ok",
        "exec_completed_nonzero",
        "exec_failures",
        "exec_completion_rate",
        "exec_failure_rate",
        "startup_count",
        "avg_startup_seconds",
        "min_startup_seconds",
        "max_startup_seconds",
        "avg_execs_per_sandbox",
        "min_execs_per_sandbox",
        "max_execs_per_sandbox",
    )
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An active offline run, whose file is complete once it is finished."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    run = wandb.init(project="test", dir=tmp_path, settings={"x_disable_stats": True})
    yield run
    run.finish()


async def test_a_step_has_every_metric_with_its_value(
    run: Any, tmp_path: Path, defaults: SandboxDefaults
) -> None:
    options = RolloutOptions(tool_seconds=1.0, price=(1.0, 1.0))
    policies = (
        plays("print(1)", submits=RIGHT),
        plays("print(1)", "raise SystemExit(1)", "import time; time.sleep(60)", submits=WRONG),
    )
    with agent_session(defaults) as session:
        results = []
        for policy in policies:
            [group] = await run_group(policy, [DOUBLE], session=session, options=options)
            results += group
        assert log_step(session, results, step=5)
        [group] = await run_group(policies[0], [DOUBLE], session=session)
        assert log_step(session, group, step=6)
    run.finish()
    rows = wandb_file.history(tmp_path)
    assert list(rows) == [5, 6]
    row = rows[5]
    assert row.keys() >= OF_THE_GUIDE
    assert rows[6].keys() >= OF_THE_GUIDE
    startup = {name: value for name, value in row.items() if "startup_seconds" in name}
    assert (
        0
        < startup["cwsandbox/min_startup_seconds"]
        <= startup["cwsandbox/avg_startup_seconds"]
        <= startup["cwsandbox/max_startup_seconds"]
    )
    assert {name: row[name] for name in OF_THE_GUIDE - startup.keys()} == {
        "cwsandbox/sandboxes_created": 2,
        "cwsandbox/executions": 4,
        "cwsandbox/exec_completed_ok": 2,
        "cwsandbox/exec_completed_nonzero": 1,
        "cwsandbox/exec_failures": 1,
        "cwsandbox/exec_completion_rate": 0.5,
        "cwsandbox/exec_failure_rate": 0.25,
        "cwsandbox/startup_count": 2,
        "cwsandbox/avg_execs_per_sandbox": 2,
        "cwsandbox/min_execs_per_sandbox": 1,
        "cwsandbox/max_execs_per_sandbox": 3,
    }
    ours = {
        "samples": 2,
        "pass_rate": 0.5,
        "mean_reward": 0.5,
        "infra_rate": 0,
        "verdict/passed": 1,
        "verdict/wrong_answer": 1,
        "verdict/timeout": 0,
        "stop_reason/submitted": 2,
        "stop_reason/wall_timeout": 0,
        "tool_calls": 3,
        "max_tool_calls": 4,
        "tokens_in": 0,
        "tokens_out": 0,
        "cost": 0,
    }
    assert {name: row[f"rollout/{name}"] for name in ours} == ours
    assert 0 < row["rollout/pass_rate_low"] < 0.5 < row["rollout/pass_rate_high"] < 1
    assert 0 < row["rollout/seconds_p50"] <= row["rollout/seconds_p95"]
    assert rows[6]["rollout/pass_rate"] == 1.0
    assert rows[6]["cwsandbox/executions"] == 1


async def test_a_runaway_reaches_the_run(
    run: Any, tmp_path: Path, defaults: SandboxDefaults
) -> None:
    options = RolloutOptions(alert_tool_calls=1)
    with agent_session(defaults) as session:
        policy = plays("print(1)", "print(2)")
        [[trajectory]] = await run_group(policy, [DOUBLE], session=session, options=options)
    run.finish()
    [sandbox] = sandboxes_of(trajectory)
    assert wandb_file.alerts(tmp_path) == [
        (
            "Runaway rollout: own-1",
            f"runaway rollout: own-1 makes tool call 2, more than 1; sandboxes: {sandbox}",
            "WARN",
        )
    ]


PLUGIN_RUN = """
import pytest
import wandb
from pytest_cwsandbox.monitoring import log_step

@pytest.fixture(scope="session", autouse=True)  # before the session, so that it outlives it
def wandb_run():
    with wandb.init(project="test", mode="offline", settings={"x_disable_stats": True}) as run:
        yield run

def test_counts(sandbox, cwsandbox_session):
    sandbox.exec(["true"]).result()
    sandbox.exec(["false"]).result()
    assert log_step(cwsandbox_session, [], step=4)

def test_grades_do_not_count(grade, sandbox, cwsandbox_session):
    from pytest_cwsandbox.problems import load
    [problem] = load("bundled", limit=1)
    assert grade(problem, problem.reference_solution).result().reward == 1.0
    sandbox.exec(["true"]).result()
    assert log_step(cwsandbox_session, [], step=5)
"""
NOWHERE = """
import pytest

@pytest.fixture(scope="session")
def cwsandbox_report_to():
    return []
"""


@pytest.mark.parametrize(
    ("conftest", "executions"), [("", [2, 1]), (NOWHERE, [None, None])], ids=["to W&B", "nowhere"]
)
def test_a_run_of_pytest_reports_its_session(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    conftest: str,
    executions: list[int | None],
) -> None:
    for name in ("CWSANDBOX_API_KEY", "CWSANDBOX_BASE_URL", "CWSANDBOX_LOCAL_RUNNER"):
        monkeypatch.delenv(name, raising=False)
    pytester.makepyfile(PLUGIN_RUN)
    pytester.makeconftest(conftest)
    pytester.runpytest_subprocess("-n0").assert_outcomes(passed=2)
    rows = wandb_file.history(pytester.path)
    assert rows[4]["rollout/samples"] == 0
    assert [row.get("cwsandbox/executions") for row in rows.values()] == executions


def test_credentials_of_wandb_reach_the_service() -> None:
    seen: list[dict[str, str]] = []
    with _service(seen) as address:
        ps = [sys.executable, "-m", "pytest_cwsandbox", "ps"]
        done = subprocess.run(
            [*ps, "--auth=wandb", f"--base-url={address}"],
            env=without_account() | {"WANDB_API_KEY": "k" * 40, "WANDB_ENTITY": "us"},
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stdout) == (0, "no sandboxes\n"), done.stderr
    assert seen[0]["x-wandb-api-key"] == "k" * 40
    assert seen[0]["x-entity-id"] == "us"


@contextlib.contextmanager
def _service(seen: list[dict[str, str]]) -> Iterator[str]:
    """A service without sandboxes, which notes what its callers show it."""

    class Lists(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc ships no types
        def service(self, call: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
            seen.append(dict(call.invocation_metadata))
            return grpc.unary_unary_rpc_method_handler(
                lambda *_: pb.ListSandboxesResponse(),
                response_serializer=pb.ListSandboxesResponse.SerializeToString,
            )

    server = grpc.server(futures.ThreadPoolExecutor(1), handlers=(Lists(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop(None).wait()
