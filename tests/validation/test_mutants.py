from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.connections import grading_session
from pytest_cwsandbox.grading import Grader, Limits
from pytest_cwsandbox.problems import Problem, load
from pytest_cwsandbox.validation.execute import reference_answers
from pytest_cwsandbox.validation.inputs import generate, held_out_asserts
from pytest_cwsandbox.validation.lookup import lookup_table
from pytest_cwsandbox.validation.mutants import confirmed_wrong, mutants

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cwsandbox import Session


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with grading_session(BackendOptions("local")) as session:
        yield session


@pytest.fixture(scope="module")
def grader(session: Session) -> Iterator[Grader]:
    grader = Grader(session, limits=Limits(cpu_seconds=5, wall_seconds=30), held_out=True)
    yield grader
    grader.close()


def bodies(code: str) -> list[str]:
    """The mutants of a function ``f``, without their first line, on one line each."""
    return [
        "; ".join(line.strip() for line in mutant.code.splitlines()[1:])
        for mutant in mutants(code, "f")
    ]


@pytest.mark.parametrize(
    ("body", "mutated"),
    [
        ("return a + b", "return a - b"),
        ("return a < b", "return a <= b"),
        ("return a < b", "return a > b"),
        ("return a == b", "return a != b"),
        ("return a in b", "return a not in b"),
        ("return a and b", "return a or b"),
        ("return -a", "return a"),
        ("return not a", "return a"),
        ("return a[5]", "return a[6]"),
        ("return a[5]", "return a[4]"),
        ("return a[0]", "return a[-1]"),
        ("return a[:b]", "return a[:b + 1]"),
        ("return a[b:]", "return a[b - 1:]"),
        ("return range(a)", "return range(a - 1)"),
        ("return True", "return False"),
        ("return 'th'", "return ''"),
        ("return ''", "return '?'"),
        ("return a + b", "pass"),
        ("return a + b", "return []"),
        ("return a + b", "return None"),
        ("a += b; return a", "pass; return a"),
        ("a.sort(); return a", "pass; return a"),
        ("return pow(a, b)", "return pow(b, a)"),
        ("return min(a)", "return max(a)"),
        ("return any(a)", "return all(a)"),
        ("return abs(a)", "return a"),
        ("return a.upper()", "return a.lower()"),
        ("return a if b else 5", "return a"),
        ("return a if b else 5", "return 5"),
        ("return a if b else 5", "return a if not b else 5"),
        ("return [x for x in a if x]", "return [x for x in a]"),
        ("return f'{a}b'", "return f'{a}'"),
    ],
)
def test_a_mutant_changes_one_place(body: str, mutated: str) -> None:
    assert mutated in bodies(f"def f(a, b):\n    {body}\n")


@pytest.mark.parametrize(
    ("statement", "mutated"),
    [
        ("if a:\n  b = 5\n else:\n  b = 7", "b = 7; return b"),
        ("if a:\n  b = 5\n else:\n  b = 7", "b = 5; return b"),
        ("if a:\n  b = 5", "pass; return b"),
        ("if a:\n  b = 5", "if not a:; b = 5; return b"),
        ("for b in a:\n  print(b)", "for b in a:; print(b); break; return b"),
        ("while a:\n  break", "while a:; continue; return b"),
    ],
)
def test_branches_and_loops_are_mutated(statement: str, mutated: str) -> None:
    assert mutated in bodies(f"def f(a, b):\n {statement}\n return b\n")


def test_parameters_change_places() -> None:
    assert any(
        mutant.code.startswith("def f(b, a):") for mutant in mutants("def f(a, b):\n return a", "f")
    )


def test_docstrings_annotations_and_helpers_interfaces_stay() -> None:
    code = '''
def helper(a: "text"=1) -> "other":
    """Say."""
    return a

def f(a: "text") -> "other":
    """Do."""
    return helper(a)
'''
    for mutant in mutants(code, "f"):
        helper, f = ast.parse(mutant.code).body
        assert ast.unparse(helper).startswith("def helper(a: 'text'=")
        assert ast.get_docstring(helper) == "Say."  # type: ignore[arg-type]  # a function
        assert ast.unparse(f).startswith("def f(a: 'text') -> 'other':")


def test_mutants_of_the_references_are_distinct_and_in_the_order_of_their_lines() -> None:
    for problem in load("bundled"):
        reference = problem.reference_solution
        found = mutants(reference, problem.entry_point)
        assert len(found) >= 10, problem.id
        assert [mutant.line for mutant in found] == sorted(mutant.line for mutant in found)
        programs = {ast.unparse(ast.parse(mutant.code)) for mutant in found}
        assert len(programs | {ast.unparse(ast.parse(reference))}) == len(found) + 1
        assert len({mutant.id for mutant in found}) == len(found)


def test_code_that_does_not_parse_has_no_mutants() -> None:
    assert mutants("def f(:", "f") == []


ABSOLUTE = Problem(
    "1",
    "",
    ("assert f(2) == 2", "assert f(-3) == 3"),
    entry_point="f",
    challenge_test_list=("assert f(-1) == 1",),
    reference_solution="def f(n):\n    return -n if n < 0 else n\n",
)


async def test_only_mutants_that_answer_wrongly_are_confirmed(session: Session) -> None:
    found = mutants(ABSOLUTE.reference_solution, "f")
    calls = generate(ABSOLUTE)
    confirmed = await confirmed_wrong(session, ABSOLUTE, found, calls)
    missing = {mutant.code for mutant in found} - {wrong.mutant.code for wrong in confirmed}
    equivalent = "def f(n):\n    return -n if n <= 0 else n\n"
    assert equivalent in missing
    for wrong in confirmed:
        scope: dict[str, object] = {}
        exec(wrong.mutant.code, scope)  # noqa: S102 - one line of arithmetic
        assert wrong.call not in {"f(2)", "f(-3)"}
        assert not wrong.answer.same(wrong.expected)
    dropped = next(wrong for wrong in confirmed if wrong.mutant.operator == "dropped-sign")
    assert str(dropped) == "dropped-sign-L2: f(-1) is -1, not 1"


async def test_no_end_is_wrong_and_what_the_reference_cannot_do_is_not_held_against(
    session: Session,
) -> None:
    problem = replace(
        ABSOLUTE,
        reference_solution="def f(n):\n    while n > 0:\n        n -= 2\n    return 1 // (n + 1)\n",
    )
    found = mutants(problem.reference_solution, "f")
    fails = await confirmed_wrong(session, problem, found, ["f(1)", "f(3)"])
    assert {wrong.call for wrong in fails} <= {"f(1)", "f(3)", "f(-1)"}
    nothing = replace(problem, challenge_test_list=())
    assert await confirmed_wrong(session, nothing, found, ["f(1)", "f(3)"]) == []
    endless = await confirmed_wrong(session, nothing, found, ["f(4)"])
    assert "timeout" in {wrong.answer.kind for wrong in endless}


@pytest.mark.parametrize("entry_point", ["rotate_left", "merge_bookings", "total_overlap"])
async def test_the_grader_tells_the_reference_from_every_mutant(
    session: Session, grader: Grader, entry_point: str
) -> None:
    problem = next(p for p in load("bundled") if p.entry_point == entry_point)
    calls = generate(problem)
    generated = held_out_asserts(problem, calls, await reference_answers(session, problem, calls))
    problem = replace(problem, challenge_test_list=problem.challenge_test_list + generated)
    assert grader.grade_code(problem, problem.reference_solution).result().reward == 1.0
    found = mutants(problem.reference_solution, entry_point)
    wrong = await confirmed_wrong(session, problem, found, calls)
    assert len(wrong) > 15
    grades = [grader.grade_code(problem, each.mutant.code) for each in wrong]
    assert [grade.result().reward for grade in grades] == [0.0] * len(wrong)


def test_a_lookup_table_passes_the_visible_asserts_and_no_others(grader: Grader) -> None:
    problems = load("bundled")
    tables = [lookup_table(problem) for problem in problems]
    shown = [
        grader.grade_code(replace(problem, challenge_test_list=()), table)
        for problem, table in zip(problems, tables, strict=True)
    ]
    held_out = [
        grader.grade_code(problem, table) for problem, table in zip(problems, tables, strict=True)
    ]
    assert [grade.result().reward for grade in shown] == [1.0] * len(problems)
    assert [grade.result().reward for grade in held_out] == [0.0] * len(problems)


@pytest.mark.parametrize(
    ("test", "answer"),
    [
        ("assert f(1) == 2", 2),
        ("assert 2 == f(1)", 2),
        ("assert f(1) is None", None),
        ("assert f(1)", True),
        ("assert not f(1)", False),
        ("assert math.isclose(f(1), 2.5)", 2.5),
        ("assert abs(f(1) - 2.5) < 1e-9", 2.5),
        ("assert sorted(f(1)) == [2, 3]", [2, 3]),
        ("assert round(f(1), 2) == 2.5", 2.5),
        ("assert f(1) != 2", None),
        ("assert f(1)[0] == 2", None),
        ("assert len(f(1)) == 2", None),
        ("assert all(f(x) == 2 for x in [1])", None),
    ],
)
def test_the_table_has_the_answer_that_an_assert_states(test: str, answer: object) -> None:
    problem = Problem("1", "", (test,), entry_point="f")
    scope: dict[str, object] = {}
    exec(lookup_table(problem), scope)  # noqa: S102 - the table of the assert above
    assert scope["f"](1) == answer  # type: ignore[operator]  # a function
    assert scope["f"](7) is None  # type: ignore[operator]  # a function
