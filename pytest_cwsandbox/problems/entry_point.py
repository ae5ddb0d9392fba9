"""Which function a problem's asserts test."""

from __future__ import annotations

import ast
import builtins
import sys
from collections import Counter
from typing import TYPE_CHECKING

from pytest_cwsandbox.problems.parsing import parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BUILTINS = frozenset(dir(builtins))


def infer_entry_point(
    test_list: Sequence[str], solution: str = "", test_imports: Sequence[str] = ()
) -> str:
    """The name of the function (or class) that the asserts exercise, "" when there is none.

    With a ``solution`` the name is one that it defines, so that ``sum`` may be an entry point and
    ``Pair(1, 2)`` as an argument is not; functions come before classes. Without one it is the first
    called name that is neither a builtin nor imported. What most asserts call wins, then what
    stands first: in ``set(f(g(x)))`` that is ``f``.
    """
    called: Counter[str] = Counter()
    mentioned: Counter[str] = Counter()
    for test in test_list:
        names = list(_names(_parse(test)))
        called.update(dict.fromkeys((name for name, is_called in names if is_called), 1))
        mentioned.update(dict.fromkeys((name for name, _ in names), 1))
    functions, classes, others = _defined_names(_parse(solution))
    imported = {name for line in test_imports for name in _defined_names(_parse(line))[2]}
    explained = BUILTINS | imported | sys.stdlib_module_names
    foreign = Counter({n: c for n, c in called.items() if n not in BUILTINS | imported})
    handed_over = Counter({n: c for n, c in mentioned.items() if n not in explained})
    for counts, wanted in (
        (called, functions),
        (mentioned, functions),  # map(f, xs)
        (mentioned, classes),  # Stack().push(1), Stack.of(1)
        (called, others - imported),  # f = lambda x: x
        (foreign, foreign.keys()),
        (handed_over, handed_over.keys()),  # map(f, xs)
        (called, called.keys()),
    ):
        for name, _ in counts.most_common():  # equal counts keep the order of appearance
            if name in wanted:
                return name
    return ""


def _parse(source: str) -> ast.Module:
    try:
        return parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # 3.11: NUL is a ValueError
        return ast.Module(body=[], type_ignores=[])


def _names(node: ast.AST, *, called: bool = False) -> Iterator[tuple[str, bool]]:
    """Every name, and whether it is called; outer before inner, left before right."""
    if isinstance(node, ast.Name):
        yield node.id, called
        return
    function = node.func if isinstance(node, ast.Call) else None
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.Constant):  # most of a long literal
            yield from _names(child, called=child is function)


def _defined_names(tree: ast.Module) -> tuple[set[str], set[str], set[str]]:
    """What a module binds at its top level: functions, classes, and all else."""
    functions: set[str] = set()
    classes: set[str] = set()
    others: set[str] = set()
    open_nodes: list[ast.AST] = [tree]
    while open_nodes:
        node = open_nodes.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions.add(node.name)
        elif isinstance(node, ast.ClassDef):
            classes.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            others.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            others.add(node.id)
        elif not isinstance(node, ast.expr) or isinstance(node, ast.Tuple | ast.List):
            open_nodes.extend(ast.iter_child_nodes(node))  # into if, try, with, for, a, b = ...
    return functions, classes, others
