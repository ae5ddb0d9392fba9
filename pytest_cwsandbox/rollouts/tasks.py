"""Tasks: jobs for a general agent, and the files that they are loaded from."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_cwsandbox.errors import ConfigurationError, UserError
from pytest_cwsandbox.problems.rows import read_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_cwsandbox.problems.rows import Row

BUNDLED = Path(__file__).with_name("tasks.jsonl")
TOOLS = ("bash", "read_file", "write_file")
FILES_BYTES = 16 << 20  # of all files of one kind together: they travel in one request
NAME_BYTES, PATH_BYTES = 255, 4000  # what Linux allows, less a prefix for the working folder
MOST_STEPS = 10_000
MOST_SECONDS = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Task:
    """A job for a general agent: a prompt, files to start from, a command that judges the result.

    Paths are absolute, or relative to the working folder, ``/workspace``. ``files`` are placed
    before the agent begins, ``test_files`` when it has ended. ``test_command`` then runs in the
    agent's own sandbox: exit code 0 is reward 1.0. ``max_steps`` counts turns of the model.
    ``timeout_seconds`` is the test command's. ``reference_solution`` is what a perfect agent
    writes, path by path; it is never placed. ``task_id`` is unique within its ``source``.

    Raises ``ConfigurationError`` for values that no sandbox could take.
    """

    task_id: str
    prompt: str
    files: Mapping[str, str] = field(default_factory=dict, hash=False)
    test_command: tuple[str, ...] = ()
    test_files: Mapping[str, str] = field(default_factory=dict, hash=False)
    max_steps: int = 10
    tools: tuple[str, ...] = TOOLS
    timeout_seconds: float = 60.0
    system_prompt: str = ""
    reference_solution: Mapping[str, str] = field(default_factory=dict, hash=False)
    metadata: Mapping[str, str] = field(default_factory=dict, hash=False)
    split: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        for name in ("files", "test_files", "reference_solution"):
            if fault := _files_fault(getattr(self, name)):
                raise ConfigurationError(f'field "{name}" {fault}')
        if not 1 <= self.max_steps <= MOST_STEPS:
            raise ConfigurationError(
                f'field "max_steps" must be from 1 to {MOST_STEPS}, got {self.max_steps}'
            )
        if not 0 < self.timeout_seconds <= MOST_SECONDS:
            raise ConfigurationError(
                f'field "timeout_seconds" must be above 0 and at most {MOST_SECONDS:.0f},'
                f" got {self.timeout_seconds}"
            )
        if any("\0" in word for word in self.test_command):
            raise ConfigurationError('field "test_command" holds a NUL character')
        if self.test_command and not self.test_command[0]:
            raise ConfigurationError('field "test_command" must begin with a program')
        if len(set(self.tools)) < len(self.tools):
            raise ConfigurationError('field "tools" names a tool twice')

    @property
    def id(self) -> str:
        """Id for people and pytest, such as ``bundled-fix-the-average``."""
        return f"{self.source}-{self.task_id}" if self.source else self.task_id


def load_tasks(source: str = "bundled", *, split: str = "", limit: int | None = None) -> list[Task]:
    """The tasks of ``source``: "bundled", or a path to a ``.jsonl`` or ``.json`` file.

    Rows have the fields of ``Task``; ``test_command`` may be a string, for ``bash -c``. ``split``
    keeps the tasks of one split, "" and "all" keep everything. The source of a file's tasks is its
    stem. Raises ``UserError``; ``ProblemFileError`` names file, line and field.
    """
    if limit is not None and limit < 1:
        raise UserError(f"the limit of tasks must be at least 1, got {limit}")
    if source == "bundled":
        tasks = _tasks(read_rows(BUNDLED), source)
    else:
        path = Path(source)
        if path.suffix.lower() not in {".jsonl", ".json"}:
            raise UserError(
                f'tasks: "{source}" is not "bundled" and no path to a .jsonl or .json file'
            )
        tasks = _tasks(read_rows(path), re.sub(r"[^A-Za-z0-9_.]+", "-", path.stem).strip("-."))
    if split not in {"", "all"}:
        known = ", ".join(dict.fromkeys(task.split for task in tasks if task.split)) or "none"
        tasks = [task for task in tasks if task.split == split]
        if not tasks:
            raise UserError(f'tasks: {source} has no split "{split}"; its splits: {known}')
    return tasks[:limit]


def _tasks(rows: Sequence[Row], source: str) -> list[Task]:
    seen: dict[str, str] = {}
    tasks = []
    for row in rows:
        task = _task(row, source)
        first = seen.setdefault(task.task_id, row.where)
        if first != row.where:
            row.fail(f'field "task_id" repeats "{task.task_id}" of {first}')
        tasks.append(task)
    return tasks


def _task(row: Row, source: str) -> Task:
    known = [entry.name for entry in fields(Task) if entry.name != "source"]
    if unknown := [name for name in row.fields if name not in known]:
        row.fail(f'unknown field "{unknown[0]}"; the fields of a task are {", ".join(known)}')
    prompt = row.text("prompt")
    if not prompt.strip():
        row.fail('field "prompt" is empty')
    try:
        return Task(
            task_id=row.key("task_id"),
            prompt=prompt,
            files=_mapping(row, "files"),
            test_command=_command(row),
            test_files=_mapping(row, "test_files"),
            max_steps=int(_number(row, "max_steps", 10, whole=True)),
            tools=row.texts("tools", TOOLS),
            timeout_seconds=_number(row, "timeout_seconds", 60.0),
            system_prompt=row.text("system_prompt", ""),
            reference_solution=_mapping(row, "reference_solution"),
            metadata=_mapping(row, "metadata"),
            split=row.text("split", ""),
            source=source,
        )
    except ConfigurationError as error:
        row.fail(str(error))


def _command(row: Row) -> tuple[str, ...]:
    """The test command, which a row of a file cannot do without."""
    if isinstance(row.fields.get("test_command"), str):
        command = row.text("test_command")
        words: tuple[str, ...] = ("bash", "-c", command) if command.strip() else ()
    else:
        words = row.texts("test_command")
    if not words:
        row.fail('field "test_command" is empty; a task needs a command that tells if it is done')
    return words


def _mapping(row: Row, name: str) -> dict[str, str]:
    value = row.fields.get(name, {})
    if not isinstance(value, dict):
        row.fail(f'field "{name}" must be an object of strings, got {type(value).__name__}')
    for key, text in value.items():
        if not isinstance(text, str):
            row.fail(f'field "{name}" must hold strings, "{key}" is {type(text).__name__}')
    return value


def _number(row: Row, name: str, default: float, *, whole: bool = False) -> float:
    value = row.fields.get(name, default)
    if not isinstance(value, int if whole else int | float) or isinstance(value, bool):
        kind = "an integer" if whole else "a number"
        row.fail(f'field "{name}" must be {kind}, got {type(value).__name__}')
    return value


def _files_fault(files: Mapping[str, str]) -> str:
    """Why these files cannot be placed; "" if they can."""
    size = 0
    for path, text in files.items():
        try:
            size += len(text.encode())
            name = path.encode()
        except UnicodeEncodeError:
            return f'"{path!a}" holds half of a surrogate pair, which is no text'
        if fault := _path_fault(path, name):
            return f'path "{path!s:.80}" {fault}'
        above = posixpath.dirname(path)
        while above not in {"", "/"}:
            if above in files:
                return f'path "{above}" is a file and the folder of "{path}"'
            above = posixpath.dirname(above)
    if size > FILES_BYTES:
        return f"holds {size} bytes; at most {FILES_BYTES} can be placed"
    return ""


def _path_fault(path: str, name: bytes) -> str:
    if "\0" in path:
        return "holds a NUL character"
    if ".." in path.split("/"):
        return "must not hold '..'"
    if path in {"", ".", "/"} or path.startswith("//") or posixpath.normpath(path) != path:
        return "must name a file in its shortest form, such as src/main.py"
    if len(name) > PATH_BYTES or any(len(part) > NAME_BYTES for part in name.split(b"/")):
        return "is too long"
    return ""
