"""How rollouts end through pytest's door: what is data, what is lost, what stops the run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox import runner
from tests.rollouts.endpoints import HANG, failure

from .conftest import PLANNED_FILES, RUN_FILES
from .rollouts import AGENT, model_at, samples, served, trajectories

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from .rollouts import Run

INCONCLUSIVE = 75
ENDS = {  # of the scripts: reward, verdict of the sample, stop reason
    "scripted-parallel": (1.0, "passed", "submitted"),
    "scripted-bad-json": (1.0, "passed", "submitted"),
    "scripted-rate-limited": (1.0, "passed", "submitted"),
    "scripted-wrong": (0.0, "wrong_answer", "submitted"),
    "scripted-never-submits": (0.0, "max_tool_calls", "max_tool_calls"),
    "scripted-forgets": (0.0, "no_tool_call", "no_tool_call"),
    "scripted-no-tool": (0.0, "no_tool_call", "no_tool_call"),
    "scripted-says-nothing": (0.0, "no_tool_call", "no_tool_call"),
    "scripted-refuses": (0.0, "refusal", "refusal"),
    "scripted-outgrows": (0.0, "context_exceeded", "context_exceeded"),
}
EACH_SCRIPT = f"""
import pytest

@pytest.mark.parametrize("model", {list(ENDS)})
@pytest.mark.problems("bundled")
async def test_script(problem, rollout, model):
    trajectory = await rollout(problem, model=model)
    assert trajectory.reward == 1.0, trajectory.stop_reason
"""


@pytest.mark.parametrize("gate", [(), ("--cwsandbox-min-pass-rate=0.3",)], ids=["no gate", "gate"])
def test_what_a_model_does_badly_earns_nothing_and_is_data_where_there_is_a_gate(
    pytester: pytest.Pytester, gate: tuple[str, ...]
) -> None:
    pytester.makepyfile(EACH_SCRIPT)
    result = pytester.runpytest_subprocess(
        "-n0", "--cwsandbox-limit=1", "--cwsandbox-max-tool-calls=4", *gate
    )
    ends = {
        row["metadata"]["model"]: (row["reward"], row["verdict"], row["metadata"]["stop_reason"])
        for row in samples(pytester.path)
    }
    assert ends == ENDS
    counts = "3 passed, 7 low reward" if gate else "7 failed, 3 passed"
    result.stdout.fnmatch_lines([f"=* {counts} in *"])
    assert result.ret == (0 if gate else pytest.ExitCode.TESTS_FAILED)


@pytest.mark.parametrize(
    ("answer", "options", "reason"),
    [
        (failure(500), (), "500: it broke"),
        (HANG, ("--cwsandbox-model-timeout=1",), "no answer in time"),
    ],
    ids=["500", "hangs"],
)
def test_an_endpoint_that_fails_is_infrastructure_and_no_reward(
    pytester: pytest.Pytester, run: Run, answer: bytes, options: tuple[str, ...], reason: str
) -> None:
    pytester.makepyfile(test_agent=AGENT)
    with served(answer) as endpoint:
        result = run(
            *model_at(endpoint), "--cwsandbox-model-retries=0", "--cwsandbox-limit=1", *options
        )
    assert result.parseoutcomes() == {"passed": 1, "infra": 2}
    assert result.ret == INCONCLUSIVE
    result.stdout.fnmatch_lines(
        [
            "bundled/agents *0/0* 2 *",
            "verdicts: model_error 2",
            f"infra: 2 items: toy at {endpoint.base_url} failed: {reason}",
            "infrastructure: 2 of 2 items lost*INCONCLUSIVE",
        ]
    )
    for row in samples(pytester.path):
        assert (row["reward"], row["verdict"]) == (None, "model_error")
        assert row["metadata"]["stop_reason"] == "model_error"
    assert [one["reward"] for one in trajectories(pytester.path)] == [None, None]


def test_an_endpoint_that_refuses_every_request_stops_the_run_with_one_message(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(test_agent=AGENT.replace("samples=2", "samples=20"))
    with served(failure(401, "no such key")) as endpoint:
        result = run(*model_at(endpoint), "--cwsandbox-limit=1", "--cwsandbox-concurrency=2")
    message = f"cwsandbox: toy at {endpoint.base_url} refuses the key (401: no such key): set*"
    result.stdout.fnmatch_lines([message, "FAILED test_agent.py::test_agent*", "!*Interrupted: *"])
    result.stdout.no_fnmatch_line("*Traceback*")
    outcomes = result.parseoutcomes()
    assert outcomes.pop("failed") == 1
    assert outcomes.pop("skipped", 0) <= 1
    assert outcomes.pop("warnings", 0) == 0
    assert outcomes == {}, "nothing else has run"
    assert len(endpoint.bodies) <= 2  # what was under way
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert left_in_run_folders(pytester.path) == PLANNED_FILES


def test_a_script_that_does_not_exist_stops_the_run_too(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_agent=AGENT)
    result = pytester.runpytest_subprocess("-n0", "--cwsandbox-model=scripted-unknown")
    result.stdout.fnmatch_lines(
        ["cwsandbox: scripted-unknown at *the scripts are scripted, *: check --cwsandbox-model,*"]
    )
    result.assert_outcomes(failed=1)
    assert result.ret == pytest.ExitCode.INTERRUPTED


def test_what_was_earned_before_the_run_stopped_is_kept(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_agent="""
        def test_before(record_reward):
            record_reward(1.0)

        def test_stops(rollout):
            from pytest_cwsandbox.problems import load
            rollout(load("bundled")[0], model="scripted-unknown").result()

        def test_after():
            pass
        """
    )
    result = pytester.runpytest_subprocess("-n0")
    result.assert_outcomes(passed=1, failed=1)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*1/1*100.0%*", "checks: 0 passed, 1 failed"])
    assert [row["reward"] for row in samples(pytester.path)] == [1.0]
    assert left_in_run_folders(pytester.path) == RUN_FILES | {"samples-main.jsonl"}


@pytest.fixture
def faulty(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., None]]:
    """Lets pytest use a runner that fails as it is told to."""
    place = tmp_path_factory.mktemp("runner")

    def start(*faults: str) -> None:
        running = runner.join_or_start(place, lifeline=os.getpid(), faults=faults)
        for name, value in running.environment(os.environ).items():
            monkeypatch.setenv(name, value)

    yield start
    runner.stop(place)


@pytest.mark.parametrize(
    "fault",
    ["create-unavailable", "start-failed", "exec-unavailable", "exec-lost", "sandbox-taken"],
)
def test_a_failure_of_the_sandboxes_is_never_a_reward(
    pytester: pytest.Pytester, faulty: Callable[..., None], fault: str
) -> None:
    faulty(fault)
    pytester.makepyfile(test_agent=AGENT)
    result = pytester.runpytest_subprocess("-n0", "--cwsandbox-limit=1", "--cwsandbox-retries=0")
    assert result.parseoutcomes() == {"passed": 1, "infra": 2}
    assert result.ret == INCONCLUSIVE
    result.stdout.fnmatch_lines(["verdicts: infrastructure_error 2"])
    assert [row["reward"] for row in samples(pytester.path)] == [None, None]
    for trajectory in trajectories(pytester.path):
        assert trajectory["reward"] is None
        assert trajectory["stop_reason"] == "infrastructure_error"
    assert "never retrieved" not in result.stderr.str()


def test_a_failure_is_tried_again_on_another_sandbox_while_nothing_is_lost_by_it(
    pytester: pytest.Pytester, faulty: Callable[..., None]
) -> None:
    faulty("create-unavailable@0.3", "exec-unavailable@0.1")
    pytester.makepyfile(test_agent=AGENT.replace("samples=2", "samples=6"))
    pytester.runpytest_subprocess("-n0", "--cwsandbox-limit=1", "--cwsandbox-retries=8")
    rewards = [row["reward"] for row in samples(pytester.path)]
    assert len(rewards) == 6
    assert 0.0 not in rewards
    assert 1.0 in rewards


def test_a_rollout_that_a_test_gives_up_on_ends_with_it(
    pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # of the process that runs this test
    pytester.makepyfile(
        """
        import asyncio
        import os
        import time
        from pathlib import Path
        import pytest
        from cwsandbox import Sandbox

        pytestmark = pytest.mark.problems("bundled")
        WORKER = os.environ.get("PYTEST_XDIST_WORKER", "main")
        ENDED = Path(f"ended-{WORKER}")

        def running():
            tags = ["model:never_ends", f"pytest-worker:{WORKER}"]
            return Sandbox.list(tags=tags).result()

        async def never_ends(messages, tools):
            try:
                await asyncio.sleep(1000)
            finally:
                ENDED.touch()

        def gives_up(rollout):
            with pytest.raises(TimeoutError):
                rollout.result(timeout=0.1)

        def test_gives_up_at_once(problem, rollout):
            gives_up(rollout(problem, policy=never_ends))

        def test_gives_up(problem, rollout):
            started = rollout(problem, policy=never_ends)
            while not running():
                time.sleep(0.05)
            gives_up(started)

        async def test_gives_up_awaiting(problem, rollout):
            started = rollout(problem, policy=never_ends)
            while not running():
                await asyncio.sleep(0.05)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await started

        @pytest.fixture
        def looked_after():
            ENDED.unlink(missing_ok=True)
            yield
            assert ENDED.exists(), "it runs"
            deadline = time.monotonic() + 10
            while running():
                assert time.monotonic() < deadline, "its sandbox runs"

        @pytest.mark.usefixtures("looked_after")
        def test_looks(problem, rollout):
            started = rollout(problem, policy=never_ends)
            while not running():
                time.sleep(0.05)
            gives_up(started)
        """
    )
    result = run("--cwsandbox-limit=1")
    assert result.parseoutcomes() == {"passed": 4}
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*left over*")
    result.stdout.no_fnmatch_line("*cwsandbox pass rates*")
    assert left_in_run_folders(pytester.path) == PLANNED_FILES


def left_in_run_folders(path: Path) -> set[str]:
    """Names of what is below all runs' folders."""
    return {found.name for found in (path / ".cwsandbox" / "runs").glob("*/*")}
