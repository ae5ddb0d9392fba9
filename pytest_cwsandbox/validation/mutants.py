"""Known wrong programs: mutants of the reference solution that were seen to answer wrongly."""

from __future__ import annotations

import ast
import warnings
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_cwsandbox.validation.execute import Answer, Program, answers_of, reference_answers
from pytest_cwsandbox.validation.inputs import calls_in, entry_point_of
from pytest_cwsandbox.validation.operators import OPERATORS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cwsandbox import Session

    from pytest_cwsandbox.problems.problem import Problem
    from pytest_cwsandbox.validation.operators import Replacement

# Five times what a reference may take: a mutant that is only slow is not wrong.
MUTANT_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Mutant:
    """A program that differs from the reference in one place; ``line`` is the reference's."""

    id: str
    operator: str
    line: int
    code: str


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A mutant, and a call that no visible asserts holds and that it answers wrongly."""

    mutant: Mutant
    call: str
    expected: Answer
    answer: Answer

    def __str__(self) -> str:
        return f"{self.mutant.id}: {self.call} is {self.answer}, not {self.expected}"


def mutants(code: str, entry_point: str) -> list[Mutant]:
    """Every mutant of the code, in the order of its lines; empty when it does not parse.

    Functions other than ``entry_point`` are mutated as well, but not emptied: what they should
    return is not known to matter.
    """
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError):
        return []
    known = {ast.unparse(tree)}
    names: Counter[str] = Counter()
    found = []
    for line, operator, mutated in sorted(_mutations(tree, entry_point), key=lambda m: m[0]):
        if mutated in known or not _compiles(mutated):
            continue
        known.add(mutated)
        name = f"{operator}-L{line}"
        names[name] += 1
        number = f"-{names[name]}" if names[name] > 1 else ""
        found.append(Mutant(name + number, operator, line, mutated + "\n"))
    return found


async def confirmed_wrong(
    session: Session, problem: Problem, candidates: Sequence[Mutant], calls: Sequence[str]
) -> list[Confirmed]:
    """The mutants that answer one of ``calls`` or of the challenge asserts' calls wrongly.

    Wrong is another value, an error, or no end, where the reference gives a plain value, twice the
    same. The others are equivalent to the reference, or nothing is known about them. Raises
    ``InfrastructureError``.
    """
    name = entry_point_of(problem)
    visible = calls_in(problem.test_list, name)
    hidden = calls_in(problem.challenge_test_list, name)
    asked = [call for call in dict.fromkeys([*hidden, *calls]) if call not in visible]
    reference = await reference_answers(session, problem, asked)
    right = {
        call: answer
        for call, answer in zip(asked, reference, strict=True)
        if answer.kind == "value"
    }
    programs = [Program.of(problem, mutant.code, [*right]) for mutant in candidates]
    answered = await answers_of(session, programs, seconds_per_call=MUTANT_SECONDS, patience=1)
    confirmed = []
    for mutant, given in zip(candidates, answered, strict=True):
        for (call, expected), answer in zip(right.items(), given, strict=True):
            if answer.differs(expected):
                confirmed.append(Confirmed(mutant, call, expected, answer))
                break
    return confirmed


def _mutations(tree: ast.Module, entry_point: str) -> Iterator[tuple[int, str, str]]:
    """Line, operator and source of every mutation; not all of them are new or compile."""
    for index, (node, line) in enumerate(_nodes(tree)):
        function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if function and node.name != entry_point:  # type: ignore[attr-defined]  # it is a function
            continue
        for operator in OPERATORS:
            for name, replacement in operator(node):
                copy = deepcopy(tree)
                target = _nodes(copy)[index][0]
                _Replaced(target, replacement).visit(copy)
                yield line, name, ast.unparse(ast.fix_missing_locations(copy))


def _nodes(tree: ast.AST, line: int = 1) -> list[tuple[ast.AST, int]]:
    """What may be mutated, with its line: no annotations, docstrings, or parts of f-strings' specs.

    The parser uses one object for all operators of a kind; here each place gets its own.
    """
    line = getattr(tree, "lineno", line)
    found = [(tree, line)]
    for field, value in ast.iter_fields(tree):
        if field in {"annotation", "returns", "ctx", "decorator_list", "format_spec"}:
            continue
        children = value if isinstance(value, list) else [value]
        for position, child in enumerate(children):
            if not isinstance(child, ast.AST) or _is_docstring(tree, child):
                continue
            own = child
            if isinstance(child, ast.operator | ast.cmpop | ast.boolop):
                own = type(child)()
                if isinstance(value, list):
                    value[position] = own
                else:
                    setattr(tree, field, own)
            found += _nodes(own, line)
    return found


def _is_docstring(parent: ast.AST, node: ast.AST) -> bool:
    body = getattr(parent, "body", None)
    first = isinstance(body, list) and body and body[0] is node
    return bool(first) and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


class _Replaced(ast.NodeTransformer):
    """Puts something else in the place of one node."""

    def __init__(self, target: ast.AST, replacement: Replacement) -> None:
        self._target = target
        self._replacement = replacement

    def visit(self, node: ast.AST) -> ast.AST | list[ast.stmt]:
        return self._replacement if node is self._target else self.generic_visit(node)


def _compiles(code: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `1 is 2` and the like
        try:
            compile(code, "mutant", "exec")
        except (SyntaxError, ValueError, RecursionError):
            return False
    return True
