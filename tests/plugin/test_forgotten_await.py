"""A forgotten `await` does not pass for a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("fixture", "call"),
    [
        ("rollout", "rollout(problem)"),
        ("grade", "grade(problem, problem.reference_solution)"),
        ("grade_exit_code", "grade_exit_code('1')"),
    ],
)
def test_a_result_that_nobody_waits_for_fails_the_test(
    pytester: pytest.Pytester, fixture: str, call: str
) -> None:
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.problems()
        async def test_forgets(problem, {fixture}):
            {call}

        @pytest.mark.problems()
        async def test_waits(problem, {fixture}):
            await {call}
        """
    )
    result = pytester.runpytest_subprocess("--cwsandbox-limit=1")
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines([f"the test started {fixture}() and never waited for it: *await*"])


def test_a_reference_that_is_taken_for_its_result_says_what_is_missing(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.problems()
        def test_reward(problem, rollout):
            assert rollout(problem).reward == 1.0
        """
    )
    result = pytester.runpytest_subprocess("--cwsandbox-limit=1")
    result.stdout.fnmatch_lines(["E*AttributeError: reward: this is no result yet: write *await*"])


def test_a_users_mistake_is_one_line(
    pytester: pytest.Pytester, run: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.problems()
        async def test_typo(problem, rollout):
            await rollout(problem, temprature=1)
        """
    )
    result = run("--cwsandbox-limit=1")
    result.assert_outcomes(failed=1)
    mistake = "rollout() knows no temprature; did you mean temperature?"
    result.stdout.fnmatch_lines([f"test_a_users_mistake_is_one_line.py:5: cwsandbox: {mistake}"])
    result.stdout.no_fnmatch_line("*rollout_fixture.py*")
