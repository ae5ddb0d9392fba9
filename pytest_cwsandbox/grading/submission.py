"""What an agent handed in: code, though some models hand in a whole message."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_cwsandbox.outcome import Outcome, Verdict

if TYPE_CHECKING:
    from pytest_cwsandbox.grading.grader import Grader
    from pytest_cwsandbox.problems.problem import Problem

MARKUP = re.compile(r"```|~~~|<answer|</think")


async def grade_submission(
    grader: Grader, problem: Problem, answer: str, *, held_out: bool
) -> Outcome:
    """Grade it as code, and where that does not parse by the code in it."""
    outcome = await grader.grade_code(problem, answer, held_out=held_out)
    if outcome.verdict is Verdict.SYNTAX_ERROR and MARKUP.search(answer):
        outcome = await grader.grade(problem, answer, held_out=held_out)
    return outcome
