"""Time limits of pytest-timeout for tests that run ahead.

Its alarm would hit whichever test has its turn on the loop when it rings. Here a test's time counts
from the start of its coroutine, without the time that the loop stood still, and is judged at its
turn.
"""

from __future__ import annotations

import signal
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Protocol

import pytest

from pytest_cwsandbox.concurrency.routing import SPEAKER

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Generator, Sequence

    from pytest_cwsandbox.concurrency.flight import Flight
    from pytest_cwsandbox.concurrency.loop import Pump

LATE_SECONDS = 1.0  # by which a timer of the loop may be late before it is taken for blocked


class Settings(Protocol):
    """What pytest-timeout tells of an item's limit."""

    timeout: float | None


class Timeouts:
    """A pytest plugin; ``is_ours`` says whether an item runs on our loop, ``flies`` whether now."""

    def __init__(
        self,
        plugin: object,
        is_ours: Callable[[pytest.Item], bool],
        flies: Callable[[pytest.Item], bool],
    ) -> None:
        # No hook tells the limit of an item before its turn.
        self._settings_of: Callable[[pytest.Item], Settings] | None = getattr(
            plugin, "_get_item_settings", None
        )
        self._is_ours = is_ours
        self._flies = flies
        self._limits: dict[pytest.Item, float] = {}

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: Settings) -> bool | None:
        """Take the limit of an item of ours over, at once where its coroutine runs already."""
        if not self._is_ours(item):
            return None
        if settings.timeout:
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
        late = flight.ended and flight.ran > limit
        if late and not isinstance(flight.outcome, pytest.fail.Exception):
            flight.outcome = timed_out(limit, trace=False)  # it is too late to say where

        def is_late() -> bool:
            return flight.ran > limit and SPEAKER.get() in (flight.said, None)

        left = max(0.0, limit - flight.ran)
        with _watched(flight, pump, limit), _alarm(pump, left, limit, is_late):
            yield

    @contextmanager
    def all_limited(self, flights: Sequence[Flight], pump: Pump) -> Generator[None]:
        """While this is entered, all of them are waited for, though it is not their turn."""
        limits = {
            flight: limit
            for flight in flights
            if self._settings_of
            and not flight.ended
            and (limit := self._settings_of(flight.item).timeout)
        }
        with ExitStack() as stack:
            for flight, limit in limits.items():
                stack.enter_context(_watched(flight, pump, limit))
            if limits:
                longest = max(limits.values())
                stack.enter_context(_alarm(pump, longest, longest))
            yield


@contextmanager
def _watched(flight: Flight, pump: Pump, limit: float) -> Generator[None]:
    """Let the test fail when it is late."""
    timers: list[asyncio.TimerHandle] = []

    def check() -> None:
        if (left := limit - flight.ran) <= 0:
            flight.time_out(limit)
        else:  # others have held it up
            timers.append(pump.loop.call_later(left, check))

    timers.append(pump.loop.call_later(max(0.0, limit - flight.ran), check))
    try:
        yield
    finally:
        timers[-1].cancel()


def timed_out(limit: float, *, trace: bool = True) -> BaseException:
    """What pytest-timeout raises."""
    return pytest.fail.Exception(f"Timeout (>{limit}s) from pytest-timeout.", pytrace=trace)


@contextmanager
def _alarm(
    pump: Pump, left: float, limit: float, is_late: Callable[[], bool] = lambda: False
) -> Generator[None]:
    """Interrupt a test that blocks the loop, so that no timer of it can go off.

    The test that has its turn, when it is late; any other when it blocks for as long as a test may
    take, and not because it happens to run when the alarm rings.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    turned = True  # the loop has, since the alarm rang

    def turn() -> None:
        nonlocal turned
        turned = True

    def ring(*_: object) -> None:
        nonlocal turned
        if is_late() or not turned:
            raise timed_out(limit)
        turned = False
        pump.loop.call_soon_threadsafe(turn)
        signal.setitimer(signal.ITIMER_REAL, limit)

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, left + LATE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
