"""Whose a name is: the solution's, the test's own, or Python's."""

from __future__ import annotations

import ast
import builtins
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_cwsandbox.errors import ConfigurationError
from pytest_cwsandbox.problems.parsing import parsing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BUILTINS = frozenset(vars(builtins))
MODULES = sys.stdlib_module_names
# What may run a text as code: with the solution's text only beside the solution.
RUNS = frozenset({"eval", "exec", "compile", "__import__", "builtins", "code", "ctypes"})
RUNS |= {"importlib", "marshal", "os", "pickle", "runpy", "shelve", "subprocess", "timeit"}
CHAIN = (ast.Call, ast.Attribute, ast.Subscript)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def parse(source: str, where: str) -> list[ast.stmt]:
    """The statements of a problem's text; raises ``ConfigurationError`` that names ``where``."""
    try:
        with parsing():
            return ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ConfigurationError(f"{where} cannot be parsed: {error}; mend the problem") from None


def loaded(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def bound_inside(node: ast.AST) -> set[str]:
    """Names that the expression or statement binds anywhere in itself, parameters included."""
    names = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load):
            names.add(inner.id)
        elif isinstance(inner, ast.arg):
            names.add(inner.arg)
        elif isinstance(inner, SCOPES):
            names.add(inner.name)
        elif isinstance(inner, ast.alias):
            names.add(inner.asname or inner.name.partition(".")[0])
        elif isinstance(inner, ast.ExceptHandler) and inner.name:
            names.add(inner.name)
    return names


def bound_outside(statement: ast.stmt) -> set[str]:
    """Names that the statement binds for those after it."""
    if isinstance(statement, SCOPES):
        return {statement.name}
    return bound_inside(statement) - {
        name for inner in _scopes(statement) for name in bound_inside(inner)
    }


def _scopes(statement: ast.stmt) -> Iterator[ast.AST]:
    inner = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    return (node for node in ast.walk(statement) if isinstance(node, inner))


def root_name(node: ast.expr) -> str:
    """The name that a run of calls, attributes and items starts at; "" if it starts at none."""
    while isinstance(node, CHAIN):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def as_modules(node: ast.AST) -> set[str]:
    """Names of standard modules that are used as modules: ``sys.maxsize``, not ``copy(1)``."""
    return {
        inner.value.id
        for inner in ast.walk(node)
        if isinstance(inner, ast.Attribute)
        and isinstance(inner.value, ast.Name)
        and inner.value.id in MODULES
    }


def definitions(source: str) -> set[str]:
    """What a solution defines at its top level, imports apart; nothing if it cannot be parsed."""
    try:
        statements = parse(source, "the reference solution")
    except ConfigurationError:
        return set()
    return {
        name
        for statement in statements
        if not isinstance(statement, ast.Import | ast.ImportFrom)
        for name in bound_outside(statement)
    }


@dataclass(frozen=True, slots=True)
class Setup:
    """``test_imports`` and ``test_setup_code``, taken apart.

    What needs nothing of the solution is the test's ``own`` and can be run by the judge; the rest,
    such as a list built of the solution's nodes, can only run beside the solution. ``names`` are
    the test's own; not so data that was ``given`` to the solution, which may have changed it.
    """

    imports: tuple[ast.stmt, ...]
    own: tuple[ast.stmt, ...]
    statements: tuple[ast.stmt, ...]
    names: frozenset[str]
    given: frozenset[str] = frozenset()

    @property
    def helpers(self) -> set[str]:
        """What the test's own setup code defines."""
        return {name for statement in self.own for name in bound_outside(statement)}

    def giving(self, calls: Iterable[ast.expr]) -> Setup:
        """As it is once the solution had the data in these calls in its hands."""
        used = {
            name
            for call in calls
            if any(isinstance(node, ast.Call) for node in ast.walk(call))
            for name in loaded(call)
        }
        given = frozenset(used & {name for s in self.own for name in _data(s)})
        return replace(self, names=self.names - given, given=given)

    def for_worker(self, used: set[str]) -> list[ast.stmt]:
        """The statements that run beside the solution: no more of the test's own than is used."""
        kept: list[ast.stmt] = []
        needed = set(used)
        helpers = self.helpers
        for statement in reversed(self.statements):
            # What binds nothing may change what it names.
            binds = bound_outside(statement) or loaded(statement) & helpers
            if statement not in self.own or not binds or binds & needed:
                kept.append(statement)
                needed |= loaded(statement)
        return kept[::-1]


def _data(statement: ast.stmt) -> set[str]:
    """Variables that the statement binds to something that could be changed in place."""
    if isinstance(statement, (*SCOPES, ast.Import, ast.ImportFrom)):
        return set()
    if isinstance(statement, ast.Assign):
        try:
            hash(ast.literal_eval(statement.value))
        except (ValueError, TypeError):
            return bound_outside(statement)
        return set()
    return bound_outside(statement)


def read_setup(imports: Iterable[str], code: str) -> Setup:
    import_statements = [s for text in imports for s in parse(text, "test_imports")]
    names: set[str] = set()
    for statement in import_statements:
        names |= bound_outside(statement)
    if "*" in names:
        raise ConfigurationError(
            "test_imports has a star import, which hides whose a name is: import names one by one"
        )
    statements = parse(code, "test_setup_code")
    own: list[ast.stmt] = []
    for statement in statements:
        if isinstance(statement, SCOPES) and loaded(statement) & RUNS:
            raise ConfigurationError(
                f"test_setup_code defines {statement.name}, which may run a text of the solution's"
                f" through {min(loaded(statement) & RUNS)}: do without"
            )
        foreign = loaded(statement) - names - BUILTINS - bound_inside(statement)
        if foreign <= as_modules(statement):
            own.append(statement)
            names |= bound_outside(statement)
            continue
        # What it may change through a method, an attribute or an item is no longer the test's own.
        changed = {
            inner.value.id
            for inner in ast.walk(statement)
            if isinstance(inner, ast.Attribute | ast.Subscript)
            and isinstance(inner.value, ast.Name)
        } | bound_outside(statement)
        gone = [s for s in own if bound_outside(s) & changed]
        own = [s for s in own if s not in gone]
        names -= {name for s in gone for name in bound_outside(s)}
    return Setup(tuple(import_statements), tuple(own), tuple(statements), frozenset(names))
