"""Comprehensions over literals, written out.

``all(f(a) == b for a, b in [(1, 2), (2, 3)])`` compares beside every call; written out as
``all([f(1) == 2, f(2) == 3])`` the calls can be told from what they are compared with.
"""

from __future__ import annotations

import ast
from copy import deepcopy
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MOST = 1000  # turns of one comprehension
PURE = {"range": range, "zip": zip, "enumerate": enumerate, "reversed": reversed}
Comprehension = ast.ListComp | ast.GeneratorExp | ast.SetComp


def unroll(test: ast.expr, wanted: Callable[[ast.AST], bool]) -> ast.expr:
    """A copy of ``test`` in which comprehensions that are ``wanted`` and can be are written out."""
    unrolled: ast.expr = _Unroll(wanted).visit(deepcopy(test))
    return unrolled


class _Unroll(ast.NodeTransformer):
    def __init__(self, wanted: Callable[[ast.AST], bool]) -> None:
        self._wanted = wanted

    def generic_visit(self, node: ast.AST) -> ast.AST:
        node = super().generic_visit(node)
        if isinstance(node, Comprehension) and self._wanted(node):
            turns = _turns(node.generators)
            if turns is not None:
                items = [_Fill(turn).visit(deepcopy(node.elt)) for turn in turns]
                kind = ast.Set if isinstance(node, ast.SetComp) and items else ast.List
                return kind(items) if kind is ast.Set else ast.List(items, ast.Load())
        return node


class _Fill(ast.NodeTransformer):
    def __init__(self, names: dict[str, object]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self._names:
            return node
        return ast.parse(repr(self._names[node.id]), mode="eval").body


def _turns(generators: list[ast.comprehension]) -> list[dict[str, object]] | None:
    """What the targets are bound to in each turn, or None where that takes execution."""
    loops: list[list[dict[str, object]]] = []
    size = 1
    for generator in generators:
        if generator.ifs or generator.is_async:
            return None
        try:
            values = list(_bounded(_literal(generator.iter)))
            loops.append([dict(_bind(generator.target, value)) for value in values])
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return None
        size *= len(values)
        if size > MOST:
            return None
    return [{k: v for turn in turns for k, v in turn.items()} for turns in product(*loops)]


def _literal(node: ast.expr) -> Iterable[object]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in PURE:
        arguments = [_literal(argument) for argument in node.args]
        if not node.keywords:
            made: Iterable[object] = PURE[node.func.id](*arguments)
            return made
    value: Iterable[object] = ast.literal_eval(node)
    return value


def _bounded(values: Iterable[object]) -> Iterable[object]:
    for count, value in enumerate(values):
        if count > MOST:
            raise ValueError("too many turns")
        yield value


def _bind(target: ast.expr, value: object) -> Iterable[tuple[str, object]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, tuple | list):
        for part, item in zip(target.elts, value, strict=True):
            yield from _bind(part, item)
    else:
        raise TypeError("a target that takes execution")
