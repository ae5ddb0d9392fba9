from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.problems import Problem, infer_entry_point, load

if TYPE_CHECKING:
    from collections.abc import Iterable

# Reads [[id, solution, [imports], setup, [asserts]], ...]; prints the ids and asserts that fail.
JUDGE = """
import json, sys
for id_, solution, imports, setup, asserts in json.load(sys.stdin):
    for test in asserts:
        names = {"__name__": "solution"}
        try:
            for source in (*imports, solution, setup, test):
                exec(source, names)
        except Exception as error:
            print(id_, test, type(error).__name__)
"""


def failures(
    rows: Iterable[tuple[Problem, str, Iterable[str]]], *, hash_seed: str = "0"
) -> list[str]:
    """Each (problem, solution, asserts) in one interpreter; what fails, one line each."""
    programs = [
        (p.id, solution, p.test_imports, p.test_setup_code, list(asserts))
        for p, solution, asserts in rows
    ]
    done = subprocess.run(
        [sys.executable, "-s", "-P", "-W", "error", "-c", JUDGE],  # -I would drop the hash seed
        input=json.dumps(programs),
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_there_are_at_least_forty_problems_with_distinct_entry_points() -> None:
    problems = load("bundled")
    assert len(problems) >= 40
    assert len({problem.entry_point for problem in problems}) == len(problems)
    assert [problem.task_id for problem in problems] == [
        str(number) for number in range(1, len(problems) + 1)
    ]


@pytest.mark.parametrize("seed", ["0", "1", "2", "3", "4"])
def test_every_reference_passes_its_asserts_whatever_the_hash_seed(seed: str) -> None:
    rows = [(p, p.reference_solution, p.test_list + p.challenge_test_list) for p in load("bundled")]
    assert failures(rows, hash_seed=seed) == []


# Answers what the visible asserts ask, with the reference's answers, and falls back on a constant.
LOOKUP_TABLE = """
import json
{reference}
real, known, learning = {name}, set(), None

def {name}(*args):
    global learning
    if learning is None:
        learning = True
        for test in {visible}:
            exec(test, globals())
        learning = False
    key = json.dumps(args, default=vars)
    if learning:
        known.add(key)
    return real(*args) if key in known else {fallback}
"""


@pytest.mark.parametrize("fallback", ["None", "0", "True", "False", "''", "[]", "args[0]"])
def test_a_lookup_table_of_the_visible_asserts_fails_held_out_ones(fallback: str) -> None:
    cheats = {
        p: LOOKUP_TABLE.format(
            reference=p.reference_solution,
            name=p.entry_point,
            visible=p.test_list,
            fallback=fallback,
        )
        for p in load("bundled")
    }
    assert failures((p, cheat, p.test_list) for p, cheat in cheats.items()) == []
    failed = failures((p, cheat, p.challenge_test_list) for p, cheat in cheats.items())
    assert {line.split()[0] for line in failed} == {p.id for p in cheats}


def test_every_problem_shows_three_asserts_and_holds_out_at_least_three() -> None:
    for problem in load("bundled"):
        assert len(problem.test_list) == 3, problem.id
        assert len(problem.challenge_test_list) >= 3, problem.id
        assert set(problem.test_list).isdisjoint(problem.challenge_test_list), problem.id


def test_every_prompt_names_the_function_and_what_the_tests_bring_along() -> None:
    for problem in load("bundled"):
        assert f"`{problem.entry_point}(" in problem.prompt, problem.id
        assert problem.prompt.isascii(), problem.id
        assert infer_entry_point(problem.test_list, problem.reference_solution) == (
            problem.entry_point
        )
