"""Sandboxes for the tests that come next, begun while the present one runs."""

from __future__ import annotations

import sys

import pytest

# What there is at the service that carries this run's tags, by the test that it is for.
LISTED = """
import time
import pytest
from cwsandbox import Sandbox

@pytest.fixture
def started(request, cwsandbox_defaults):
    run = [tag for tag in cwsandbox_defaults.tags if tag.startswith("pytest-run:")]

    def names():
        return sorted(sandbox_names())

    def sandbox_names():
        for box in Sandbox.list(tags=run).result():
            if box.status == "running":
                yield box.sandbox_id

    def wait_for(number):
        deadline = time.monotonic() + 60
        while len(names()) != number:
            assert time.monotonic() < deadline, names()
            time.sleep(0.02)
        return names()

    return wait_for

"""

OVERRIDDEN = """
class TestOverridden:
    @pytest.fixture
    def {0}(self):
        return lambda: None

    def test_next(self, sandbox): pass
"""


def write(pytester: pytest.Pytester, tests: str) -> None:
    pytester.makepyfile(LISTED + tests)


@pytest.mark.parametrize("how", [("-n0",), ("-n1",), ("-p", "no:xdist")])
def test_the_next_test_finds_its_sandbox_started(
    pytester: pytest.Pytester, how: tuple[str, ...]
) -> None:
    write(
        pytester,
        """
THERE = []

@pytest.mark.parametrize("number", range(3))
def test_in_order(number, sandbox, started):
    if number:
        assert sandbox.sandbox_id in THERE[-1]
    THERE.append(started(2 if number < 2 else 1))
""",
    )
    result = pytester.runpytest_subprocess(*how, "--cwsandbox-concurrency=1")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["sandboxes: 3 started, highest * at once, mean *"])


def test_what_is_not_taken_is_removed(pytester: pytest.Pytester) -> None:
    write(
        pytester,
        """
def test_fails(sandbox, started):
    started(2)
    assert False

def test_is_not_reached(sandbox): pass
""",
    )
    result = pytester.runpytest_subprocess("-n0", "-x")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["sandboxes: 2 started, highest 2 at once, mean *"])
    result.stdout.no_fnmatch_line("*left over*")


@pytest.mark.parametrize(
    "following",
    [
        "@pytest.mark.skip\ndef test_next(sandbox): pass",
        "@pytest.mark.skipif(True, reason='')\ndef test_next(sandbox): pass",
        "@pytest.mark.xfail(run=False)\ndef test_next(sandbox): pass",
        OVERRIDDEN.format("sandbox"),
        OVERRIDDEN.format("sandbox_factory"),
        "def test_next(sandbox_factory): pass",
        "def test_next(): pass",
    ],
)
def test_nothing_is_started_for_a_test_that_takes_none(
    pytester: pytest.Pytester, following: str
) -> None:
    pytester.makepyfile(f"import pytest\n\ndef test_first(sandbox): pass\n\n{following}\n")
    result = pytester.runpytest_subprocess("-n0")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["sandboxes: 1 started, highest 1 at once, mean 1.0"])


def test_a_sandbox_that_dies_before_its_use_is_replaced_and_counted(
    pytester: pytest.Pytester,
) -> None:
    write(
        pytester,
        """
def test_kills(sandbox, started):
    [other] = {*started(2)} - {sandbox.sandbox_id}
    Sandbox.delete(other).result()

def test_has_one(sandbox, record_reward):
    record_reward(float(sandbox.exec(["true"]).result().returncode == 0))
""",
    )
    result = pytester.runpytest_subprocess("-n0")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        ["*1 *made good by retries*", "sandboxes: 3 started (1 of them again), *"],
        consecutive=False,
    )


def test_no_sandbox_is_started_for_a_grade_in_vain(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from pytest_cwsandbox.problems import Problem

        ADD = Problem("1", "", ("assert add(1, 2) == 3",))

        @pytest.mark.parametrize("number", range(6))
        def test_grades(number, grade):
            assert grade(ADD, "def add(a, b): return a + b").result().reward == 1.0
        """
    )
    result = pytester.runpytest_subprocess("-n0")
    result.assert_outcomes(passed=6)
    # One more is for the grader's self-test.
    result.stdout.fnmatch_lines(["sandboxes: 7 started, highest *"])


def test_defaults_may_change_in_the_middle_of_a_run(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session", params=["blue", "red"])
        def cwsandbox_defaults(cwsandbox_defaults, request):
            return cwsandbox_defaults.with_overrides(
                environment_variables={"COLOUR": request.param}
            )
        """
    )
    pytester.makepyfile(
        """
        def test_one(sandbox, cwsandbox_defaults):
            colour = cwsandbox_defaults.environment_variables["COLOUR"]
            assert sandbox.exec(["sh", "-c", "echo $COLOUR"]).result().stdout == colour + "\\n"

        def test_two(sandbox, cwsandbox_defaults):
            test_one(sandbox, cwsandbox_defaults)
        """
    )
    pytester.runpytest_subprocess("-n0").assert_outcomes(passed=4)


def test_every_run_of_a_process_counts_its_own_sandboxes(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_one(sandbox): pass")
    twice = "import pytest; [pytest.main(['-n0', '-p', 'no:cacheprovider']) for _ in range(2)]"
    result = pytester.run(sys.executable, "-c", twice)
    said = [line for line in result.outlines if line.startswith("sandboxes:")]
    assert said == ["sandboxes: 1 started, highest 1 at once, mean 1.0"] * 2
