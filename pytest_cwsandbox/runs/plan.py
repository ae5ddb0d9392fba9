"""The plan of a run: the samples that it collected, and the problems that they are of."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, cast

from pytest_cwsandbox.errors import ProblemFileError
from pytest_cwsandbox.problems import Problem
from pytest_cwsandbox.runs import lines
from pytest_cwsandbox.runs.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

PLAN = "plan.jsonl"
PROBLEMS = "problems.jsonl"
TASKS = "tasks.jsonl"


@dataclass(frozen=True, slots=True)
class Planned:
    """A sample that the run collected."""

    id: str
    group: str
    problem: str
    sample: int


def write(
    folder: Path,
    planned: Iterable[Planned],
    problems: Mapping[str, Problem],
    tasks: Mapping[str, Mapping[str, object]],
) -> None:
    """Write the plan, and the problems and tasks by their id; one process of a run does.

    Of a run that is continued the earlier problems and tasks stay: its samples are of them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    problems = {**read_problems(folder), **problems}
    tasks = {**read_tasks(folder), **tasks}
    _write(folder / PROBLEMS, ({"id": name, **problems[name].to_json()} for name in problems))
    _write(folder / TASKS, ({"id": name, **tasks[name]} for name in tasks))
    _write(folder / PLAN, (asdict(each) for each in planned))


def read(folder: Path) -> dict[str, Planned]:
    """The planned samples by id; empty where none were written.

    Raises ``ProblemFileError`` for a row that is none.
    """
    found = {}
    for where, row in _read(folder / PLAN):
        try:
            planned = Planned(**row)  # type: ignore[arg-type]  # checked by the call itself
        except TypeError as error:
            raise ProblemFileError(f"{where}: no planned sample: {error}") from None
        found[planned.id] = planned
    return found


def group_of(node: str) -> str:
    """The group of an item that no plan knows, by its id alone: ``file/test function``."""
    file, _, name = node.partition("::")
    return f"{PurePath(file).stem}/{name.partition('[')[0].rpartition('::')[2]}"


def read_problems(folder: Path) -> dict[str, Problem]:
    """The run's problems by id. Raises ``ProblemFileError`` for a row that is none."""
    found = {}
    for where, row in _read(folder / PROBLEMS):
        name = str(row.pop("id", ""))
        try:
            found[name] = Problem(
                **{k: tuple(v) if isinstance(v, list) else v for k, v in row.items()}  # type: ignore[arg-type]  # checked by the call itself
            )
        except TypeError as error:
            raise ProblemFileError(f"{where}: no problem: {error}") from None
    return found


def read_tasks(folder: Path) -> dict[str, dict[str, object]]:
    """The run's tasks by id, as JSON."""
    return {str(row.pop("id", "")): row for _, row in _read(folder / TASKS)}


def _write(file: Path, rows: Iterable[Mapping[str, object]]) -> None:
    unfinished = file.with_suffix(".part")
    with unfinished.open("w") as stream:
        stream.writelines(redact(json.dumps(row)) + "\n" for row in rows)
    unfinished.replace(file)


def _read(file: Path) -> list[tuple[str, dict[str, object]]]:
    if not file.exists():
        return []
    return list(lines.read(file, cast("Callable[[str], None]", lambda _: None)))
