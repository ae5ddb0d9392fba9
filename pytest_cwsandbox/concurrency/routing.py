"""What a test that runs ahead prints, logs and warns waits for the test's turn.

A context variable says whose code runs: the tasks that a test starts inherit it, and so do threads
of ``asyncio.to_thread``. What belongs to nobody goes where it would go anyway.
"""

from __future__ import annotations

import copy
import logging
import sys
import warnings
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TextIO, cast

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Generator, Iterable

# Actions of warning filters that show one once, and how much of its place, file and line, counts.
_ONCE = {"default": 2, "module": 1, "once": 0}


class Said:
    """What one test has said. While ``held`` it is kept, then it passes through."""

    def __init__(self) -> None:
        self.held = True
        self._written: list[tuple[str, str]] = []
        self._logged: list[tuple[logging.Handler, logging.LogRecord]] = []
        self._warned: list[tuple[str | Warning, type[Warning], str, int]] = []
        self._places: set[tuple[object, ...]] = set()

    def release(self) -> None:
        """Say it all, in the capture of the running phase, and hold nothing from now on."""
        self.held = False
        for stream, text in self._written:
            getattr(sys, stream).write(text)
        for handler, record in self._logged:
            handler.handle(record)
        for message, category, filename, lineno in self._warned:
            warnings.showwarning(message, category, filename, lineno)
        self._written, self._logged, self._warned = [], [], []

    def write(self, stream: str, text: str) -> None:
        self._written.append((stream, text))

    def log(self, handler: logging.Handler, record: logging.LogRecord) -> None:
        """Keep a record as it is now: its arguments may change until it is formatted."""
        kept = copy.copy(record)
        kept.msg, kept.args = record.getMessage(), None
        self._logged.append((handler, kept))

    def warn(
        self,
        message: str | Warning,
        category: type[Warning],
        filename: str,
        lineno: int,
        *,
        once_of: int | None,
    ) -> bool:
        """Whether the warning is to be shown now, as it is ``once_of`` a place; None: each time."""
        if once_of is not None:
            place = (str(message), category, *(filename, lineno)[:once_of])
            if place in self._places:
                return False
            self._places.add(place)
        if self.held:
            self._warned.append((message, category, filename, lineno))
        return not self.held


SPEAKER: ContextVar[Said | None] = ContextVar("cwsandbox_speaker", default=None)


class _LogFilter(logging.Filter):
    """On pytest's own handlers; those of users get every record when it is made."""

    def __init__(self, handler: logging.Handler) -> None:
        super().__init__()
        self._handler = handler

    def filter(self, record: logging.LogRecord) -> bool:
        speaker = SPEAKER.get()
        if speaker is None or not speaker.held:
            return True
        speaker.log(self._handler, record)
        return False


def let_speak() -> None:
    """Hold nothing of the test that runs now from here on."""
    if speaker := SPEAKER.get():
        speaker.release()


@contextmanager
def routed() -> Generator[None]:
    """While this is entered, what tests say that run ahead is held."""
    hold_streams()
    _filter_logs()
    with _warnings_routed():
        yield


_HELD: dict[str, list[TextIO]] = {"stdout": [], "stderr": []}  # what was changed, to be put right


def hold_streams() -> None:
    """Have the streams of this phase hold back what is written ahead, from now on.

    pytest changes streams between phases, and threads write at any time: so this is done to the
    streams themselves. There are two of each, those that capture and those that do not.
    """
    for name, known in _HELD.items():
        stream: TextIO | None = getattr(sys, name)
        if stream is None or any(stream is each for each in known):
            continue
        try:
            stream.write = _holding(name, stream, stream.write)  # type: ignore[method-assign]  # see above
        except AttributeError:  # a stream of another kind, which cannot be changed
            continue
        known.append(stream)


def release_streams() -> None:
    """Leave the streams as they were."""
    for known in _HELD.values():
        for stream in known:
            del stream.write
        known.clear()


def _holding(name: str, stream: TextIO, write: Callable[[str], int]) -> Callable[[str], int]:
    def hold(text: str) -> int:
        __tracebackhide__ = True
        speaker = SPEAKER.get()
        if speaker is None or not speaker.held:
            return write(text)
        if stream.encoding:  # what it cannot write is an error of the test, now
            text.encode(stream.encoding, stream.errors or "strict")
        speaker.write(name, text)
        return len(text)

    return hold


def _filter_logs() -> None:
    """See to it that pytest's handlers have the filter; they are the same for every item."""
    for handler in logging.getLogger().handlers:
        if type(handler).__module__ == "_pytest.logging" and not any(
            isinstance(known, _LogFilter) for known in handler.filters
        ):
            handler.addFilter(_LogFilter(handler))


@contextmanager
def _warnings_routed() -> Generator[None]:
    """Hold warnings too. Filters that show one once per place are for one test at a time.

    Python remembers places for all, so every warning must come here, where each test has its own.
    """
    with warnings.catch_warnings():
        shown = warnings.showwarning
        warnings.simplefilter("default", append=True)  # as Python does where none matches
        changed = [
            (("always" if action in _ONCE else action, *rest), _ONCE.get(action))
            for action, *rest in warnings.filters
        ]
        warnings.filters[:] = [each for each, _ in changed]  # type: ignore[index]  # a list, whatever typeshed says

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            speaker = SPEAKER.get()
            by = _filter_of(message, category, filename, lineno)
            once_of = next((once for each, once in changed if each is by), None)
            if speaker is None or speaker.warn(
                message, category, filename, lineno, once_of=once_of
            ):
                shown(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield


def _filter_of(
    message: Warning | str, category: type[Warning], filename: str, lineno: int
) -> object:
    """The filter by which a warning is shown."""
    parts = filename.removesuffix(".py").split("/")
    modules = [".".join(parts[at:]) for at in range(len(parts))]  # one of them it is
    for each in warnings.filters:
        _, text, kind, module, line = each
        if (
            issubclass(category, kind)
            and line in (0, lineno)
            and _fits(text, [str(message)])
            and _fits(module, modules)
        ):
            return each
    return None


def _fits(pattern: object, names: Iterable[str]) -> bool:
    """As Python compares: its own filters hold texts, those of others patterns."""
    if pattern is None or isinstance(pattern, str):
        return pattern is None or pattern in names
    return any(cast("re.Pattern[str]", pattern).match(name) for name in names)
