"""The hooks: tests are launched from inside others' call phases, and told at their own."""

from __future__ import annotations

import contextvars
import inspect
import time
from contextlib import contextmanager
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
from pytest_cwsandbox.concurrency.timeouts import Timeouts
from pytest_cwsandbox.errors import EndpointError
from pytest_cwsandbox.upcoming import Upcoming

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Generator, Mapping

    from pytest_cwsandbox.concurrency.flight import Test
    from pytest_cwsandbox.concurrency.live import LiveFixtures

WINDOW = 16  # times the limit: how far ahead of an item at its turn others may be launched
GRACE_SECONDS = 5.0  # for tasks that are cancelled
BLOCKED = "these block all tests that run ahead (`.result()`, `time.sleep`), `await` instead"


class Ahead:
    """Registered where tests of this process may run ahead, at most ``limit`` at once."""

    def __init__(self, session: pytest.Session, limit: int, live: LiveFixtures) -> None:
        config = session.config
        self._flights: dict[pytest.Item, Flight] = {}  # that have not had their turn
        self._limit = limit
        self._live = live
        self._upcoming = Upcoming(session)
        self._upcoming.keep(lambda item: item in self._flights or item is self._starting)
        self._alone = not config.pluginmanager.hasplugin("asyncio")
        self._notices = config.stash.setdefault(recording.NOTICES, [])
        plugin = config.pluginmanager.getplugin("timeout")
        self.timeouts = Timeouts(plugin, self._is_ours, self._flights.__contains__)
        self._said: set[tuple[str, str]] = set()
        self._needs: dict[pytest.Item, Needs | None] = {}
        self._flying = 0
        self._pump: Pump | None = None
        self._context = contextvars.Context()
        self._item: pytest.Item | None = None  # that has its turn
        self._next: pytest.Item | None = None
        self._starting: pytest.Item | None = None  # or has just been
        self._told: Flight | None = None  # the item's, once it has ended
        self._grounded = False  # nothing is launched now
        self._stopped = False  # nor ever again

    # An item's turn

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        self._item, self._next = item, nextitem
        if self._flying:
            routing.hold_streams()  # those that do not capture
        if self._is_ours(item) and LOOP not in (
            names := cast("pytest.Function", item).fixturenames
        ):
            names.append(LOOP)
        return (yield)

    def _is_ours(self, item: pytest.Item) -> bool:
        """Whether the item runs here: without pytest-asyncio nobody else would run a coroutine."""
        return self._needs_of(item) is not None or (self._alone and is_candidate(item))

    # No wrappers of setup and teardown: they would be frames of what fixtures raise.

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        flight = self._flights.get(item)
        if flight is None or self._pump is None or flight.begun or flight.ended:
            return
        with routing.routed():  # its sandbox is on its way
            self._pump.run(lambda: flight.begun or flight.ended)

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool | None:
        if not self._is_ours(pyfuncitem):
            return None
        pump = self._pump_of(pyfuncitem.funcargs[LOOP])
        self._context = contextvars.copy_context()
        with routing.routed():
            flight = self._flights.get(pyfuncitem) or self._launch(
                pump, pyfuncitem, *_test_of(pyfuncitem)
            )
            flight.said.release()
            by_itself = self._needs_of(pyfuncitem) is None  # as in pytest
            with self._grounding(by_itself), self.timeouts.limited(flight, pump):
                self._fill()
                pump.run(lambda: flight.ended)
            del self._flights[pyfuncitem]
            self._told = flight
            if self._next is not None and self._next not in self._flights:
                # The next needs the main thread to itself: tasks would stand still meanwhile, and
                # then all their timers would go off at once.
                left = [*self._flights.values()]
                with self._grounding(), self.timeouts.all_limited(left, pump):
                    pump.run(lambda: all(flight.ended for flight in left))
        if flight.outcome is not None:
            raise flight.outcome
        return True

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # before anybody reads the call
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        told = self._told
        if call.when == "call" and told is not None and told.item is item:
            call.start, call.stop, call.duration = told.start, told.stop, told.seconds
            self._told = None
        elif call.excinfo is not None and (flight := self._flights.get(item)):
            # A hook has skipped it, say, or its call was cut short.
            self._drop([flight], take_back=flight.said.held)
        return (yield)

    def pytest_enter_pdb(self) -> None:
        routing.let_speak()  # or nobody would see the prompt

    @pytest.hookimpl(tryfirst=True)  # while fixtures of the session are there
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        stops = bool(item.session.shouldstop or item.session.shouldfail)
        if stops or nextitem is None:  # what is left then, another worker has taken
            self._drop([*self._flights.values()], take_back=stops)

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # after Ctrl-C no teardown has come
    def pytest_sessionfinish(self, exitstatus: int) -> Generator[None, object, object]:
        interrupted = exitstatus == pytest.ExitCode.INTERRUPTED  # and may be continued
        self._drop([*self._flights.values()], take_back=not interrupted)
        routing.release_streams()
        return (yield)

    # Launching

    def _needs_of(self, item: pytest.Item) -> Needs | None:
        """What the item needs to run ahead; None where it cannot."""
        if item not in self._needs:
            self._needs[item] = None
            if is_candidate(item):
                try:
                    self._needs[item] = needs_of(cast("pytest.Function", item))
                except IneligibleError as error:
                    if error.reason:
                        self._say(error.reason, error.of)
                else:
                    if not self._alone:  # pytest-asyncio makes no loop for it alone then
                        item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
        return self._needs[item]

    def _pump_of(self, loop: object) -> Pump:
        if self._pump is None or self._pump.loop is not loop:
            self._pump = Pump(cast("asyncio.AbstractEventLoop", loop))
            remember_tasks(self._pump.loop)
        return self._pump

    def _fill(self) -> None:
        """Launch what follows, in its order, up to the limit."""
        if self._item is None or self._pump is None or self._grounded or self._stopped:
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
            self._starting = item
            if not self._upcoming.has(item):
                continue
            recording.begin_ahead(item)
            arguments = needs.values(item, self._live)
            self._launch(self._pump, item, item.obj, arguments)  # type: ignore[attr-defined]  # a function

    def _launch(
        self, pump: Pump, item: pytest.Item, function: Test, arguments: Mapping[str, object]
    ) -> Flight:
        needs = self._needs_of(item)
        shares = needs is not None and needs.shares_loop
        flight = self._flights[item] = Flight(item, self._moved, shares_loop=shares)
        self._flying += 1
        flight.launch(pump, self._context, function, arguments)
        return flight

    def _moved(self, flight: Flight) -> None:
        if flight.ended:
            self._flying -= 1
            self._take_note(flight)
            self._fill()
        if self._pump is not None:
            self._pump.look()

    def _take_note(self, flight: Flight) -> None:
        """Write down, and say, what cannot wait for the turn of a test that has ended."""
        if flight.blocked > BLOCKED_SECONDS:
            self._say(BLOCKED, flight.item.nodeid.partition("[")[0])
        if flight.item is not self._item and not flight.dropped:
            annotation.note_ahead(flight.item, flight.outcome, flight.seconds)
        if isinstance(flight.outcome, EndpointError):
            self._stopped = True  # every other rollout would fail alike

    def _about_to_stop(self, session: pytest.Session) -> bool:
        """Whether as many have failed as end the run once they are told."""
        option = session.config.option
        limit = option.maxfail or getattr(option, "stepwise", False)
        if not limit:
            return False
        failed = sum(flight.failed for flight in self._flights.values())
        return session.testsfailed + failed >= limit

    def _say(self, notice: str, of: str) -> None:
        if (notice, of) not in self._said:
            self._said.add((notice, of))
            self._notices.append((notice, of))

    @contextmanager
    def _grounding(self, really: bool = True) -> Generator[None]:  # noqa: FBT001, FBT002 - reads well
        """Launch nothing meanwhile."""
        before, self._grounded = self._grounded, self._grounded or really
        try:
            yield
        finally:
            self._grounded = before

    # The end

    def _drop(self, flights: list[Flight], *, take_back: bool = True) -> None:
        """End what does not get its turn, all at once, and close what was opened for it.

        ``take_back`` what it recorded, as if it had not started.
        """
        pump = self._pump
        if pump is None or not flights:
            return
        for flight in flights:
            flight.dropped = flight.said.held = True
            flight.cancel()
        deadline = time.monotonic() + GRACE_SECONDS

        def over() -> bool:
            return all(flight.ended for flight in flights) or time.monotonic() > deadline

        timer = pump.loop.call_later(GRACE_SECONDS, pump.look)
        with routing.routed(), self._grounding():
            pump.run(over)
        timer.cancel()
        for flight in flights:
            opened.drop(flight.item)
            if take_back:
                recording.take_back(flight.item)
            del self._flights[flight.item]


def _test_of(item: pytest.Function) -> tuple[Test, dict[str, object]]:
    """The test of an item that pytest has set up, and its arguments."""
    # pytest-asyncio has put a function in its place that runs it on a loop of its own.
    function = item.obj if inspect.iscoroutinefunction(item.obj) else item.obj.__wrapped__
    parameters = inspect.signature(function).parameters.values()
    names = [each.name for each in parameters if each.default is each.empty]  # as pytest does
    return function, {name: item.funcargs[name] for name in names if name in item.funcargs}
