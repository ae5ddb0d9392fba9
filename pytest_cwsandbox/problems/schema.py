"""From rows to problems: our own schema and the two of MBPP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_cwsandbox.problems.entry_point import infer_entry_point
from pytest_cwsandbox.problems.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_cwsandbox.problems.rows import Row

MBPP_SPLITS = {
    "prompt": range(1, 11),
    "test": range(11, 511),
    "validation": range(511, 601),
    "train": range(601, 975),
}


def problems_from_rows(rows: Sequence[Row], source: str) -> list[Problem]:
    """One problem per row, in order; raises ``ProblemFileError`` on the first row that is none."""
    seen: dict[str, str] = {}
    problems = []
    for row in rows:
        problem = problem_from_row(row, source)
        first = seen.setdefault(problem.task_id, row.where)
        if first != row.where:
            row.fail(f'field "task_id" repeats "{problem.task_id}" of {first}')
        problems.append(problem)
    return problems


def problem_from_row(row: Row, source: str) -> Problem:
    """A row with ``code`` or ``text`` follows MBPP's names, any other the fields of ``Problem``."""
    is_mbpp = "code" in row or "text" in row
    task_id = row.key("task_id")
    prompt = row.text("text" if "text" in row else "prompt")
    solution = row.text("code") if is_mbpp else row.text("reference_solution", "")
    # Others write their own problems with MBPP's names and numbers.
    numbered = is_mbpp and "mbpp" in source.lower()
    split = row.text("split", _mbpp_split(task_id) if numbered else "")
    return problem_with_asserts(row, task_id, prompt, solution=solution, split=split, source=source)


def problem_with_asserts(
    row: Row, task_id: str, prompt: str, *, solution: str = "", split: str = "", source: str = ""
) -> Problem:
    """A problem with the asserts of ``row``, whose names all schemas share."""
    test_list = row.asserts("test_list")
    if not test_list:
        row.fail('field "test_list" is empty; a problem needs at least one assert')
    test_imports = row.statements("test_imports")
    entry_point = row.text("entry_point", "")
    if entry_point and not entry_point.isidentifier():
        row.fail(f'field "entry_point" must be the name of a function, got "{entry_point}"')
    return Problem(
        task_id=task_id,
        prompt=prompt,
        test_list=test_list,
        entry_point=entry_point or infer_entry_point(test_list, solution, test_imports),
        test_imports=test_imports,
        test_setup_code=row.text("test_setup_code", ""),
        challenge_test_list=row.asserts("challenge_test_list", ()),
        reference_solution=solution,
        split=split,
        source=source,
    )


def _mbpp_split(task_id: str) -> str:
    number = int(task_id) if task_id.isdecimal() else 0
    return next((name for name, numbers in MBPP_SPLITS.items() if number in numbers), "")
