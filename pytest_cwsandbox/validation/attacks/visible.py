"""What a model can see of a problem: its asserts, taken apart."""

from __future__ import annotations

import ast
import warnings
from typing import TYPE_CHECKING

from pytest_cwsandbox.problems import infer_entry_point

if TYPE_CHECKING:
    from pytest_cwsandbox.problems import Problem


def entry_point(problem: Problem) -> str:
    """The name of the function that is asked for, "" where there is none."""
    return problem.entry_point or infer_entry_point(
        problem.test_list, problem.reference_solution, problem.test_imports
    )


def answers(problem: Problem) -> list[tuple[str, object]]:
    """The visible asserts of the form ``f(literals) == literal``.

    Each as the ``repr`` of the tuple of arguments, and the expected value.
    """
    name = entry_point(problem)
    found = []
    for assertion in problem.test_list:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                statements = ast.parse(assertion.strip()).body
        except (SyntaxError, ValueError):
            continue
        for statement in statements:
            match statement:
                case ast.Assert(
                    test=ast.Compare(
                        left=ast.Call(func=ast.Name(id=called), args=arguments, keywords=[]),
                        ops=[ast.Eq()],
                        comparators=[expected],
                    )
                ) if called == name:
                    try:
                        given = tuple(ast.literal_eval(argument) for argument in arguments)
                        found.append((repr(given), ast.literal_eval(expected)))
                    except ValueError:
                        continue
    return found


def expected_type(problem: Problem) -> type | None:
    """The type that all expected literals share, or None."""
    types = {type(expected) for _, expected in answers(problem)}
    return types.pop() if len(types) == 1 else None


def mentions(problem: Problem, word: str) -> bool:
    """Whether a visible assert holds the word."""
    return any(word in assertion for assertion in problem.test_list)
