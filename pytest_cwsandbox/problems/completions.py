"""Completions to be graded: each row carries its own asserts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_cwsandbox.problems.rows import read_rows
from pytest_cwsandbox.problems.schema import problem_with_asserts

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_cwsandbox.problems.problem import Problem


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model wrote for a problem; ``id`` is the row's, or its number from 1.

    ``is_code`` says that the text is a program already ("solution") and nothing to extract from.
    """

    id: str
    text: str
    problem: Problem
    is_code: bool = False


def load_completions(path: Path) -> list[Completion]:
    """Read rows ``{"id"?, "completion" or "solution", "test_list", "test_imports"?, ...}``.

    The optional fields are those of ``Problem``. Raises ``ProblemFileError``.
    """
    completions = []
    for number, row in enumerate(read_rows(path), start=1):
        id_ = row.key("id") if "id" in row else str(number)
        is_code = "solution" in row
        if is_code and "completion" in row:
            row.fail('holds both "completion" and "solution": keep one of them')
        text = row.text("solution" if is_code else "completion")
        problem = problem_with_asserts(row, id_, row.text("prompt", ""))
        completions.append(Completion(id_, text, problem, is_code))
    return completions
