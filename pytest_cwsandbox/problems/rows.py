"""Rows of a JSONL or JSON file, each knowing where it stands."""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from pytest_cwsandbox.errors import ProblemFileError
from pytest_cwsandbox.problems.parsing import parse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Row:
    """One JSON object; ``where`` reads ``problems.jsonl:7`` or ``problems.json: element 7``."""

    where: str
    fields: dict[str, object]

    def __contains__(self, name: str) -> bool:
        return name in self.fields

    def fail(self, message: str) -> NoReturn:
        raise ProblemFileError(f"{self.where}: {message}")

    def text(self, name: str, default: str | None = None) -> str:
        """A string field; required when there is no default."""
        value = self._get(name, default)
        if not isinstance(value, str):
            self.fail(f'field "{name}" must be a string, got {_type(value)}')
        self._encodable(name, value)
        return value

    def texts(self, name: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """A field that lists strings; required when there is no default."""
        value = self._get(name, default)
        if not isinstance(value, list | tuple):
            self.fail(f'field "{name}" must be a list of strings, got {_type(value)}')
        for number, item in enumerate(value, start=1):
            if not isinstance(item, str):
                self.fail(
                    f'field "{name}" must be a list of strings, item {number} is {_type(item)}'
                )
            self._encodable(name, item)
        return tuple(value)

    def asserts(self, name: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """A field that lists ``assert`` statements, one in each string."""
        tests = self.texts(name, default)
        for number, test in enumerate(tests, start=1):
            body = self._parse(name, number, test).body
            if len(body) != 1 or not isinstance(body[0], ast.Assert):
                self.fail(f'field "{name}" item {number} must be one assert statement')
        return tests

    def statements(self, name: str) -> tuple[str, ...]:
        """An optional field that lists Python source."""
        sources = self.texts(name, ())
        for number, source in enumerate(sources, start=1):
            self._parse(name, number, source)
        return sources

    def key(self, name: str) -> str:
        """A field that identifies the row: an integer or a string, as text."""
        value = self._get(name, None)
        if not isinstance(value, int | str) or isinstance(value, bool):
            self.fail(f'field "{name}" must be an integer or a string, got {_type(value)}')
        if value == "":
            self.fail(f'field "{name}" is empty')
        key = str(value)
        self._encodable(name, key)
        return key

    def _get(self, name: str, default: object) -> object:
        if name in self.fields:
            return self.fields[name]
        if default is None:
            self.fail(f'missing field "{name}"')
        return default

    def _encodable(self, name: str, text: str) -> None:
        try:
            text.encode()
        except UnicodeEncodeError:
            self.fail(f'field "{name}" holds half of a surrogate pair, which is no text')

    def _parse(self, name: str, number: int, source: str) -> ast.Module:
        try:
            return parse(source)
        except SyntaxError as error:
            self.fail(f'field "{name}" item {number} does not parse: {error.msg}')
        except (ValueError, RecursionError, MemoryError) as error:  # NUL bytes, deep nesting
            reason = str(error) or type(error).__name__
            self.fail(f'field "{name}" item {number} does not parse: {reason}')


def read_rows(path: Path) -> list[Row]:
    """All rows of a ``.jsonl`` file (one object per line) or a ``.json`` file (one array).

    Raises ``ProblemFileError``, also for a file without rows.
    """
    content = _read(path).removeprefix(BOM)
    rows = list((_array if path.suffix.lower() == ".json" else _lines)(path, content))
    if not rows:
        raise ProblemFileError(f"{path}: the file has no rows")
    return rows


def _read(path: Path) -> bytes:
    if path.is_dir():
        raise ProblemFileError(f"{path}: is a directory, not a .jsonl or .json file")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ProblemFileError(f"{path}: no such file") from None
    except OSError as error:
        raise ProblemFileError(f"{path}: cannot be read: {error.strerror}") from error


def _lines(path: Path, content: bytes) -> Iterator[Row]:
    # Only \n ends a line: U+2028 and its kin are ordinary characters inside JSON strings.
    for number, line in enumerate(content.split(b"\n"), start=1):
        if line.strip():
            where = f"{path}:{number}"
            yield _row(where, _decode(where, line))


def _array(path: Path, content: bytes) -> Iterator[Row]:
    if not content.strip():
        return
    elements = _decode(str(path), content)
    if not isinstance(elements, list):
        raise ProblemFileError(
            f"{path}: must be a JSON array of objects, got {_type(elements)};"
            " name a file with one object per line .jsonl"
        )
    for number, element in enumerate(elements, start=1):
        yield _row(f"{path}: element {number}", element)


def _row(where: str, value: object) -> Row:
    if not isinstance(value, dict):
        raise ProblemFileError(f"{where}: must be a JSON object, got {_type(value)}")
    return Row(where, value)


def _decode(where: str, content: bytes) -> object:
    try:
        return json.loads(content.decode())
    except UnicodeDecodeError as error:
        byte = content[error.start]
        raise ProblemFileError(
            f"{where}: not UTF-8: byte 0x{byte:02x} at offset {error.start}"
        ) from None
    except json.JSONDecodeError as error:
        place = f"column {error.colno}" if error.lineno == 1 else f"line {error.lineno}"
        raise ProblemFileError(f"{where}: not valid JSON: {error.msg} at {place}") from None
    except (ValueError, RecursionError) as error:  # an integer of 5,000 digits; deep nesting
        raise ProblemFileError(f"{where}: not valid JSON: {error}") from None


def _type(value: object) -> str:
    return "null" if value is None else type(value).__name__
