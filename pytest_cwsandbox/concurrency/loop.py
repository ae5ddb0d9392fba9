"""The event loop that tests run ahead on, and running it from inside pytest's phases."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import FrameType

LOOP = "_cwsandbox_loop"
_RUNNER = "_cwsandbox_runner"


@pytest.fixture(name=LOOP)  # asked for by each test: a parameter may give the session another
def _loop(request: pytest.FixtureRequest) -> asyncio.AbstractEventLoop:
    """pytest-asyncio's loop of the session, so that async fixtures of the session work."""
    try:
        runner: asyncio.Runner = request.getfixturevalue("_session_scoped_runner")
    except pytest.FixtureLookupError:
        runner = request.getfixturevalue(_RUNNER)
    return runner.get_loop()


@pytest.fixture(scope="session", name=_RUNNER)
def _runner() -> Generator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


class Pump:
    """Runs the loop on the main thread, only while pytest is in a phase of an item.

    A loop in a thread would let what tests print out between the phases that are captured.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        with suppress(AttributeError):  # of a loop that is not written in Python
            # Timers wait too, or all that came due meanwhile would go off before what they wait for
            loop.time = self.clock  # type: ignore[method-assign]  # the clock of its timers
        self._reached: Callable[[], bool] | None = None
        self._interrupted = False
        self._stood = 0.0
        self._since = time.monotonic()  # it does not run

    def clock(self) -> float:
        """Seconds, of which those do not count in which the loop stood still."""
        return time.monotonic() - self._stood

    def stand(self, seconds: float) -> None:
        """Take note that a test has held up all others for so long."""
        self._stood += seconds

    def run(self, until: Callable[[], bool]) -> None:
        """Run at least one round. Raises ``KeyboardInterrupt`` on Ctrl-C, between two steps."""
        self._reached = until
        self._stood += time.monotonic() - self._since
        self.loop.call_soon(self.loop.stop)
        try:
            self._run(until)
        finally:
            self._since = time.monotonic()
            self._reached = None

    def _run(self, until: Callable[[], bool]) -> None:
        with self._interruptible():
            while True:
                try:
                    self.loop.run_forever()
                except SystemExit:  # of a task that a test started: who awaits it gets it too
                    continue
                if self._interrupted:
                    self._interrupted = False
                    raise KeyboardInterrupt
                if until():
                    break

    def look(self) -> None:
        """Something has changed: end the run if that is what it waits for."""
        if self._reached is not None and self._reached():
            self.loop.stop()

    @contextmanager
    def _interruptible(self) -> Generator[None]:
        """Let the first Ctrl-C stop the loop, and not hit whichever test has its turn in it."""
        ours = threading.current_thread() is threading.main_thread()
        if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return

        def interrupt(signum: int, frame: FrameType | None) -> None:
            if self._interrupted:  # the loop does not come to its end
                signal.default_int_handler(signum, frame)
            self._interrupted = True
            self.loop.call_soon_threadsafe(self.loop.stop)

        signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
