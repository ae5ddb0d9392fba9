"""Time limits of pytest-timeout for tests that run ahead.

Its alarm would hit whichever test has its turn on the loop when it rings. Here a test's time counts
from the start of its coroutine, without the time that the loop stood still, and is judged at its
turn.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Generator

    from pytest_cwsandbox.concurrency.flight import Flight
    from pytest_cwsandbox.concurrency.loop import Pump

LATE_SECONDS = 1.0  # by which a timer of the loop may be late before it is taken for blocked


class Settings(Protocol):
    """What pytest-timeout tells of an item's limit."""

    timeout: float


class Timeouts:
    """A pytest plugin; ``is_ours`` says whether an item runs on our loop, ``flies`` whether now."""

    def __init__(
        self, is_ours: Callable[[pytest.Item], bool], flies: Callable[[pytest.Item], bool]
    ) -> None:
        self._is_ours = is_ours
        self._flies = flies
        self._limits: dict[pytest.Item, float] = {}

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: Settings) -> bool | None:
        """Take the limit of an item of ours over, at once where its coroutine runs already."""
        if not self._is_ours(item):
            return None
        self._limits[item] = settings.timeout
        return self._flies(item) or None

    @contextmanager
    def limited(self, flight: Flight, pump: Pump) -> Generator[None]:
        """While this is entered, the loop runs until the test ends: it fails when it is late."""
        limit = self._limits.pop(flight.item, None)
        if limit is None:
            yield
            return
        flight.item.ihook.pytest_timeout_cancel_timer(item=flight.item)
        left = limit - flight.ran
        if flight.ended and left < 0:
            flight.outcome = timed_out(limit, trace=False)  # it is too late to say where

        timers: list[asyncio.TimerHandle] = []

        def check() -> None:
            if (left := limit - flight.ran) <= 0:
                flight.time_out(limit)
            else:  # others have held it up
                timers.append(pump.loop.call_later(left, check))

        timers.append(pump.loop.call_later(max(0.0, left), check))
        try:
            with _alarm(max(0.0, left) + LATE_SECONDS, limit):
                yield
        finally:
            timers[-1].cancel()


def timed_out(limit: float, *, trace: bool = True) -> BaseException:
    """What pytest-timeout raises."""
    return pytest.fail.Exception(f"Timeout (>{limit}s) from pytest-timeout.", pytrace=trace)


@contextmanager
def _alarm(seconds: float, limit: float) -> Generator[None]:
    """Interrupt a test that blocks the loop, so that no timer of it can go off."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(*_: object) -> None:
        raise timed_out(limit)

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
