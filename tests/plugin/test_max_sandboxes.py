"""Never more sandboxes of a run than its user allows, by the runner's own count."""

from __future__ import annotations

import sys

import pytest

# Counts what the runner lists for this run, in a thread of one process, while tests run.
COUNTING = """
import threading, time
from pathlib import Path

def pytest_sessionstart(session):
    if getattr(session.config, "workerinput", {}).get("workerid", "gw0") == "gw0":
        threading.Thread(target=count, daemon=True).start()

def count():
    import os
    from cwsandbox import Sandbox
    highest = 0
    while True:
        if "CWSANDBOX_BASE_URL" in os.environ:
            found = len(Sandbox.list(tags=["rl-training"]).result())
            if found > highest:
                highest = found
                Path("highest").write_text(str(highest))
        time.sleep(0.01)
"""
TESTS = """
import pytest

@pytest.mark.problems(samples=3)
async def test_agents(problem, rollout):
    assert (await rollout(problem)).reward == 1.0

@pytest.mark.problems()
def test_holds_one_and_grades(problem, sandbox, grade):
    assert grade(problem, problem.reference_solution).result().reward == 1.0
    assert sandbox.exec(["true"]).result().returncode == 0
"""


@pytest.mark.parametrize(("how", "most"), [("-n0", 3), ("-n2", 6)])
def test_no_more_are_alive_and_all_is_done(pytester: pytest.Pytester, how: str, most: int) -> None:
    pytester.makeconftest(COUNTING)
    pytester.makepyfile(TESTS)
    result = pytester.run(
        *(sys.executable, "-m", "pytest_cwsandbox", "serve", "--fault=create-latency=0.05", "--"),
        *(sys.executable, "-m", "pytest", how, "--cwsandbox-limit=4", "--cwsandbox-concurrency=8"),
        f"--cwsandbox-max-sandboxes={most}",
    )
    result.assert_outcomes(passed=16)
    assert 2 <= int((pytester.path / "highest").read_text()) <= most


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (("-n0", "--cwsandbox-max-sandboxes=2"), "=2: must be at least 3: it needs one for a test"),
        (("-n4", "--cwsandbox-max-sandboxes=11"), "=11: must be at least 12: each of 4 processes"),
    ],
)
def test_too_few_are_a_usage_error_that_says_how_many_it_takes(
    pytester: pytest.Pytester, args: tuple[str, ...], complaint: str
) -> None:
    pytester.makepyfile("def test_plain(): pass")
    result = pytester.runpytest_subprocess(*args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*--cwsandbox-max-sandboxes{complaint}*"])


def test_a_test_that_needs_more_than_there_can_be_is_told_at_once(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile("def test_two(sandbox_factory): sandbox_factory(); sandbox_factory()")
    result = pytester.runpytest_subprocess("-n0", "--cwsandbox-max-sandboxes=3")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*holds 1 sandbox* and asks for another*allows one process 1*"])


def test_so_is_one_whose_threads_need_more(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from concurrent.futures import ThreadPoolExecutor

        def test_two(sandbox_factory):
            with ThreadPoolExecutor() as threads:
                list(threads.map(lambda _: sandbox_factory(), range(2)))
        """
    )
    result = pytester.runpytest_subprocess("-n0", "--cwsandbox-max-sandboxes=3", timeout=100)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*holds 1 sandbox* and asks for another*"])


def test_one_that_did_not_start_is_not_held(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from pytest_cwsandbox.errors import InfrastructureError

        def test_again(sandbox_factory):
            with pytest.raises(InfrastructureError):
                sandbox_factory(container_image="python:3.99")
            assert sandbox_factory().exec(["true"]).result().returncode == 0
        """
    )
    result = pytester.runpytest_subprocess(
        "-n0", "--cwsandbox-max-sandboxes=3", "--cwsandbox-retries=0"
    )
    result.assert_outcomes(passed=1)


def test_a_service_without_room_is_waited_for_and_said(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.problems()
        def test_grades(problem, grade):
            grades = [grade(problem, problem.reference_solution) for _ in range(12)]
            assert {each.result().reward for each in grades} == {1.0}
        """
    )
    result = pytester.run(
        *(sys.executable, "-m", "pytest_cwsandbox", "serve", "--fault=capacity=3", "--"),
        *(sys.executable, "-m", "pytest", "-n0", "--cwsandbox-limit=1", "--cwsandbox-retries=0"),
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["sandboxes: *; the service had no room *, the limit was lowered *"]
    )
