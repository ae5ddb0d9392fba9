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
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

_ONCE_PER_PLACE = "default"  # as an action of a warning filter


class Said:
    """What one test has said. While ``held`` it is kept, then it passes through."""

    def __init__(self) -> None:
        self.held = True
        self._written: list[tuple[str, str]] = []
        self._logged: list[tuple[logging.Handler, logging.LogRecord]] = []
        self._warned: list[tuple[str | Warning, type[Warning], str, int]] = []
        self._places: set[tuple[str, type[Warning], str, int]] = set()

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
        self, message: str | Warning, category: type[Warning], filename: str, lineno: int
    ) -> bool:
        """Whether the warning is to be shown now; the same of a place is said once."""
        place = (str(message), category, filename, lineno)
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
            stream.write = _holding(name, stream.write)  # type: ignore[method-assign]  # see above
        except AttributeError:  # a stream of another kind, which cannot be changed
            continue
        known.append(stream)


def release_streams() -> None:
    """Leave the streams as they were."""
    for known in _HELD.values():
        for stream in known:
            del stream.write
        known.clear()


def _holding(name: str, write: Callable[[str], int]) -> Callable[[str], int]:
    def hold(text: str) -> int:
        speaker = SPEAKER.get()
        if speaker is None or not speaker.held:
            return write(text)
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
        warnings.filters[:] = [  # type: ignore[index]  # a list, whatever typeshed says
            ("always" if action == _ONCE_PER_PLACE else action, *rest)
            for action, *rest in warnings.filters
        ]
        warnings.simplefilter("always", append=True)

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            speaker = SPEAKER.get()
            if speaker is None or speaker.warn(message, category, filename, lineno):
                shown(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield
