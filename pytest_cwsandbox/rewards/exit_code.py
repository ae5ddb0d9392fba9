"""The naive pattern of most examples, kept to be measured: do not train with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_cwsandbox.grading import ExitCodeGrader, extract_code
from pytest_cwsandbox.outcome import Outcome, Verdict
from pytest_cwsandbox.rewards.columns import problems_of, texts_of
from pytest_cwsandbox.rewards.log import warn_of_losses
from pytest_cwsandbox.rewards.session import shared_session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_cwsandbox.problems import Problem
    from pytest_cwsandbox.rewards.columns import Completion

NO_CODE = Outcome(Verdict.NO_CODE)


def exit_code_reward(
    prompts: Sequence[object],
    completions: Sequence[Completion],
    **columns: object,
) -> list[float | None]:
    """1.0 if and only if solution and asserts, joined to one program, exit with 0.

    Everything that leaves early, lies about equality or reads the asserts is paid in full.
    """
    del prompts
    grader = ExitCodeGrader(shared_session())
    try:
        texts = texts_of(completions)
        problems = problems_of(columns, len(texts))
        refs = []
        for problem, text in zip(problems, texts, strict=True):
            code = extract_code(text, problem.entry_point)
            refs.append(None if code is None else grader.grade(program(problem, code)))
        outcomes = [NO_CODE if ref is None else ref.result() for ref in refs]
        warn_of_losses("exit_code_reward", outcomes)
        return [outcome.reward for outcome in outcomes]
    finally:
        grader.close()


def program(problem: Problem, code: str) -> str:
    """Imports, solution, setup and visible asserts, one after the other."""
    return "\n".join((*problem.test_imports, code, problem.test_setup_code, *problem.test_list))
