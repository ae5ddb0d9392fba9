"""What must not be beside the solution: a decision about its results, or what is expected."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from pytest_cwsandbox.errors import ConfigurationError
from pytest_cwsandbox.grading.names import (
    BUILTINS,
    MODULES,
    SCOPES,
    bound_outside,
    loaded,
    root_name,
)

if TYPE_CHECKING:
    from pytest_cwsandbox.grading.names import Setup
    from pytest_cwsandbox.grading.split import Check

# What setup code may do with a result of the solution, and decides nothing by it.
HARMLESS = (
    *(ast.Name, ast.List, ast.Tuple, ast.Starred, ast.keyword),
    *(ast.Assign, ast.AnnAssign, ast.Expr, ast.For),
)


def results(setup: Setup, entry_point: str) -> frozenset[str]:
    """Variables of the setup that depend on the entry point.

    Raises ``ConfigurationError`` for setup code that compares, branches on or computes with them:
    the solution, running beside it, could decide how that ends.
    """
    if not entry_point or entry_point in setup.names:
        return frozenset()
    found = {entry_point}
    for statement in setup.statements:
        if not loaded(statement) & found:
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.expr | ast.stmt | ast.keyword) and loaded(node) & found:
                _check_harmless(node, found, setup)
        found |= bound_outside(statement)
        found |= {
            node.func.value.id
            for node in ast.walk(statement)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
        }
    return frozenset(found - {entry_point})


def _check_harmless(node: ast.AST, found: set[str], setup: Setup) -> None:
    if isinstance(node, ast.Attribute) and not node.attr.startswith("__"):
        return
    if isinstance(node, ast.Call):
        root = root_name(node.func)
        if root in found or (root and root not in setup.names | BUILTINS | MODULES):
            return
    elif isinstance(node, ast.Subscript):
        if not loaded(node.slice) & found:
            return
    elif isinstance(node, HARMLESS):
        return
    shown = " ".join(ast.unparse(node).split())
    raise ConfigurationError(
        f"test_setup_code decides beside the solution what its result is worth: {shown[:80]!r};"
        " write asserts that call the solution"
    )


def check_definition(setup: Setup, name: str, text: str) -> None:
    """Refuse an assert of what a function of the setup makes of the solution's results."""
    for statement in setup.statements:
        lambdas = any(isinstance(node, ast.Lambda) for node in ast.walk(statement))
        if name in bound_outside(statement) and (isinstance(statement, SCOPES) or lambdas):
            raise ConfigurationError(
                f"{text!r} asserts what {name} of test_setup_code makes of the solution, beside"
                " which it would have to run; write asserts that call the solution"
            )


def check_expected(
    setup: Setup, entry_point: str, calls: list[ast.expr], checks: tuple[Check, ...]
) -> None:
    """Refuse tests whose expected values stand in setup data that the solution is given."""
    own = {name for statement in setup.statements for name in bound_outside(statement)}
    own -= results(setup, entry_point)
    for check in checks:
        beside = [root_name(calls[call]) for call in check.calls]
        if len(beside) > 1 and own & set(beside):
            raise ConfigurationError(
                f"{check.text!r} compares with {min(own & set(beside))} of test_setup_code, which"
                " the solution could change: write the expected value as a literal in the assert"
            )
    sent = set().union(*(loaded(call) for call in calls))
    expected = set().union(
        *(loaded(ast.parse(check.source)) for check in checks if check.calls and check.source)
    )
    for statement in reversed(setup.own):
        if bound_outside(statement) & expected or loaded(statement) & expected:
            expected |= loaded(statement)
    for statement in setup.for_worker(sent):
        both = bound_outside(statement) & expected
        if not both or isinstance(statement, ast.Import | ast.ImportFrom):
            continue
        if _is_constant(statement):
            continue  # that the solution is given this tells it nothing but its argument
        raise ConfigurationError(
            f"test_setup_code gives {min(both)} to the solution, and an assert expects a value by"
            " it: write the expected value as a literal in the assert"
        )


def _is_constant(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Name)
        and isinstance(statement.value, ast.Constant)
    )
