"""One assert taken apart: what is evaluated beside the solution, and what is made of it outside.

``assert f(1) == [2]`` becomes the call ``f(1)``, evaluated beside the solution, and the literal
``[2]``, which stays here. In any other assert the parts that belong to the solution are evaluated
there and the rest by the judge, so that no expected value and no comparison meets the solution.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, cast

from pytest_cwsandbox.errors import ConfigurationError
from pytest_cwsandbox.grading.names import (
    BUILTINS,
    CHAIN,
    MODULES,
    RUNS,
    bound_inside,
    definitions,
    loaded,
    root_name,
)
from pytest_cwsandbox.grading.secrecy import check_definition, results
from pytest_cwsandbox.grading.unroll import unroll

if TYPE_CHECKING:
    from pytest_cwsandbox.grading.names import Setup

VALUE = "__value__"  # stands in a judged assert for a value that came from the solution
# Calls that ask a result for more than its value, and so are made beside the solution.
# Methods of plain values, which the judge calls: on a solution's object they could say anything.
PLAIN = (str, bytes, bytearray, int, float, complex, list, tuple, set, frozenset, dict, range)
METHODS = frozenset(
    name for kind in PLAIN for name in dir(kind) if callable(getattr(kind, name))
) - {"__class__"}
ASKS = frozenset({"asyncio", "callable", "hasattr", "getattr", "str", "repr"})


@dataclass(frozen=True, slots=True)
class Check:
    """One assert. ``calls`` are the indexes of the solution's parts in ``Tests.calls``.

    ``kind`` is "equal" or "same" (compare the value with ``expected`` by ``==`` or ``is``), "truth"
    (its truth is ``expected``), or "judged" (run ``source`` with the values put in).
    """

    text: str
    kind: str
    calls: tuple[int, ...]
    expected: object = None
    source: str = ""


@dataclass
class Splitter:
    """Takes asserts apart, one after the other; ``calls`` grows."""

    entry_point: str
    setup: Setup
    solution: str
    calls: list[ast.expr] = field(default_factory=list)

    @cached_property
    def reference(self) -> set[str]:
        """What the reference solution defines, for names that nothing else explains."""
        return definitions(self.solution)

    @cached_property
    def results(self) -> frozenset[str]:
        """Variables of the setup that hold results of the solution."""
        return results(self.setup, self.entry_point)

    @cached_property
    def methods(self) -> frozenset[str]:
        """Methods that are the solution's own, as far as the reference solution tells."""
        try:
            tree = ast.parse(self.solution)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return frozenset()
        return frozenset(
            inner.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef)
            for inner in node.body
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)
        )

    @cached_property
    def classes(self) -> frozenset[str]:
        """What the reference solution defines as a class."""
        try:
            statements = ast.parse(self.solution).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return frozenset()
        return frozenset(s.name for s in statements if isinstance(s, ast.ClassDef))

    def owned(self, name: ast.Name, local: set[str], parent: ast.AST | None) -> bool:
        """Whether the name is the solution's."""
        if name.id in local or name.id in self.setup.names:
            return False
        if name.id == self.entry_point or name.id in self.reference:
            return True
        as_module = name.id in MODULES and isinstance(parent, ast.Attribute)
        return not (as_module or name.id in BUILTINS)

    def _stops(self, name: ast.Name) -> frozenset[str]:
        """Methods that the judge calls on what the solution made of the name."""
        if name.id in self.setup.given:
            return METHODS
        made_by = self.entry_point if name.id in self.results else name.id
        if made_by in self.classes or (not self.reference and made_by[:1].isupper()):
            return frozenset()
        if made_by not in self.reference | {self.entry_point}:
            return frozenset()  # such as a variable that holds the solution's nodes
        return METHODS - self.methods

    def check(self, statement: ast.Assert, text: str) -> Check:
        return self._plain(statement.test, text) or self._split(statement, text)

    def _plain(self, test: ast.expr, text: str) -> Check | None:
        """The check of ``f(...) == literal``, as nearly all are, at a tenth of the cost."""
        if not (isinstance(test, ast.Compare) and isinstance(test.left, ast.Call)):
            return None
        call = test.left
        if not isinstance(call.func, ast.Name) or call.func.id != self.entry_point:
            return None
        if self.entry_point in self.setup.names:
            return None
        self.calls.append(call)
        place = ast.Compare(_place(self.calls), test.ops, test.comparators)
        check = _literal(text, place, (len(self.calls) - 1,))
        if check is None:
            self.calls.pop()
        return check

    def _split(self, statement: ast.Assert, text: str) -> Check:
        first = len(self.calls)
        local = bound_inside(statement.test)
        test = unroll(statement.test, lambda node: self._open(node, local))
        taken = self._taken(test, bound_inside(test), text)
        test = cast("ast.expr", _Replace(taken, self.calls).visit(test))
        calls = tuple(range(first, len(self.calls)))
        called = {node.func for node in ast.walk(test) if isinstance(node, ast.Call)}
        names = (node for node in ast.walk(test) if isinstance(node, ast.Name))
        if any(name.id in RUNS & BUILTINS and name not in called for name in names):
            raise ConfigurationError(
                f"{text!r} may run a text of the solution's outside its sandbox; mend the problem"
            )
        return _literal(text, test, calls) or Check(
            text, "judged", calls, source=ast.unparse(ast.Assert(test, None))
        )

    def _open(self, node: ast.AST, local: set[str]) -> bool:
        """Whether the comprehension holds a part of the solution's beside a comparison."""
        names = (n for n in ast.walk(node) if isinstance(n, ast.Name))
        return _compares(node) and any(
            self.owned(name, local, None) and name.id not in MODULES for name in names
        )

    def _taken(self, test: ast.expr, local: set[str], text: str) -> list[ast.expr]:
        """The outermost expressions that must be evaluated beside the solution."""
        parents = {child: node for node in ast.walk(test) for child in ast.iter_child_nodes(node)}
        taken: list[ast.expr] = []
        for name in ast.walk(test):
            if not isinstance(name, ast.Name) or not isinstance(name.ctx, ast.Load):
                continue
            if not self.owned(name, local, parents.get(name)):
                continue
            chain = _chain(name, parents, self._stops(name))
            if name.id not in self.reference:
                check_definition(self.setup, name.id, text)
            self._check_wrapping(name, chain, text)
            whole = self._whole(chain, parents, local, text)
            if whole is not chain and _compares(whole, apart=chain):
                raise ConfigurationError(
                    f"{text!r} compares inside an expression that has to run beside the solution;"
                    " write one assert per comparison"
                )
            taken.append(whole)
        inside = {id(inner) for node in taken for inner in ast.walk(node) if inner is not node}
        return [node for node in taken if id(node) not in inside]

    def _whole(
        self, chain: ast.expr, parents: dict[ast.AST, ast.AST], local: set[str], text: str
    ) -> ast.expr:
        """The smallest expression around ``chain`` that can be evaluated on its own."""
        node: ast.AST | None = chain
        while node is not None:
            around = _up(parents, node)
            if not isinstance(node, ast.expr) or loaded(node) & local - bound_inside(node):
                node = parents.get(node)  # it needs a name that something around it binds
            elif self._is_handed(node) and isinstance(around, ast.Call) and around.func is not node:
                self._check_receiver(around, text)
                node = around
            elif (call := self._beside(node, parents)) is not None:
                node = call
            else:
                return node
        raise ConfigurationError(f"{text!r} cannot be split; write a plainer assert")

    def _is_handed(self, node: ast.expr) -> bool:
        """Whether it is the solution itself, as ``map`` and ``sorted`` take it, and no result."""
        solution = isinstance(node, ast.Name) and node.id not in self.setup.given
        return solution or isinstance(node, ast.Lambda)

    def _beside(self, node: ast.expr, parents: dict[ast.AST, ast.AST]) -> ast.Call | None:
        """The innermost call around ``node`` that has to be made beside the solution."""
        inner, around = node, parents.get(node)
        while around is not None:
            if isinstance(around, ast.Call) and around.func is not inner:
                root = root_name(around.func)
                asks = root in ASKS and not _compares(around, apart=node)
                if (root in RUNS or asks) and root not in self.setup.helpers:
                    return around
            inner, around = cast("ast.expr", around), parents.get(around)
        return None

    def _check_receiver(self, call: ast.Call, text: str) -> None:
        if root_name(call.func) in self.setup.helpers:
            raise ConfigurationError(
                f"{text!r} hands the solution to the test's own {root_name(call.func)}, which would"
                " then run beside it; write asserts that call the solution"
            )

    def _check_wrapping(self, name: ast.Name, chain: ast.expr, text: str) -> None:
        """A comparison helper that nobody imported must not be taken for the solution's."""
        around = name.id != self.entry_point and name.id not in self.reference
        if around and self.entry_point in loaded(chain):
            raise ConfigurationError(
                f"{text!r} calls {name.id} with a result of {self.entry_point}, but neither"
                f" test_imports nor test_setup_code defines {name.id}"
            )


class _Replace(ast.NodeTransformer):
    def __init__(self, taken: list[ast.expr], calls: list[ast.expr]) -> None:
        self._taken = {id(node) for node in taken}
        self._calls = calls

    def visit(self, node: ast.AST) -> ast.AST:
        if id(node) not in self._taken:
            return self.generic_visit(node)
        self._calls.append(node)  # type: ignore[arg-type]  # only expressions are taken
        return _place(self._calls)


def _place(calls: list[ast.expr]) -> ast.Call:
    """Where the value of the last of the calls is put in."""
    return ast.Call(ast.Name(VALUE, ast.Load()), [ast.Constant(len(calls) - 1)], [])


def _chain(name: ast.Name, parents: dict[ast.AST, ast.AST], stops: frozenset[str]) -> ast.expr:
    """The longest run of calls, attributes and items that starts at the name.

    It ends before a call of a method in ``stops`` on a result.
    """
    node: ast.expr = name
    while True:
        parent = parents.get(node)
        if not isinstance(parent, CHAIN):
            return node
        base = parent.func if isinstance(parent, ast.Call) else parent.value
        if base is not node:
            return node
        above = parents.get(parent)
        called = isinstance(above, ast.Call) and above.func is parent
        if called and isinstance(parent, ast.Attribute) and parent.attr in stops:
            return node
        node = parent


def _up(parents: dict[ast.AST, ast.AST], node: ast.AST) -> ast.AST | None:
    above = parents.get(node)
    while isinstance(above, ast.keyword | ast.Starred):
        above = parents.get(above)
    return above


def _compares(node: ast.AST, apart: ast.AST | None = None) -> bool:
    if node is apart:
        return False
    return isinstance(node, ast.Compare) or any(
        _compares(child, apart) for child in ast.iter_child_nodes(node)
    )


def _is_value(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == VALUE


def _literal(text: str, test: ast.expr, calls: tuple[int, ...]) -> Check | None:
    """The check of an assert that needs no execution; None for any other."""
    if _is_value(test):
        return Check(text, "truth", calls, expected=True)
    if isinstance(test, ast.UnaryOp):
        negated = isinstance(test.op, ast.Not) and _is_value(test.operand)
        return Check(text, "truth", calls, expected=False) if negated else None
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    sides = [test.left, test.comparators[0]]
    if _is_value(sides[1]):
        sides.reverse()
    if not _is_value(sides[0]):
        return None
    try:
        expected = ast.literal_eval(sides[1])
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    singleton = expected is None or isinstance(expected, bool)
    kind = {ast.Eq: "equal", ast.Is: "same" if singleton else ""}.get(type(test.ops[0]))
    return Check(text, kind, calls, expected) if kind else None
