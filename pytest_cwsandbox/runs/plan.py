"""The plan of a run: the samples that it collected, and the problems that they are of."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Self

from pytest_cwsandbox.errors import ProblemFileError
from pytest_cwsandbox.problems import Problem
from pytest_cwsandbox.runs import lines
from pytest_cwsandbox.runs.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

PLAN = "plan.jsonl"
PROBLEMS = "problems.jsonl"
TASKS = "tasks.jsonl"
_LISTS = frozenset({"test_list", "test_imports", "challenge_test_list"})  # of a problem


@dataclass(frozen=True, slots=True)
class Planned:
    """A sample that the run collected."""

    id: str
    group: str
    problem: str
    sample: int

    @classmethod
    def from_json(cls, row: Mapping[str, object]) -> Self:
        """Build from a row of the plan; ``TypeError`` for any other."""
        texts = [row.get(name) for name in ("id", "group", "problem")]
        if not (all(isinstance(text, str) for text in texts) and type(row.get("sample")) is int):
            raise TypeError("it must have an id, a group, a problem and a sample number")
        return cls(**row)  # type: ignore[arg-type]  # checked above, further names by the call


def write(
    folder: Path,
    planned: Iterable[Planned],
    problems: Mapping[str, Problem],
    tasks: Mapping[str, Mapping[str, object]],
) -> None:
    """Write the plan, and the problems and tasks by their id; one process of a run does.

    Of a run that is continued the earlier ones stay: what is collected now may be a selection.
    """
    folder.mkdir(parents=True, exist_ok=True)
    problems = {**read_problems(folder), **problems}
    tasks = {**read_tasks(folder), **tasks}
    samples = {**read(folder), **{each.id: each for each in planned}}
    _write(folder / PROBLEMS, ({"id": name, **problems[name].to_json()} for name in problems))
    _write(folder / TASKS, ({"id": name, **tasks[name]} for name in tasks))
    _write(folder / PLAN, (asdict(each) for each in samples.values()))


def read(folder: Path, warn: Callable[[str], None] | None = None) -> dict[str, Planned]:
    """The planned samples by id; empty where none were written.

    A last line that was cut off is said through ``warn``. Raises ``ProblemFileError`` for any other
    row that is none.
    """
    found = {}
    for where, row in _read(folder / PLAN, warn):
        try:
            planned = Planned.from_json(row)
        except TypeError as error:
            raise ProblemFileError(f"{where}: no planned sample: {error}") from None
        found[planned.id] = planned
    return found


def group_of(node: str) -> str:
    """The group of an item that no plan knows, by its id alone: ``file/test function``."""
    file, _, name = node.partition("::")
    return f"{PurePath(file).stem}/{name.partition('[')[0].rpartition('::')[2]}"


def read_problems(folder: Path, warn: Callable[[str], None] | None = None) -> dict[str, Problem]:
    """The run's problems by id. As ``read``, with rows that are no problems."""
    found = {}
    for where, row in _read(folder / PROBLEMS, warn):
        name = str(row.pop("id", ""))
        try:
            found[name] = _problem(row)
        except TypeError as error:
            raise ProblemFileError(f"{where}: no problem: {error}") from None
    return found


def read_tasks(
    folder: Path, warn: Callable[[str], None] | None = None
) -> dict[str, dict[str, object]]:
    """The run's tasks by id, as JSON. As ``read``."""
    return {str(row.pop("id", "")): row for _, row in _read(folder / TASKS, warn)}


def _problem(row: Mapping[str, object]) -> Problem:
    for name, value in row.items():
        texts = value if isinstance(value, list) and name in _LISTS else [value]
        if (name in _LISTS) is not isinstance(value, list) or not all(
            isinstance(text, str) for text in texts
        ):
            raise TypeError(f'field "{name}" cannot be {value!r:.40}')
    return Problem(
        **{k: tuple(v) if isinstance(v, list) else v for k, v in row.items()}  # type: ignore[arg-type]  # checked above, the names by the call
    )


def _write(file: Path, rows: Iterable[Mapping[str, object]]) -> None:
    unfinished = file.with_suffix(".part")
    with unfinished.open("w") as stream:
        stream.writelines(redact(json.dumps(row)) + "\n" for row in rows)
    unfinished.replace(file)


def _read(
    file: Path, warn: Callable[[str], None] | None
) -> Iterator[tuple[str, dict[str, object]]]:
    if file.exists():
        yield from lines.read(file, warn or _unsaid)


def _unsaid(_: str) -> None:
    """Who reads a file again need not say again that its last line was cut off."""
