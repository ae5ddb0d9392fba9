"""Reading the options, from the command line or the ini file; errors name which."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import pytest

from pytest_cwsandbox.options import NAMED_SOURCES, OPTIONS, SIZE_WANTED, read_size
from pytest_cwsandbox.runs.gate import Thresholds

if TYPE_CHECKING:
    from collections.abc import Callable

N = TypeVar("N", int, float)


class Reader:
    """Takes values from the command line, then from the ini file, and notes which were set."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._options = {option.name: option for option in OPTIONS}
        self.explicit: set[str] = set()
        self._place = ""

    def _raw(self, name: str) -> object:
        option = self._options[name]
        value: object = self._config.getoption(option.key)
        self._place = option.flag
        if value is None:
            self._place = option.key
            try:
                value = self._config.getini(option.key)
            except (TypeError, ValueError, pytest.UsageError) as error:
                raise pytest.UsageError(f"{option.key}: {error}") from error
        if value is None:
            return None
        self.explicit.add(name)
        if option.choices and value not in option.choices:
            raise self._error(f"one of {', '.join(option.choices)}", value)
        return value

    def _error(self, expected: str, value: object) -> pytest.UsageError:
        return pytest.UsageError(f"{self._place} must be {expected}, got {value!r}")

    def text(self, name: str, default: str) -> str:
        value = self._raw(name)
        if value is None:
            return default
        if not str(value).strip():
            raise self._error("a non-empty text", value)
        return str(value)

    def path(self, name: str, default: Path) -> Path:
        """A path: relative to where pytest was called, or to the ini file or rootdir."""
        value = self.text(name, "")
        return self._home() / value if value else self._config.rootpath / default

    def optional_path(self, name: str) -> Path | None:
        """A path, or None; on the command line an empty one turns the ini file's off."""
        value = self._raw(name)
        return self._home() / str(value) if value else None

    def paths(self, name: str) -> tuple[Path, ...]:
        values = self.texts(name)
        return tuple(self._home() / value for value in values)

    def _home(self) -> Path:
        """What the path just read is relative to."""
        if self._place.startswith("--"):
            return self._config.invocation_params.dir
        return self._config.inipath.parent if self._config.inipath else self._config.rootpath

    def source(self, name: str, default: str) -> str:
        """A source of problems: a known name, or a path."""
        value = self.text(name, default)
        return value if value in NAMED_SOURCES else str(self.path(name, Path()))

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._raw(name)
        return tuple(str(text) for text in value) if isinstance(value, list) else ()

    def number(
        self,
        name: str,
        kind: Callable[[str], N],
        *,
        above: float | None = None,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> N | None:
        value = self._raw(name)
        if value is None:
            return None
        expected = "a whole number" if kind is int else "a number"
        if above is not None:
            expected += f" above {above:g}"
        if at_least is not None:
            expected += f" of at least {at_least:g}"
        if at_most is not None:
            expected += f" and at most {at_most:g}"
        try:
            number = kind(str(value))
        except ValueError:
            raise self._error(expected, value) from None
        inside = (
            (above is None or number > above)
            and (at_least is None or number >= at_least)
            and (at_most is None or number <= at_most)
            and abs(number) != float("inf")
        )
        if not inside:
            raise self._error(expected, value)
        return number

    def rates(self, name: str) -> Thresholds:
        """A share from 0 to 1, or ``group=share`` pairs, separated by commas."""
        value = self._raw(name)
        if value is None:
            return Thresholds()
        pooled: float | None = None
        groups: dict[str, float] = {}
        expected = "a number from 0 to 1, or GROUP=NUMBER pairs separated by commas"
        for part in str(value).split(","):
            group, equals, text = part.rpartition("=")
            try:
                rate = float(text)
            except ValueError:
                rate = -1.0
            group = group.strip()
            repeated = group in groups if equals else pooled is not None
            if not 0 <= rate <= 1 or (equals and not group):
                raise self._error(expected, value)
            if repeated:
                twice = f"{group} is named" if equals else "a number for all samples is there"
                raise pytest.UsageError(f"{self._place}: {twice} twice in {value!r}")
            if equals:
                groups[group] = rate
            else:
                pooled = rate
        return Thresholds(pooled, groups, lenient=not self._place.startswith("--"))

    def numbers(self, name: str) -> tuple[int, ...]:
        """Whole numbers of at least 1, separated by commas."""
        value = self._raw(name)
        if value is None:
            return ()
        text = f"{value:g}" if isinstance(value, float) else str(value)
        parts = [part.strip() for part in text.split(",")]
        if not all(part.isdecimal() and int(part) >= 1 for part in parts):
            raise self._error("whole numbers of at least 1, separated by commas", value)
        return tuple(sorted({int(part) for part in parts}))

    def count_or_auto(self, name: str) -> int | Literal["auto"] | None:
        """A whole number of at least 1, or the word auto."""
        value = self._raw(name)
        if value is None:
            return None
        text = f"{value:g}" if isinstance(value, float) else str(value).strip()
        if text == "auto":
            return "auto"
        if not (text.isdecimal() and int(text) >= 1):
            raise self._error("a whole number of at least 1, or auto", value)
        return int(text)

    def words(self, name: str) -> tuple[str, ...]:
        """Words, separated by commas."""
        value = self._raw(name)
        if value is None:
            return ()
        words = tuple(word.strip() for word in str(value).split(","))
        if not all(words):
            raise self._error("names separated by commas", value)
        return words

    def interval(self, name: str, default: tuple[float, float]) -> tuple[float, float]:
        value = self._raw(name)
        if value is None:
            return default
        low, colon, high = str(value).partition(":")
        try:
            bounds = (float(low), float(high))
        except ValueError:
            bounds = (0.0, 0.0)
        if not colon or not bounds[0] < bounds[1]:
            raise self._error("two numbers, the lower first, such as 0:1", value)
        return bounds

    def pair(self, name: str) -> tuple[float, float] | None:
        """Two numbers of at least 0, with a colon between them."""
        value = self._raw(name)
        if value is None:
            return None
        parts = str(value).split(":")
        try:
            first, second = (float(part) for part in parts)
        except ValueError:
            first = second = -1.0
        if not (0 <= first < float("inf") and 0 <= second < float("inf")):
            raise self._error("two numbers of at least 0, such as 0.25:2", value)
        return first, second

    def object(self, name: str) -> dict[str, object]:
        """A JSON object."""
        value = self._raw(name)
        if value is None:
            return {}
        try:
            parsed = json.loads(str(value))
        except ValueError:
            parsed = None
        if not isinstance(parsed, dict):
            raise self._error('a JSON object, such as {"top_k": 20}', value)
        return parsed

    def size(self, name: str) -> int | None:
        value = self._raw(name)
        if value is None:
            return None
        size = read_size(str(value))
        if size is None:
            raise self._error(SIZE_WANTED, value)
        return size
