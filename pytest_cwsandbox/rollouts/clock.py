"""The time that counts for the model: it stands still while the service is waited for."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


class TimeIsUpError(Exception):
    """A limit of the clock was reached; nothing else raises it."""


class Clock:
    """Sums up the ``seconds`` of all ``running`` blocks, but for those ``paused`` within."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._timer: asyncio.Timeout | None = None
        self._pauses = 0
        self._paused_seconds = 0.0

    @asynccontextmanager
    async def running(self, limit: float | None) -> AsyncIterator[None]:
        """The block may last ``limit`` seconds; raises ``TimeIsUpError`` then. Not to be nested."""
        started, self._paused_seconds = time.monotonic(), 0.0
        timer = asyncio.timeout(limit)
        try:
            async with timer:
                self._timer = timer
                yield
        except TimeoutError:
            if not timer.expired():
                raise
            raise TimeIsUpError from None
        finally:
            self._timer = None
            self.seconds += time.monotonic() - started - self._paused_seconds

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What this block waits for is not the model's doing."""
        self._pauses += 1
        timer = self._timer
        when = timer.when() if timer is not None else None
        started = time.monotonic()
        if timer is not None and not timer.expired():
            timer.reschedule(None)
        try:
            yield
        finally:
            self._pauses -= 1
            if self._pauses == 0:
                waited = time.monotonic() - started
                self._paused_seconds += waited
                if timer is not None and when is not None and not timer.expired():
                    timer.reschedule(when + waited)
