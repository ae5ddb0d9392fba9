"""What goes to the solution's sandbox, what to the judge, and what stays here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.errors import ConfigurationError
from pytest_cwsandbox.grading.asserts import read_tests
from pytest_cwsandbox.problems import Problem

if TYPE_CHECKING:
    from pytest_cwsandbox.grading.asserts import Tests


def read(
    *asserts: str, setup: str = "", imports: tuple[str, ...] = (), reference: str = ""
) -> Tests:
    return read_tests(Problem("1", "", asserts, "f", imports, setup, reference_solution=reference))


@pytest.mark.parametrize(
    ("test", "calls", "kind", "expected"),
    [
        ("assert f(1) == [2, 3.5]", ["f(1)"], "equal", [2, 3.5]),
        ("assert [2] == f(1), 'message'", ["f(1)"], "equal", [2]),
        ("assert (f(Pair(1, 2), n=[3])) == {1: {2}}", ["f(Pair(1, 2), n=[3])"], "equal", {1: {2}}),
        ("assert f(1)", ["f(1)"], "truth", True),
        ("assert not f(1)", ["f(1)"], "truth", False),
        ("assert f(1) is None", ["f(1)"], "same", None),
        ("assert f(1) is True", ["f(1)"], "same", True),
        ("assert F(1).add(2).items[0] == 3", ["F(1).add(2).items[0]"], "equal", 3),
        ("assert [f(x) for x in (1, 2)] == [1, 4]", ["[f(x) for x in (1, 2)]"], "equal", [1, 4]),
        ("assert max([1], key=f) == 1", ["max([1], key=f)"], "equal", 1),
        ("assert eval(f('1')) == 1", ["eval(f('1'))"], "equal", 1),
        ("assert str(f(1)) == 'F'", ["str(f(1))"], "equal", "F"),
    ],
)
def test_a_plain_assert_needs_no_judge(
    test: str, calls: list[str], kind: str, expected: object
) -> None:
    tests = read(test)
    (check,) = tests.checks
    assert [call[1:] for call in tests.calls] == calls
    assert (check.kind, check.expected) == (kind, expected)


@pytest.mark.parametrize(
    ("test", "calls", "judged"),
    [
        ("assert set(f(1)) == set([2])", ["f(1)"], "set({0}) == set([2])"),
        ("assert f(1) == sys.maxsize", ["f(1)"], "{0} == sys.maxsize"),
        ("assert f(1) == f(2) == 3", ["f(1)", "f(2)"], "{0} == {1} == 3"),
        ("assert f(1) is f", ["f(1)", "f"], "{0} is {1}"),
        ("assert list(map(f, [1])) == [2]", ["map(f, [1])"], "list({0}) == [2]"),
        ("assert f(1) != 2", ["f(1)"], "{0} != 2"),
        ("assert f(1).issubset({1})", ["f(1)"], "{0}.issubset({{1}})"),
        ("assert f(1)[0].upper() == 'A'", ["f(1)[0]"], "{0}.upper() == 'A'"),
        ("assert f(1) in (1, 2)", ["f(1)"], "{0} in (1, 2)"),
        ("assert all(f(i) == i for i in range(2))", ["f(0)", "f(1)"], "all([{0} == 0, {1} == 1])"),
        (
            "assert all(abs(f(a) - b) < 1 for a, b in [(1, 2), (3, 4)])",
            ["f(1)", "f(3)"],
            "all([abs({0} - 2) < 1, abs({1} - 4) < 1])",
        ),
        ("assert (y := f(1)) == 2 and y > 1", ["f(1)"], "(y := {0}) == 2 and y > 1"),
        ("assert repr(f(1)) + f'{f(2)}' == ''", ["repr(f(1))", "f(2)"], "{0} + f'{{{1}}}' == ''"),
    ],
)
def test_the_judge_gets_the_rest_with_places_for_the_values(
    test: str, calls: list[str], judged: str
) -> None:
    tests = read(test)
    (check,) = tests.checks
    places = [f"__value__({index})" for index in range(len(calls))]
    assert [call[1:] for call in tests.calls] == calls
    assert check.source == "assert " + judged.format(*places)


def test_no_expected_value_and_no_comparison_goes_to_the_solution() -> None:
    tests = read(
        "assert f(1) == 4711",
        "assert close(f(2), 4711)",
        "assert f(3) == expected",
        "assert all(f(a) == b for a, b in [(5, 4711)])",
        setup="expected = 4711\nother = [4711]\ndef close(a, b):\n    return abs(a - b) < 4711",
    )
    sent = " ".join((*tests.calls, tests.setup, tests.imports))
    assert "4711" not in sent
    assert "close" not in sent


def test_data_that_the_solution_is_given_is_asked_back() -> None:
    tests = read("assert f(data) is None", "assert data == [1, 2]", setup="data = [2, 1]\nn = 4711")
    assert [call[1:] for call in tests.calls] == ["f(data)", "data"]
    assert tests.setup == "data = [2, 1]"


def test_setup_that_needs_the_solution_runs_beside_it_only() -> None:
    tests = read(
        "assert f(head) == 3", setup="import math\nhead = Node(1)\nhead.next = Node(math.pi)"
    )
    assert tests.setup == "import math\nhead = Node(1)\nhead.next = Node(math.pi)"
    assert "Node" not in tests.judge_setup


def test_a_module_is_the_real_one_also_if_the_reference_imports_it() -> None:
    tests = read("assert f(1) == sys.getsizeof(1)", reference="import sys\ndef f(x): ...")
    assert [call[1:] for call in tests.calls] == ["f(1)"]
    assert "import sys" in tests.judge_setup


@pytest.mark.parametrize(
    ("test", "setup", "message"),
    [
        ("assert f(1", "", "cannot be parsed"),
        ("assert f(1) == '\0'", "", "cannot be parsed"),
        ("x = f(1)", "", "not an assert"),
        ("assert 1 == 1", "", "tests anything"),
        ("assert np.isclose(f(1), 2)", "", "np"),
        ("assert check(f)", "def check(g): assert g(1) == 2", "hands the solution"),
        ("assert parse(f(1)) == 2", "def parse(s): return eval(s)", "eval"),
        ("assert list(map(eval, f(1))) == [2]", "", "text"),
        ("assert any(f(x) == y for x in g() for y in [1])", "", "compares"),
        ("assert check(1, 2)", "def check(x, y): return f(x) == y", "decides beside"),
        ("assert check(1, 2)", "check = lambda x, y: f(x) == y", "decides beside"),
        ("assert T().run() == 1", "class T:\n    def run(s): return f(1)", "decides beside"),
        ("assert check(1, 2)", "def check(x, y): return g(x) == y", "makes of the solution"),
        ("assert OK", "RESULT = f(3)\nOK = (RESULT == 4)", "decides beside"),
        ("assert OK", "RESULT = f(3)\nOK = RESULT.__eq__(4)", "decides beside"),
        ("assert OK", "OK = {4: True}[f(3)]", "decides beside"),
        ("assert f(CASES[0][0]) == CASES[0][1]", "CASES = [([1], 3)]", "literal"),
        ("assert f(CASES[0][0]) == CASES[0][1]", "CASES = (((1,), 3),)", "literal"),
        ("assert f(D['in']) == want", "D = {'in': 1, 'out': 2}\nwant = D['out']", "literal"),
        ("assert f(*ARGS) == WANT", "ARGS, WANT = ([1],), 5", "literal"),
        ("assert f(case()[0]) == case()[1]", "def case(): return 1, 2", "literal"),
        ("assert RESULT == C[1]", "C = [1, 2]\nRESULT = f(C[0])", "literal"),
    ],
)
def test_what_cannot_be_graded_is_said_at_once(test: str, setup: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        read(test, setup=setup)
    assert "problem 1" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_tests_is_an_error_and_no_reward() -> None:
    with pytest.raises(ConfigurationError, match="no tests"):
        read()


def test_held_out_asserts_are_read_only_when_asked_for() -> None:
    problem = Problem(
        "1", "", ("assert f(1) == 1",), "f", challenge_test_list=("assert f(2) == 4",)
    )
    assert len(read_tests(problem).checks) == 1
    assert len(read_tests(problem, held_out=True).checks) == 2
