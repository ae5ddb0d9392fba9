from __future__ import annotations

import pytest

from pytest_cwsandbox.problems import infer_entry_point

PAIR = """
class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b

def longest(pairs, n):
    return n
"""
NODE = """
class Node:
    def __init__(self, data):
        self.data = data

def depth(root):
    return 1
"""


@pytest.mark.parametrize(
    ("test", "solution", "entry_point"),
    [
        pytest.param("assert f(1) == 2", "def f(x): return 2", "f", id="plain"),
        pytest.param("assert sum(10, 15) == 6", "def sum(a, b): return 6", "sum", id="builtin"),
        pytest.param("assert set(f(1)) == set(g)", "def f(x): ...", "f", id="wrapped"),
        pytest.param("assert math.isclose(f(1), 2)", "def f(x): ...", "f", id="isclose"),
        pytest.param("assert not f(1)", "def f(x): ...", "f", id="not"),
        pytest.param("assert (f(1)) == 2, 'why'", "def f(x): ...", "f", id="message"),
        pytest.param("assert longest([Pair(1, 2)], 1) == 1", PAIR, "longest", id="pair"),
        pytest.param("assert depth(root) == 1", NODE, "depth", id="node"),
        pytest.param("assert depth(Node(1)) == 1", NODE, "depth", id="node-inside"),
        pytest.param("assert f(g(1)) == 1", "def g(x): ...\ndef f(x): ...", "f", id="outer"),
        pytest.param("assert 3 == f(1)", "def f(x): ...", "f", id="reversed"),
        pytest.param("assert list(map(f, [1])) == [1]", "def f(x): ...", "f", id="unapplied"),
        pytest.param("assert f(1) == 1", "f = lambda x: x", "f", id="lambda"),
        pytest.param("assert f(1) == 1", "async def f(x): ...", "f", id="async"),
        pytest.param("assert f(1) == 1", "if 1:\n    def f(x): ...", "f", id="conditional"),
        pytest.param("assert f(4, 6) == 2", "from math import gcd as f", "f", id="imported"),
        pytest.param("assert Stack().push(1) == 1", "class Stack: ...", "Stack", id="class"),
        pytest.param("assert Stack.of(1) == 1", "class Stack: ...", "Stack", id="class-method"),
        pytest.param(
            "assert f(1) == helper(1)", "def helper(x): ...\ndef f(x): ...", "f", id="left"
        ),
        pytest.param("assert set(f(1)) == {1}", "", "f", id="no-solution"),
        pytest.param("assert f(1) == 1", "def f(x:", "f", id="unparseable-solution"),
        pytest.param("assert f(1) == 1", "def f(x): ...\0", "f", id="nul-in-solution"),
        pytest.param("assert max(1, 2) == 2", "", "max", id="builtin-without-solution"),
        pytest.param("assert sum(map(f, [1])) == 1", "", "f", id="handed-over"),
        pytest.param("assert 1 == 1", "def f(x): ...", "", id="nothing-called"),
        pytest.param("assert f((", "def f(x): ...", "", id="unparseable-assert"),
    ],
)
def test_the_entry_point_is_what_the_asserts_exercise(
    test: str, solution: str, entry_point: str
) -> None:
    assert infer_entry_point([test], solution) == entry_point


def test_what_most_asserts_call_wins() -> None:
    tests = ["assert make(1) == 1", "assert f(make(2)) == 2", "assert f(3) == 3"]
    assert infer_entry_point([*tests, "assert f(4) == 4"]) == "f"


def test_an_imported_function_is_not_the_entry_point() -> None:
    tests = ["assert isclose(f(1), 0.5)"]
    assert infer_entry_point(tests, "", ["from math import isclose"]) == "f"
    assert infer_entry_point(tests, "from math import isclose\ndef f(x): ...") == "f"
    solution = "from math import isclose\nf = lambda x: x / 2"
    assert infer_entry_point(tests, solution, ["from math import isclose"]) == "f"
