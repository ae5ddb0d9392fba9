"""The shared cases, the attacks and the honest programs, through real sandboxes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cwsandbox.problems import Problem

from .honest import HONEST
from .programs import ATTACKS

if TYPE_CHECKING:
    from pytest_cwsandbox.grading import Grader

    from .programs import Row


def rows(name: str) -> list[dict[str, object]]:
    """The rows of a shared file; one that says that it is missing where there is none."""
    beside = Path(__file__).resolve().parents[3] / "shared"
    file = Path(os.environ.get("CWSANDBOX_TEST_SHARED") or beside) / "cases" / name
    if not file.exists():
        return [{"id": f"missing {name}"}]
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.parametrize(
    "row", rows("grading.jsonl") + rows("extraction.jsonl"), ids=lambda row: row["id"]
)
def test_a_shared_case_gets_its_reward(row: dict[str, Any], shared: object, grader: Grader) -> None:
    problem = Problem(
        task_id=row["id"],
        prompt="",
        test_list=tuple(row["test_list"]),
        entry_point=row.get("entry_point", ""),
        test_imports=tuple(row.get("test_imports", ())),
    )
    if "solution" in row:
        outcome = grader.grade_code(problem, row["solution"]).result()
    else:
        outcome = grader.grade(problem, row["completion"]).result()
    assert outcome.reward == row["reward"], outcome


def problem_of(row: Row) -> Problem:
    return Problem(
        task_id=row.name,
        prompt="",
        test_list=row.asserts,
        test_imports=row.imports,
        test_setup_code=row.setup,
        reference_solution=row.reference,
    )


@pytest.mark.parametrize("row", ATTACKS, ids=lambda row: row.name)
def test_an_attack_earns_nothing(row: Row, grader: Grader) -> None:
    outcome = grader.grade_code(problem_of(row), row.solution).result()
    assert outcome.reward == 0.0, outcome


@pytest.mark.parametrize("row", HONEST, ids=lambda row: row.name)
def test_an_honest_program_earns_all(row: Row, grader: Grader) -> None:
    outcome = grader.grade_code(problem_of(row), row.solution).result()
    assert outcome.reward == 1.0, outcome
