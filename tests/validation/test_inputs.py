from __future__ import annotations

import ast
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.connections import grading_session
from pytest_cwsandbox.errors import InfrastructureError
from pytest_cwsandbox.problems import Problem, load
from pytest_cwsandbox.validation import execute
from pytest_cwsandbox.validation.execute import (
    Answer,
    Program,
    answers,
    answers_of,
    reference_answers,
)
from pytest_cwsandbox.validation.inputs import calls_in, checkable, generate, held_out_asserts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cwsandbox import Session

NOT_LITERAL = {"leaf_values", "total_overlap", "longest_title", "every_second"}


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with grading_session(BackendOptions("local")) as session:
        yield session


def problem(*asserts: str, name: str = "f", reference: str = "") -> Problem:
    return Problem("1", "", asserts, entry_point=name, reference_solution=reference)


def arguments(call: str) -> list[object]:
    """The literal arguments of a call, inside any wrappers."""
    node = ast.parse(call, mode="eval").body
    while isinstance(node, ast.Call) and ast.unparse(node.func) in {"list", "sorted"}:
        node = node.args[0]
    assert isinstance(node, ast.Call)
    return [ast.literal_eval(argument) for argument in node.args]


def test_every_bundled_problem_with_literal_arguments_gets_forty_calls() -> None:
    for each in load("bundled"):
        wanted = 0 if each.entry_point in NOT_LITERAL else 40
        assert len(set(generate(each))) == wanted, each.id


def test_no_generated_call_stands_in_a_visible_assert() -> None:
    for each in load("bundled"):
        visible = calls_in(each.test_list, each.entry_point)
        assert set(generate(each)).isdisjoint(visible), each.id


def test_the_calls_are_the_same_in_every_process_and_others_with_another_seed() -> None:
    program = """
from pytest_cwsandbox.problems import Problem, load
from pytest_cwsandbox.validation.inputs import generate
sets = Problem("1", "", ("assert f({'a', 'b', 'c'}) == 1", "assert f({'d'}) == 2"), "f")
print([generate(problem) for problem in (*load("bundled"), sets)])
"""
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(printed) == 1
    problem = load("bundled")[0]
    assert generate(problem, seed=1) != generate(problem)


def test_arguments_keep_the_types_that_the_asserts_show() -> None:
    shown = problem(
        "assert f([1, 2, 3], {'a': (1, 0.5)}, True) == 1",
        "assert f([], {}, False) == 2",
        "assert f([7], {'bc': (2, 1.5), 'd': (3, 0.25)}, True) == 3",
    )
    calls = generate(shown)
    assert len(calls) == 40
    for call in calls:
        numbers, mapping, flag = arguments(call)
        assert isinstance(numbers, list)
        assert all(type(number) is int for number in numbers)
        assert isinstance(mapping, dict)
        assert all(type(key) is str for key in mapping)
        assert all([type(part) for part in row] == [int, float] for row in mapping.values())
        assert isinstance(flag, bool)


def test_empty_and_long_and_large_values_are_among_the_inputs() -> None:
    given = [
        arguments(call)
        for call in generate(
            problem("assert f([1, 2], 'ab', 3) == 1", "assert f([4], 'c', 5) == 2"), count=200
        )
    ]
    lists = [first for first, _, _ in given if isinstance(first, list)]
    assert [] in lists
    assert max(map(len, lists)) > 2
    assert "" in [text for _, text, _ in given]
    assert {0} & {number for _, _, number in given}
    assert max(number for _, _, number in given if isinstance(number, int)) >= 1000


def test_numbers_turn_negative_only_where_the_asserts_show_negative_ones() -> None:
    count = arguments_of_all("assert f(3) == 1", "assert f(12) == 2")
    assert all(isinstance(number, int) and number >= 0 for number in count)
    signed = arguments_of_all("assert f(3) == 1", "assert f(-12) == 2")
    assert any(isinstance(number, int) and number < 0 for number in signed)


def arguments_of_all(*asserts: str) -> list[object]:
    return [argument for call in generate(problem(*asserts)) for argument in arguments(call)]


def test_numbers_that_always_rise_keep_rising() -> None:
    bounds = problem(
        "assert f([5], 3, 7) == 1", "assert f([1], 0, 1) == 2", "assert f([4], 4, 4) == 3"
    )
    calls = [arguments(call) for call in generate(bounds)]
    assert all(low <= high for _, low, high in calls)  # type: ignore[operator]  # numbers


def test_lengths_that_never_change_stay() -> None:
    boards = problem("assert f(['X.', '.O']) == 1", "assert f(['OO', '..']) == 2")
    for board in arguments_of_calls(boards):
        assert isinstance(board, list)
        assert [len(row) for row in board] == [2, 2]


def arguments_of_calls(shown: Problem) -> list[object]:
    return [argument for call in generate(shown) for argument in arguments(call)]


def test_lists_of_equal_length_often_stay_so() -> None:
    pairs = problem(
        "assert f([1, 2, 3], ['a', 'b', 'c']) == 1",
        "assert f([4], ['d']) == 2",
        "assert f([], []) == 3",
    )
    lengths = [
        [len(given) for given in arguments(call) if isinstance(given, list)]
        for call in generate(pairs)
    ]
    equal = [first for first, second in lengths if first == second]
    assert 10 < len(equal) < len(lengths)
    assert {1, 2} < set(equal)


def test_what_wraps_the_call_of_a_generator_stays_around_it() -> None:
    calls = generate(problem("assert list(f([1, 2])) == [1]", "assert list(f([3])) == [3]"))
    assert calls
    assert all(call.startswith("list(f([") for call in calls)


@pytest.mark.parametrize(
    "asserts",
    [
        ("assert f(Pair(5, 24)) == 1",),
        ("assert f([]) == 0", "assert f(chain) == 1"),
        ("assert f() == 1",),
        ("assert g(1) == 1",),
        ("assert f(1) ==",),
    ],
)
def test_where_arguments_are_no_literals_nothing_is_generated(asserts: tuple[str, ...]) -> None:
    assert generate(problem(*asserts)) == []


async def test_the_reference_passes_the_held_out_asserts(session: Session) -> None:
    shown = problem(
        "assert f(12, 4) == 3",
        "assert f(9, 3) == 3",
        reference="def f(a, b):\n    return {a // b} if a % 2 else a / b\n",
    )
    calls = ["f(7, 2)", "f(1, 0)", "f(8, 2)", "f(5, 2)"]
    asserts = held_out_asserts(shown, calls, await reference_answers(session, shown, calls))
    assert asserts == (
        "assert f(7, 2) == {3}",
        "assert f(8, 2) == 4.0",
        "assert f(5, 2) == {2}",
    )
    assert checkable(asserts)
    assert not checkable(asserts[:2])
    scope: dict[str, object] = {}
    exec(shown.reference_solution + "\n".join(asserts), scope)  # noqa: S102 - written above


def test_floats_are_compared_as_the_visible_asserts_compare_them() -> None:
    shown = problem("assert math.isclose(f(1), 0.5)")
    given = [Answer("value", "0.25"), Answer("value", "None")]
    assert held_out_asserts(shown, ["f(2)", "f(3)"], given) == (
        "assert math.isclose(f(2), 0.25)",
        "assert f(3) == None",
    )


def test_an_entry_point_that_is_not_stated_is_inferred() -> None:
    assert generate(problem("assert f(1) == 1", name="")) == generate(problem("assert f(1) == 1"))


async def test_every_kind_of_answer_is_told_and_none_disturbs_the_next(session: Session) -> None:
    code = """
import os
class Point:
    pass
def loop():
    while True:
        pass
def swallow():
    while True:
        try:
            loop()
        except BaseException:
            pass
"""
    told = {
        "Point()": Answer("other", "Point"),
        "1 / 0": Answer("error", "ZeroDivisionError"),
        "exit(3)": Answer("error", "SystemExit"),
        "(lambda f: f(f))(lambda f: f(f))": Answer("error", "RecursionError"),
        "[0] * 10**10": Answer("error", "MemoryError"),
        "os._exit(3)": Answer("died", "3"),
        "os.abort()": Answer("died", "-6"),
        "loop()": Answer("timeout"),
        "swallow()": Answer("timeout"),
        "float('nan')": Answer("other", "float"),
        "float('-inf')": Answer("value", "-1e999"),
        "'x' * 10**6": Answer("other", "str"),
        "{'b', 'a'}": Answer("value", "{'a', 'b'}"),
        "[(1,), set(), {None: b'x'}]": Answer("value", "[(1,), set(), {None: b'x'}]"),
        "print('noise')": Answer("value", "None"),
        "len(setup)": Answer("value", "5"),
    }
    found = await answers(session, code, "setup = 'setup'", [*told], seconds_per_call=0.2)
    assert dict(zip(told, found, strict=True)) == told


async def test_a_program_that_sleeps_runs_out_of_time_too(session: Session) -> None:
    found = await answers(
        session, "import time", "", ["time.sleep(999)", "1"], seconds_per_call=0.1
    )
    assert found == [Answer("timeout"), Answer("value", "1")]


async def test_a_program_that_keeps_running_out_of_time_is_given_up(session: Session) -> None:
    endless = Program("def f(n):\n    while n:\n        pass\n    return n\n", ("f(1)",) * 9)
    broken = Program("def f(:\n", ("f(1)", "f(2)"))
    right = Program("def f(n):\n    return n\n", ("f(1)",))
    found = await answers_of(session, [endless, broken, right], seconds_per_call=0.1, patience=2)
    assert [answer.kind for answer in found[0]] == ["timeout"] * 2 + ["skipped"] * 7
    assert found[1] == [Answer("error", "SyntaxError")] * 2
    assert found[2] == [Answer("value", "1")]


async def test_answers_that_change_from_run_to_run_are_no_answers(session: Session) -> None:
    unsteady = problem(reference="import random\ndef f(n):\n    return n + random.random()\n")
    assert await reference_answers(session, unsteady, ["f(1)"]) == [Answer("other", "unsteady")]


async def test_a_sandbox_that_never_answers_is_an_infrastructure_failure(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execute, "_script", lambda: "raise SystemExit('out of order')")
    with pytest.raises(InfrastructureError, match="in 3 attempts: no answers came: out of order"):
        await answers(session, "", "", ["1"])


def test_values_compare_as_an_assert_compares_them() -> None:
    assert Answer("value", "1").same(Answer("value", "1.0"))
    assert not Answer("value", "1").differs(Answer("value", "True"))
    assert Answer("value", "1").differs(Answer("value", "'1'"))
    assert Answer("value", "1").differs(Answer("timeout"))
    assert not Answer("value", "1").differs(Answer("other", "Point"))
    assert not Answer("value", "1").differs(Answer("skipped"))
