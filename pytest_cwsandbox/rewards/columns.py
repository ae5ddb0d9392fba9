"""From what a trainer passes to what a grader takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pytest_cwsandbox.errors import ConfigurationError
from pytest_cwsandbox.problems import Problem

Message = Mapping[str, object]
Completion = str | Sequence[Message]


def text_of(completion: Completion) -> str:
    """The text of a completion: a string, or the last assistant message of a conversation.

    A message without text (None, or parts that are no text) has the empty text.
    """
    if isinstance(completion, str):
        return completion
    for message in reversed(completion):
        if message.get("role", "assistant") == "assistant":
            return _content(message.get("content"))
    return ""


def _content(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        return "".join(part for part in parts if isinstance(part, str))
    return ""


def problems_of(columns: Mapping[str, object], count: int) -> list[Problem]:
    """The problem of each of ``count`` completions, from the dataset's columns.

    ``test_list`` is needed, or ``expected_output``; ``challenge_test_list``, ``test_imports``,
    ``test_setup_code``, ``entry_point`` and ``task_id`` are used where present; other columns are
    ignored. Raises ``ConfigurationError`` that names the column.
    """
    if "test_list" not in columns and "expected_output" not in columns:
        raise ConfigurationError(
            'the reward needs the column "test_list": pass the dataset with its asserts, or with '
            'what its programs print in "expected_output"'
        )
    read = _Columns(columns, count)
    return [
        Problem(
            task_id=read.text("task_id", row) or str(row),
            prompt="",
            test_list=read.texts("test_list", row),
            entry_point=read.text("entry_point", row),
            test_imports=read.texts("test_imports", row),
            test_setup_code=read.text("test_setup_code", row),
            challenge_test_list=read.texts("challenge_test_list", row),
        )
        for row in range(count)
    ]


def expected_outputs_of(columns: Mapping[str, object], count: int) -> list[str | None]:
    """What the program of each completion should print; None where the dataset does not say."""
    read = _Columns(columns, count)
    outputs = [read.value("expected_output", row) for row in range(count)]
    return [None if output is None else str(output) for output in outputs]


class _Columns:
    """Columns of equal length; a missing or null value is an empty one."""

    def __init__(self, columns: Mapping[str, object], count: int) -> None:
        self._columns = columns
        self._count = count

    def value(self, name: str, row: int) -> object:
        column = self._columns.get(name)
        if column is None:
            return None
        if not isinstance(column, list | tuple) or len(column) != self._count:
            raise ConfigurationError(
                f'column "{name}" must be a list with a value for each of the '
                f"{self._count} completions"
            )
        return column[row]

    def text(self, name: str, row: int) -> str:
        value = self.value(name, row)
        return "" if value is None else str(value)

    def texts(self, name: str, row: int) -> tuple[str, ...]:
        value = self.value(name, row)
        if value is None:
            return ()
        items = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else ()
        texts = tuple(item for item in items if isinstance(item, str))
        if isinstance(value, str) or len(texts) < len(items) or not isinstance(value, Iterable):
            raise ConfigurationError(
                f'column "{name}", completion {row}: must be a list of strings, got {value!r:.80}'
            )
        return texts
