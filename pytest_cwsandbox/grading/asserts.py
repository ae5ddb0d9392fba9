"""What a problem's asserts ask: all that its worker and its judge need."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_cwsandbox.errors import ConfigurationError
from pytest_cwsandbox.grading.extract import normalise
from pytest_cwsandbox.grading.names import (
    BUILTINS,
    as_modules,
    bound_inside,
    bound_outside,
    loaded,
    parse,
    read_setup,
)
from pytest_cwsandbox.grading.secrecy import check_expected
from pytest_cwsandbox.grading.split import Splitter
from pytest_cwsandbox.problems.entry_point import infer_entry_point
from pytest_cwsandbox.problems.parsing import parsing

if TYPE_CHECKING:
    from pytest_cwsandbox.grading.split import Check
    from pytest_cwsandbox.problems.problem import Problem


@dataclass(frozen=True, slots=True)
class Tests:
    """All that the asserts of one problem need, split into the worker's and the judge's."""

    entry_point: str
    imports: str
    setup: str
    names: tuple[str, ...]
    modules: tuple[str, ...]
    calls: tuple[str, ...]
    checks: tuple[Check, ...]
    judge_setup: str


def read_tests(problem: Problem, *, held_out: bool = False) -> Tests:
    """Take a problem's tests apart; raises ``ConfigurationError`` for what cannot be graded."""
    texts = problem.test_list + (problem.challenge_test_list if held_out else ())
    if not texts:
        raise ConfigurationError(f"problem {problem.id} has no tests: nothing could be graded")
    try:
        with parsing():
            return _read(problem, texts)
    except ConfigurationError as error:
        raise ConfigurationError(f"problem {problem.id}: {error}") from None


def _read(problem: Problem, texts: tuple[str, ...]) -> Tests:
    statements = [
        (s, " ".join(text.split())) for text in texts for s in parse(normalise(text), repr(text))
    ]
    imports = [s for s, _ in statements if isinstance(s, ast.Import | ast.ImportFrom)]
    tests = [(s, text) for s, text in statements if isinstance(s, ast.Assert)]
    if not tests or len(imports) + len(tests) < len(statements):
        raise ConfigurationError("a test is not an assert statement; write it as one")
    import_texts = [normalise(text) for text in problem.test_imports]
    import_texts += [ast.unparse(statement) for statement in imports]
    setup = read_setup(import_texts, normalise(problem.test_setup_code))
    entry_point = problem.entry_point or infer_entry_point(
        texts, problem.reference_solution, import_texts
    )
    if not problem.entry_point and any(
        entry_point in bound_outside(s) for s in setup.statements if s not in setup.own
    ):
        # Only the setup calls the solution.
        code = (normalise(problem.test_setup_code),)
        entry_point = infer_entry_point(code, problem.reference_solution, import_texts)
    splitter = Splitter(entry_point, setup, normalise(problem.reference_solution))
    checks = tuple(splitter.check(statement, text) for statement, text in tests)
    check_expected(setup, entry_point, splitter.calls, checks)
    setup = setup.giving(splitter.calls)
    if setup.given:
        splitter = Splitter(entry_point, setup, normalise(problem.reference_solution))
        checks = tuple(splitter.check(statement, text) for statement, text in tests)
        check_expected(setup, entry_point, splitter.calls, checks)
    if not splitter.calls:
        raise ConfigurationError(
            "no assert tests anything of the solution: write one that calls it"
        )

    used = set().union(*(loaded(call) for call in splitter.calls))
    worker_setup = setup.for_worker(used)
    worker = ast.Module([*worker_setup, *(ast.Expr(call) for call in splitter.calls)], [])
    rest = ast.Module([*setup.own, *(s for c in checks for s in ast.parse(c.source).body)], [])
    walked = {index for check in checks if check.kind == "judged" for index in check.calls}
    known = setup.names | {name for s in worker_setup for name in bound_inside(s)}
    return Tests(
        entry_point=entry_point,
        imports=_source(setup.imports),
        setup=_source(worker_setup),
        names=tuple(
            sorted(
                {
                    name
                    for call in splitter.calls
                    for name in loaded(call) - bound_inside(call) - known
                    if name == entry_point or name not in BUILTINS | as_modules(call)
                }
            )
        ),
        modules=tuple(sorted(as_modules(worker) - known - {entry_point})),
        calls=tuple(
            ("j" if index in walked else "h") + ast.unparse(call)
            for index, call in enumerate(splitter.calls)
        ),
        checks=checks,
        judge_setup="\n".join(
            [_source(setup.imports)]
            + [f"import {name}" for name in sorted(as_modules(rest) - setup.names)]
            + [_source(setup.own)]
        ),
    )


def _source(statements: list[ast.stmt] | tuple[ast.stmt, ...]) -> str:
    return "\n".join(ast.unparse(statement) for statement in statements)
