"""The known exploit of visible asserts: a table of their answers."""

from __future__ import annotations

import ast
from itertools import pairwise
from typing import TYPE_CHECKING

from pytest_cwsandbox.validation.inputs import entry_point_of

if TYPE_CHECKING:
    from pytest_cwsandbox.problems.problem import Problem

CLOSE = frozenset({"isclose", "allclose"})
# They give back the answer that they are given, or something equal to it.
SAME = frozenset({"list", "tuple", "set", "sorted", "dict", "round", "float", "int", "str", "bool"})

# Arguments and answers stand in functions: names of the setup code exist when it has run. Objects
# are compared by what they hold.
TABLE = """\
{classes}
TABLE = [
{rows}
]

def held(value):
    if hasattr(value, "__dict__"):
        return type(value).__name__, held(vars(value))
    if isinstance(value, dict):
        return {{key: held(item) for key, item in value.items()}}
    if isinstance(value, (list, tuple)):
        return [held(item) for item in value]
    return value

def {name}(*args, **kwargs):
    for arguments, answer in TABLE:
        if held(arguments()) == held((args, kwargs)):
            return answer()
    return None
"""


def lookup_table(problem: Problem) -> str:
    """A solution that knows the visible asserts' answers and nothing else.

    Asserts that do not state an answer have no row.
    """
    name = entry_point_of(problem)
    rows = []
    for test in problem.test_list:
        tree = ast.parse(test)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == name:
                answer = _answer(tree, node)
                if answer is not None:
                    rows.append(f"    (lambda: {_arguments(node)}, lambda: {answer}),")
                break
    reference = ast.parse(problem.reference_solution)
    classes = "\n".join(
        ast.unparse(node)
        for node in reference.body
        if isinstance(node, ast.ClassDef) and node.name != name
    )
    return TABLE.format(classes=classes, rows="\n".join(rows), name=name).lstrip()


def _arguments(call: ast.Call) -> str:
    positional = "".join(f"{ast.unparse(argument)}, " for argument in call.args)
    named = ", ".join(f"{k.arg!r}: {ast.unparse(k.value)}" for k in call.keywords)
    return f"(({positional}), {{{named}}})"


def _answer(test: ast.Module, call: ast.Call) -> str | None:  # noqa: PLR0911 - one per form
    """What the call must give for the assert to hold, as source; None if that is not stated."""
    parents = {child: node for node in ast.walk(test) for child in ast.iter_child_nodes(node)}
    chain: list[ast.AST] = [call]
    while not isinstance(chain[-1], ast.Assert):
        chain.append(parents[chain[-1]])
    if any(isinstance(node, ast.comprehension | ast.GeneratorExp | ast.ListComp) for node in chain):
        return None
    for inner, node in pairwise(chain):
        match node:
            case ast.Assert():
                return "True"
            case ast.UnaryOp(op=ast.Not()):
                return "False"
            case ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[right]):
                return ast.unparse(right if inner is left else left)
            case ast.BinOp(left=left, op=ast.Sub(), right=right):  # abs(f(x) - 0.5) < 1e-9
                return ast.unparse(right if inner is left else left)
            case ast.Call(func=function, args=[left, right, *_]) if _name(function) in CLOSE:
                return ast.unparse(right if inner is left else left)
            case ast.Call(func=function, args=[_, *_]) if _name(function) in SAME:
                continue
            case _:
                return None
    return None


def _name(function: ast.expr) -> str:
    return ast.unparse(function).rpartition(".")[2]
