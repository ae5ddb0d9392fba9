"""Inputs that no assert shows, made from those that the visible asserts show."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, cast

from pytest_cwsandbox.problems.entry_point import infer_entry_point
from pytest_cwsandbox.validation.literals import source
from pytest_cwsandbox.validation.variation import Varied, keeps_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_cwsandbox.problems.problem import Problem
    from pytest_cwsandbox.validation.execute import Answer

# Around a call they say what of its value counts: `list(f(x))` of a generator, `sorted(f(x))`.
WRAPPERS = frozenset({"list", "tuple", "set", "sorted", "dict"})
ENOUGH = 3
TRIES = 25  # per wanted call; small domains run dry


@dataclass(frozen=True, slots=True)
class _Example:
    """A call with literal arguments; ``shape`` is all but their values."""

    wrappers: tuple[str, ...]
    keywords: tuple[str | None, ...]
    values: tuple[object, ...]

    @property
    def shape(self) -> tuple[object, ...]:
        return self.wrappers, self.keywords

    def text(self, name: str) -> str:
        arguments = ", ".join(
            f"{keyword}={source(value)}" if keyword else source(value)
            for keyword, value in zip(self.keywords, self.values, strict=True)
        )
        opened = "".join(f"{wrapper}(" for wrapper in self.wrappers)
        return f"{opened}{name}({arguments}){')' * len(self.wrappers)}"


def generate(problem: Problem, *, seed: int = 0, count: int = 40) -> list[str]:
    """Up to ``count`` distinct calls of the entry point, none of them in a visible assert.

    Empty where the visible asserts hold no calls with literal arguments, or others as well: then
    nothing can be generated, which is not the same as nothing being found.
    """
    name = entry_point_of(problem)
    examples = _examples(problem, name)
    if not examples:
        return []
    random = Random(f"{problem.id} {seed}")  # noqa: S311 - the same calls every time
    seen = {example.text(name) for example in examples}
    calls: list[str] = []
    for _ in range(TRIES * count):
        if len(calls) == count:
            break
        try:
            varied = _vary(examples, random)
            call = varied.text(name)
        except (ValueError, OverflowError):  # a float that left the numbers
            continue
        ordered = keeps_order(varied.values, [example.values for example in examples])
        if ordered and call not in seen:
            seen.add(call)
            calls.append(call)
    return calls


def held_out_asserts(
    problem: Problem, calls: Sequence[str], answers: Sequence[Answer]
) -> tuple[str, ...]:
    """Asserts of the reference's plain answers; calls that gave anything else are dropped.

    Floats are compared closely where the visible asserts do so.
    """
    close = any("math.isclose(" in test for test in problem.test_list)
    asserts = []
    for call, answer in zip(calls, answers, strict=True):
        if answer.kind == "value":
            is_float = close and isinstance(ast.literal_eval(answer.text), float)
            holds = (
                f"math.isclose({call}, {answer.text})" if is_float else f"{call} == {answer.text}"
            )
            asserts.append(f"assert {holds}")
    return tuple(asserts)


def checkable(asserts: Sequence[str]) -> bool:
    """Whether generated asserts are enough to say anything."""
    return len(asserts) >= ENOUGH


def entry_point_of(problem: Problem) -> str:
    """The stated one, or the one that the asserts call."""
    return problem.entry_point or infer_entry_point(
        problem.test_list, problem.reference_solution, problem.test_imports
    )


def calls_in(asserts: Sequence[str], name: str) -> list[str]:
    """The distinct calls of ``name`` in the asserts, with the wrappers around them."""
    found = (ast.unparse(outer) for test in asserts for outer, _, _ in _calls(test, name))
    return list(dict.fromkeys(found))


def _examples(problem: Problem, name: str) -> list[_Example]:
    """Those of the visible asserts, all of the most frequent shape; none if any is not literal."""
    examples = []
    for test in problem.test_list:
        for _, call, wrappers in _calls(test, name):
            arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
            try:
                values = tuple(ast.literal_eval(argument) for argument in arguments)
                source(values)
            except ValueError:
                return []
            keywords = (*(None for _ in call.args), *(keyword.arg for keyword in call.keywords))
            examples.append(_Example(wrappers, keywords, values))
    shapes = [example.shape for example in examples]
    return [
        example
        for example in examples
        if example.values and example.shape == max(shapes, key=shapes.count)
    ]


def _calls(test: str, name: str) -> Iterator[tuple[ast.expr, ast.Call, tuple[str, ...]]]:
    """Every call of ``name``: with what wraps it, itself, and the wrappers' names."""
    try:
        tree = ast.parse(test)
    except (SyntaxError, ValueError, RecursionError):  # no assert, so it shows no call
        return
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or _called(node) != name:
            continue
        outer = node
        wrappers: tuple[str, ...] = ()
        while isinstance(parent := parents[outer], ast.Call) and _wraps(parent, outer):
            outer = parent
            wrappers = (_called(outer), *wrappers)
        yield outer, node, wrappers


def _called(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _wraps(call: ast.Call, inner: ast.expr) -> bool:
    return _called(call) in WRAPPERS and call.args == [inner] and not call.keywords


def _vary(examples: Sequence[_Example], random: Random) -> _Example:
    """A call whose arguments come from several examples, with one to three changes."""
    base = random.choice(examples)
    columns = list(zip(*(example.values for example in examples), strict=True))
    values = list(base.values)
    parallel = _parallel(columns)
    if parallel and random.random() < 0.5:
        return replace(base, values=tuple(_vary_together(columns, values, parallel, random)))
    if random.random() < 0.3:
        values = [random.choice(column) for column in columns]
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(values))
        values[at] = Varied(columns[at], random).vary(values[at])
    return replace(base, values=tuple(values))


def _parallel(columns: Sequence[Sequence[object]]) -> list[int]:
    """Which arguments are sequences that have the same length in every example."""
    lengths = [
        tuple(len(value) for value in column if isinstance(value, list | tuple))
        for column in columns
    ]
    for shared in lengths:
        found = [at for at, other in enumerate(lengths) if other == shared]
        if len(found) > 1 and len(shared) == len(columns[0]):
            return found
    return []


def _vary_together(
    columns: Sequence[Sequence[object]], values: list[object], parallel: list[int], random: Random
) -> list[object]:
    """Vary parallel lists as the one list of rows that they are."""
    columns = cast("Sequence[Sequence[Sequence[object]]]", columns)
    given = zip(*(columns[at] for at in parallel), strict=True)
    examples = [list(zip(*lists, strict=True)) for lists in given]
    varied = Varied(examples, random).vary(random.choice(examples))
    for position, at in enumerate(parallel):
        column = [row[position] for row in cast("list[tuple[object, ...]]", varied)]
        values[at] = tuple(column) if isinstance(values[at], tuple) else column
    return values
