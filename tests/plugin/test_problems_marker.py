"""`@pytest.mark.problems`: rows become items with stable ids."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., pytest.RunResult]

ROWS = [
    {"task_id": number, "text": "t", "code": f"def f(x): return {number}",
     "test_list": [f"assert f(0) == {number}"], "test_setup_code": "", "challenge_test_list": []}
    for number in (11, 12)
]  # fmt: skip


@pytest.fixture
def mbpp(pytester: pytest.Pytester) -> str:
    (pytester.path / "mbpp.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return "mbpp.jsonl"


def test_ids_carry_source_problem_and_sample(
    pytester: pytest.Pytester, run: Run, mbpp: str
) -> None:
    pytester.makepyfile(
        test_ids="""
        import pytest

        @pytest.mark.problems()
        def test_one(problem): assert problem.source == "mbpp"

        @pytest.mark.problems(samples=2)
        def test_two(sample, problem): assert sample in (0, 1)

        @pytest.mark.problems(samples=2)
        def test_asks_for_neither(): pass
        """
    )
    result = run(f"--cwsandbox-problems={mbpp}", "-v")
    result.assert_outcomes(passed=10)
    for name in (
        "test_one[[]mbpp-11]", "test_one[[]mbpp-12]",
        "test_two[[]mbpp-11-s0]", "test_two[[]mbpp-12-s1]", "test_asks_for_neither[[]mbpp-12-s1]",
    ):  # fmt: skip
        result.stdout.fnmatch_lines([f"*{name}*"])


def test_limit_and_split_choose_problems(pytester: pytest.Pytester, run: Run, mbpp: str) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.problems()
        def test_one(problem): pass
        """
    )
    run(f"--cwsandbox-problems={mbpp}", "--cwsandbox-limit=1").assert_outcomes(passed=1)
    run(f"--cwsandbox-problems={mbpp}", "--cwsandbox-split=test").assert_outcomes(passed=2)
    nothing = run(f"--cwsandbox-problems={mbpp}", "--cwsandbox-split=train")
    assert nothing.ret != 0


def test_bundled_problems_are_the_default(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.problems()
        def test_one(problem): assert problem.source == "bundled"
        """
    )
    result = run("-v")
    result.stdout.fnmatch_lines(["*test_one[[]bundled-1]*"])
    assert result.parseoutcomes()["passed"] >= 30


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("problems('mbpp')", "mbpp is fetched from the network*--cwsandbox-problems=mbpp"),
        ("problems(samples=0)", "samples must be a whole number of at least 1, got 0"),
        ("problems(samples=True)", "samples must be a whole number of at least 1, got True"),
        ("problems(smaples=2)", "the marker takes problems(source=None, samples=1, group=None)"),
        ("problems(source=3)", "source must be a name or a path, got 3"),
        ("problems('nowhere.jsonl')", "*nowhere.jsonl*"),
        ("problems(group='')", "group must be a non-empty text, got ''"),
    ],
)
def test_a_bad_marker_is_one_collection_error_line(
    pytester: pytest.Pytester, marker: str, message: str
) -> None:
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.{marker}
        def test_one(problem): pass
        """
    )
    result = pytester.runpytest_subprocess("-n1")
    assert result.ret != 0
    result.stdout.fnmatch_lines([f"*test_one: @pytest.mark.problems: {message}*"])
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*pytest_generate_tests*")


def test_problem_without_marker_says_how_to_mark(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile("def test_one(problem): pass")
    run().stdout.fnmatch_lines(
        ["*test_one asks for `problem`: mark it with @pytest.mark.problems()*"]
    )


def test_groups_are_source_and_function_or_a_given_name(
    pytester: pytest.Pytester, run: Run, mbpp: str
) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.problems()
        def test_one(problem, record_reward): record_reward(1.0)

        @pytest.mark.problems(group="named")
        def test_two(problem, record_reward): record_reward(1.0)
        """
    )
    result = run(f"--cwsandbox-problems={mbpp}")
    result.stdout.fnmatch_lines(["mbpp/named *2/2*", "mbpp/test_one *2/2*", "all *4/4*"])
