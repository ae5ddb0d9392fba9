"""The hooks: tests are launched from inside others' call phases, and told at their own."""

from __future__ import annotations

import contextvars
import inspect
import time
from contextlib import nullcontext
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, cast

import pytest

from pytest_cwsandbox import annotation, opened, recording
from pytest_cwsandbox.concurrency import routing
from pytest_cwsandbox.concurrency.eligibility import (
    IneligibleError,
    Needs,
    is_candidate,
    needs_of,
    wider_params,
)
from pytest_cwsandbox.concurrency.flight import BLOCKED_SECONDS, Flight, remember_tasks
from pytest_cwsandbox.concurrency.loop import LOOP, Pump
from pytest_cwsandbox.errors import EndpointError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Generator
    from contextlib import AbstractContextManager

    from pytest_cwsandbox.concurrency.flight import Test
    from pytest_cwsandbox.concurrency.live import LiveFixtures
    from pytest_cwsandbox.upcoming import Upcoming

WINDOW = 16  # times the limit: how far ahead of an item at its turn others may be launched
GRACE_SECONDS = 5.0  # for tasks that are cancelled


class Ahead:
    """Registered where tests of this process may run ahead, at most ``limit`` at once."""

    def __init__(
        self, limit: int, upcoming: Upcoming, live: LiveFixtures, notices: list[str]
    ) -> None:
        self._limit = limit
        self._upcoming = upcoming
        self._live = live
        self._notices = notices
        self._said: set[str] = set()
        self._needs: dict[pytest.Item, Needs | None] = {}
        self._flights: dict[pytest.Item, Flight] = {}  # that have not had their turn
        self._flying = 0
        self._pump: Pump | None = None
        self._context = contextvars.Context()
        self._item: pytest.Item | None = None  # that has its turn
        self._next: pytest.Item | None = None
        self._told: Flight | None = None  # the item's, once it has ended
        self._grounded = False  # nothing is launched

    # An item's turn

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        self._item, self._next = item, nextitem
        if self._needs_of(item) is not None and LOOP not in item.fixturenames:  # type: ignore[attr-defined]  # of functions
            item.fixturenames.append(LOOP)  # type: ignore[attr-defined]  # too
        return (yield)

    @pytest.hookimpl(wrapper=True, trylast=True)  # innermost, where output is captured
    def pytest_runtest_setup(self) -> Generator[None, object, object]:
        with self._routed():
            return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool | None:
        if self._needs_of(pyfuncitem) is None:
            return None
        pump = self._pump_of(pyfuncitem.funcargs[LOOP])
        self._context = contextvars.copy_context()
        with routing.routed():
            flight = self._flights.get(pyfuncitem) or self._launch(
                pump, pyfuncitem, _test_of(pyfuncitem)
            )
            flight.said.release()
            self._fill()
            pump.run(lambda: flight.ended)
            del self._flights[pyfuncitem]
            self._told = flight
            if self._next is not None and self._next not in self._flights:
                self._land_all(pump)
        if flight.outcome is not None:
            raise flight.outcome
        return True

    def _land_all(self, pump: Pump) -> None:
        """Let nothing be under way while the main thread is at something else.

        Tasks would stand still, and then their timers would all go off at once.
        """
        before, self._grounded = self._grounded, True
        pump.run(lambda: not self._flying)
        self._grounded = before

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # before anybody reads the call
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        told = self._told
        if call.when == "call" and told is not None and told.item is item:
            call.start, call.stop, call.duration = told.start, told.stop, told.seconds
            self._told = None
        elif call.when == "setup" and call.excinfo is not None and item in self._flights:
            self._drop([self._flights[item]])
            recording.begin(item)
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # while fixtures of the session are there
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        if nextitem is None or item.session.shouldstop or item.session.shouldfail:
            self._drop([*self._flights.values()])
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # after Ctrl-C no teardown has come
    def pytest_sessionfinish(self) -> Generator[None, object, object]:
        self._drop([*self._flights.values()])
        return (yield)

    @pytest.hookimpl(trylast=True)  # when pytest captures again
    def pytest_leave_pdb(self) -> None:
        if self._flying:
            routing.install()

    # Launching

    def _needs_of(self, item: pytest.Item) -> Needs | None:
        """What the item needs to run ahead; None where it cannot."""
        if item not in self._needs:
            self._needs[item] = None
            if is_candidate(item):
                try:
                    self._needs[item] = needs_of(cast("pytest.Function", item))
                except IneligibleError as error:
                    if reason := str(error):
                        self._say(reason)
        return self._needs[item]

    def _pump_of(self, loop: object) -> Pump:
        if self._pump is None or self._pump.loop is not loop:
            self._pump = Pump(cast("asyncio.AbstractEventLoop", loop))
            remember_tasks(self._pump.loop)
        return self._pump

    def _fill(self) -> None:
        """Launch what follows, in its order, up to the limit."""
        if self._item is None or self._pump is None or self._grounded:
            return
        if self._about_to_stop(self._item.session):
            return
        following = self._upcoming.after(self._item, self._next)
        for item in islice(following, WINDOW * self._limit):
            if self._flying >= self._limit:
                return
            if item in self._flights:
                continue
            needs = self._needs_of(item)
            if not self._live.all_outlast(item) or not self._live.unchanged(wider_params(item)):
                return
            if needs is None:
                continue
            if not needs.met(self._live):
                return
            recording.begin_ahead(item)
            test = partial(item.obj, **needs.values(item, self._live))  # type: ignore[attr-defined]  # a function
            self._launch(self._pump, item, test)

    def _launch(self, pump: Pump, item: pytest.Item, test: Test) -> Flight:
        flight = self._flights[item] = Flight(item)
        self._flying += 1
        flight.launch(pump.loop, self._context, test, self._landed)
        return flight

    def _landed(self, flight: Flight) -> None:
        self._flying -= 1
        if flight.blocked > BLOCKED_SECONDS:
            self._say(
                f"{flight.item.nodeid} blocked the event loop, and so every other test, for "
                f"{flight.blocked:.1f} s: write `await ...` in place of `.result()`"
            )
        if flight.item is not self._item and not flight.dropped:
            annotation.note_ahead(flight.item, flight.outcome, flight.seconds)
        if isinstance(flight.outcome, EndpointError):
            self._grounded = True  # every other rollout would fail alike
        self._fill()
        if self._pump is not None:
            self._pump.look()

    def _about_to_stop(self, session: pytest.Session) -> bool:
        """Whether as many have failed as end the run once they are told."""
        option = session.config.option
        limit = option.maxfail or getattr(option, "stepwise", False)
        if not limit:
            return False
        failed = sum(flight.failed for flight in self._flights.values())
        return session.testsfailed + failed >= limit

    def _say(self, notice: str) -> None:
        if notice not in self._said:
            self._said.add(notice)
            self._notices.append(notice)

    # The end

    def _drop(self, flights: list[Flight]) -> None:
        """End what does not get its turn, all at once, and close what was opened for it."""
        pump = self._pump
        if pump is None or not flights:
            return
        before, self._grounded = self._grounded, True
        for flight in flights:
            flight.dropped = True
            flight.cancel()
        deadline = time.monotonic() + GRACE_SECONDS
        timer = pump.loop.call_later(GRACE_SECONDS, pump.look)
        with routing.routed():
            pump.run(lambda: all(flight.ended for flight in flights) or time.monotonic() > deadline)
        timer.cancel()
        for flight in flights:
            opened.drop(flight.item)
            del self._flights[flight.item]
        self._grounded = before

    def _routed(self) -> AbstractContextManager[None]:
        """For phases in which the loop does not run here: threads, and fixtures may run it."""
        return routing.routed() if self._flying else nullcontext()


def _test_of(item: pytest.Function) -> Test:
    """The test of an item that pytest has set up."""
    # pytest-asyncio has put a function in its place that runs it on a loop of its own.
    function = item.obj if inspect.iscoroutinefunction(item.obj) else item.obj.__wrapped__
    names = inspect.signature(function).parameters
    return partial(
        function, **{name: item.funcargs[name] for name in names if name in item.funcargs}
    )
