"""From what a trainer passes to what a grader takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import cast

from pytest_cwsandbox.errors import ConfigurationError
from pytest_cwsandbox.problems import Problem

Message = Mapping[str, object]
Completion = str | Sequence[Message]

PLAIN = (
    "to_pylist",
    "tolist",
    "as_py",
)  # of Arrow's arrays, of NumPy and pandas, of Arrow's values
NO_TEXT = {"NAType", "NaTType"}  # what pandas writes for a missing value, beside NaN


def texts_of(completions: Sequence[Completion]) -> list[str]:
    """The text of each completion; raises ``ConfigurationError`` that names one that has none."""
    return [text_of(each, f"completion {row}") for row, each in enumerate(listed(completions))]


def text_of(completion: object, name: str = "the completion") -> str:
    """The text of a completion: a string, or the last assistant message of a conversation.

    A message without text (None, or parts that are no text) has the empty text.
    """
    if isinstance(completion, str):
        return completion
    for message in reversed(messages_of(completion, name)):
        if message.get("role", "assistant") == "assistant":
            return content_of(message)
    return ""


def messages_of(completion: object, name: str = "the completion") -> list[Message]:
    """The messages of a conversation; none of a text."""
    if isinstance(completion, str):
        return []
    messages = plain(completion)
    if isinstance(messages, list | tuple) and all(isinstance(each, Mapping) for each in messages):
        return list(messages)
    raise ConfigurationError(
        f"{name} must be a string or a list of messages, got {type(completion).__name__}: "
        f"{completion!r:.80}"
    )


def content_of(message: Message) -> str:
    """What a message says: its text, or that of its parts."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list | tuple):
        parts = (part.get("text") for part in content if isinstance(part, Mapping))
        return "".join(part for part in parts if isinstance(part, str))
    return ""


def listed(values: object, name: str = "completions", count: int | None = None) -> list[object]:
    """The values as a list, whatever a data set keeps them in; of ``count`` where it is given."""
    values = plain(values)
    if (
        isinstance(values, str | bytes | Mapping)
        or not hasattr(values, "__len__")
        or not hasattr(values, "__getitem__")
    ):
        raise ConfigurationError(
            f"{name} must be a list with a value for each completion, got {type(values).__name__}: "
            f"{values!r:.80}"
        )
    found = [plain(value) for value in cast("Sequence[object]", values)]
    if count is not None and len(found) != count:
        raise ConfigurationError(f"{name} has {len(found)} values for {count} completions")
    return found


def plain(value: object) -> object:
    """The value in Python's own types, where it is one of Arrow, NumPy, pandas or torch."""
    for method in PLAIN:
        if callable(convert := getattr(value, method, None)):
            return convert()
    return value


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
            task_id=read.printed("task_id", row) or str(row),
            prompt="",
            test_list=read.texts("test_list", row),
            entry_point=read.text("entry_point", row) or "",
            test_imports=read.texts("test_imports", row),
            test_setup_code=read.text("test_setup_code", row) or "",
            challenge_test_list=read.texts("challenge_test_list", row),
        )
        for row in range(count)
    ]


def expected_outputs_of(columns: Mapping[str, object], count: int) -> list[str | None]:
    """What the program of each completion should print; None where the dataset does not say."""
    read = _Columns(columns, count)
    return [read.printed("expected_output", row) for row in range(count)]


class _Columns:
    """Columns of equal length; a missing value (None, NaN) is no text."""

    def __init__(self, columns: Mapping[str, object], count: int) -> None:
        self._columns = columns
        self._count = count
        self._lists: dict[str, list[object]] = {}

    def value(self, name: str, row: int) -> object:
        column = self._columns.get(name)
        if column is None:
            return None
        if name not in self._lists:
            self._lists[name] = listed(column, f'column "{name}"', self._count)
        value = self._lists[name][row]
        is_nan = isinstance(value, float) and value != value  # noqa: PLR0124 - NaN alone does
        return None if is_nan or type(value).__name__ in NO_TEXT else value

    def text(self, name: str, row: int) -> str | None:
        value = self.value(name, row)
        if value is None or isinstance(value, str):
            return value
        raise _wrong(name, row, "a string", value)

    def printed(self, name: str, row: int) -> str | None:
        """A text, or a number as ``print`` shows it."""
        value = self.value(name, row)
        return str(value) if isinstance(value, Real) else self.text(name, row)

    def texts(self, name: str, row: int) -> tuple[str, ...]:
        value = self.value(name, row)
        if value is None:
            return ()
        if isinstance(value, Iterable) and not isinstance(value, str | Mapping):
            items = tuple(map(plain, value))
            texts = tuple(item for item in items if isinstance(item, str))
            if len(texts) == len(items):
                return texts
        raise _wrong(name, row, "a list of strings", value)


def _wrong(name: str, row: int, wanted: str, value: object) -> ConfigurationError:
    return ConfigurationError(
        f'column "{name}", completion {row}: must be {wanted}, got {type(value).__name__}: '
        f"{value!r:.80}"
    )
