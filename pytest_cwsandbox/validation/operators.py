"""Mutation operators: each says what may stand in a node's place, and what that is called.

A replacement is a node, or a list of statements for a statement.
"""

from __future__ import annotations

import ast
from copy import deepcopy
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Replacement = ast.AST | list[ast.stmt]
    Operator = Callable[[ast.AST], Iterator[tuple[str, Replacement]]]

ARITHMETIC: dict[type[ast.AST], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mod,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
COMPARISONS: dict[type[ast.AST], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
FUNCTIONS = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "sum": "len",
    "len": "sum",
    "sorted": "list",
    "set": "list",
    "reversed": "list",
    "ceil": "floor",
    "floor": "ceil",
}
METHODS = {
    "upper": "lower",
    "lower": "upper",
    "title": "capitalize",
    "capitalize": "title",
    "startswith": "endswith",
    "endswith": "startswith",
    "strip": "lstrip",
    "lstrip": "rstrip",
    "rstrip": "lstrip",
    "find": "rfind",
    "rfind": "find",
    "index": "rindex",
    "partition": "rpartition",
    "rpartition": "partition",
    "split": "rsplit",
    "splitlines": "split",
    "isdigit": "isalpha",
    "isalpha": "isdigit",
    "isupper": "islower",
    "islower": "isupper",
    "append": "extend",
    "extend": "append",
    "add": "discard",
    "keys": "values",
    "values": "keys",
    "union": "intersection",
    "intersection": "union",
    "popleft": "pop",
}
CONSTANTS = ("0", "1", "True", "False", "''", "[]", "{}")


def arithmetic(node: ast.AST) -> Iterator[tuple[str, Replacement]]:
    if (other := ARITHMETIC.get(type(node))) is not None:
        yield "arithmetic", other()


def comparison(node: ast.AST) -> Iterator[tuple[str, Replacement]]:
    for other in COMPARISONS.get(type(node), ()):
        yield "comparison", other()


def logic(node: ast.AST) -> Iterator[tuple[str, Replacement]]:
    if isinstance(node, ast.And):
        yield "and-or", ast.Or()
    elif isinstance(node, ast.Or):
        yield "and-or", ast.And()


def constant(node: ast.AST) -> Iterator[tuple[str, Replacement]]:
    if not isinstance(node, ast.Constant):
        return
    value = node.value
    if isinstance(value, bool):
        yield "boolean", ast.Constant(not value)
    elif isinstance(value, int):
        yield "off-by-one", ast.Constant(value + 1)
        less = ast.Constant(value - 1) if value else ast.UnaryOp(ast.USub(), ast.Constant(1))
        yield "off-by-one", less
    elif isinstance(value, float):
        yield "number", ast.Constant(value + 1)
    elif isinstance(value, str):
        yield "text", ast.Constant("" if value else "?")


def bound(node: ast.AST) -> Iterator[tuple[str, Replacement]]:
    """Bounds of ranges and slices; constant ones are ``constant``'s."""
    if isinstance(node, ast.Call) and _name(node) == "range":
        for at, argument in enumerate(node.args):
            if not isinstance(argument, ast.Constant):
                for step in 1, -1:
                    arguments = [*node.args[:at], _plus(argument, step), *node.args[at + 1 :]]
                    yield "bound", ast.Call(node.func, arguments, node.keywords)
    elif isinstance(node, ast.Slice):
        for field in "lower", "upper":
            value = getattr(node, field)
            if value is not None and not isinstance(value, ast.Constant):
                for step in 1, -1:
                    other = ast.Slice(node.lower, node.upper, node.step)
                    setattr(other, field, _plus(value, step))
                    yield "bound", other


def condition(node: ast.AST) -> Iterator[tuple[str, Replacement]]:
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        negated = deepcopy(node)
        negated.test = ast.UnaryOp(ast.Not(), node.test)
        yield "negated-condition", negated
    if isinstance(node, ast.comprehension):
        for at in range(len(node.ifs)):
            without = deepcopy(node)
            del without.ifs[at]
            yield "dropped-filter", without
    if isinstance(node, ast.If):
        yield "dropped-branch", node.orelse or [ast.Pass()]
        yield "always-branch", node.body
    if isinstance(node, ast.IfExp):
        yield "dropped-branch", node.orelse
        yield "always-branch", node.body


def statement(node: ast.AST) -> Iterator[tuple[str, Replacement]]:
    removable = ast.Assign | ast.AugAssign | ast.AnnAssign | ast.For | ast.While | ast.Return
    if isinstance(node, removable) or (
        isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
    ):
        yield "removed-statement", [ast.Pass()]
    if isinstance(node, ast.Break):
        yield "break-continue", ast.Continue()
    if isinstance(node, ast.Continue):
        yield "break-continue", ast.Break()


def loop(node: ast.AST) -> Iterator[tuple[str, Replacement]]:
    if isinstance(node, ast.For | ast.While):
        cut = deepcopy(node)
        cut.body.append(ast.Break())
        yield "early-exit", cut


def call(node: ast.AST) -> Iterator[tuple[str, Replacement]]:
    if not isinstance(node, ast.Call):
        return
    for at in range(len(node.args) - 1):
        swapped = deepcopy(node)
        swapped.args[at : at + 2] = swapped.args[at : at + 2][::-1]
        yield "swapped-arguments", swapped
    if (other := FUNCTIONS.get(_name(node))) is not None:
        renamed = deepcopy(node)
        renamed.func = ast.Name(other, ast.Load())
        yield "function", renamed
    if _name(node) in {"abs", "int", "float", "str", "round"} and node.args:
        yield "dropped-call", node.args[0]


def method(node: ast.AST) -> Iterator[tuple[str, Replacement]]:
    if isinstance(node, ast.Attribute) and (other := METHODS.get(node.attr)) is not None:
        yield "method", ast.Attribute(node.value, other, node.ctx)


def sign(node: ast.AST) -> Iterator[tuple[str, Replacement]]:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not | ast.Invert):
        yield "dropped-sign", node.operand


def answer(node: ast.AST) -> Iterator[tuple[str, Replacement]]:
    """What a function gives back: nothing at all, or always the same."""
    if isinstance(node, ast.Return) and node.value is not None:
        yield "returned-none", ast.Return(ast.Constant(None))
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        for source in ("pass", *(f"return {text}" for text in CONSTANTS)):
            empty = deepcopy(node)
            empty.body = ast.parse(f"async def f():\n {source}").body[0].body  # type: ignore[attr-defined]  # it is a function
            yield "empty-body" if source == "pass" else "constant-return", empty
        positional = node.args.args
        if len(positional) > 1 and positional[0].arg != "self":
            swapped = deepcopy(node)
            swapped.args.args[:2] = swapped.args.args[1::-1]
            yield "swapped-parameters", swapped


OPERATORS: tuple[Operator, ...] = (
    arithmetic,
    comparison,
    logic,
    constant,
    bound,
    condition,
    statement,
    loop,
    call,
    method,
    sign,
    answer,
)


def _name(node: ast.Call) -> str:
    function = node.func
    if isinstance(function, ast.Attribute):  # math.ceil
        return ""
    return function.id if isinstance(function, ast.Name) else ""


def _plus(value: ast.expr, step: int) -> ast.expr:
    operator = ast.Add() if step > 0 else ast.Sub()
    return ast.BinOp(value, operator, ast.Constant(abs(step)))
