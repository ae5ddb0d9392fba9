"""One test under way on the loop, from its start to the turn at which its outcome is told."""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import Generator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import pytest

from pytest_cwsandbox.concurrency.routing import SPEAKER, Said
from pytest_cwsandbox.concurrency.timeouts import timed_out
from pytest_cwsandbox.sandbox_fixtures import Starting

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from contextvars import Context

    from pytest_cwsandbox.concurrency.loop import Pump

    Test: TypeAlias = Callable[..., Coroutine[object, object, object]]
    Tasks: TypeAlias = weakref.WeakSet[asyncio.Future[Any]]

BLOCKED_SECONDS = 1.0  # a step that takes longer is worth a word
LONG_SECONDS = 0.1  # of a step: from here on it is not the time of others
T = TypeVar("T")
_STARTED: ContextVar[Tasks | None] = ContextVar("cwsandbox_started", default=None)


class Flight:
    """A test's coroutine as a task. ``outcome`` is what it raised, None if it passed.

    ``start`` and ``stop`` are times of day; ``seconds`` is what it took, ``blocked`` its longest
    step, in which all others stood still.
    """

    def __init__(
        self, item: pytest.Item, moved: Callable[[Flight], None], *, shares_loop: bool = False
    ) -> None:
        """``moved`` is told when the test begins and when it has ended.

        Tasks that it leaves behind end with it, unless it ``shares_loop`` with others by its own
        word: a client of the session may have started them.
        """
        self.item = item
        self._shares_loop = shares_loop
        self._moved = moved
        self.said = Said()
        self.outcome: BaseException | None = None
        self.begun = False
        self.ended = False
        self.dropped = False  # it will not have its turn
        self.start = self.stop = self.seconds = self.blocked = 0.0
        self._timeout: float | None = None
        self._pump: Pump | None = None
        self._from = self._until = self._held_up = 0.0
        self._task: asyncio.Task[None] | None = None

    def launch(
        self,
        pump: Pump,
        context: Context,
        function: Test,
        arguments: Mapping[str, object],
    ) -> None:
        """Start the test in a copy of the context.

        A sandbox among the arguments may be on its way: the test begins when it is there.
        """
        context = context.copy()
        self._pump = pump
        context.run(SPEAKER.set, self.said)
        self._task = pump.loop.create_task(
            self._fly(pump, function, arguments), name=self.item.nodeid, context=context
        )

        def end(task: asyncio.Task[None]) -> None:
            if task.cancelled() and self.outcome is None:
                self.outcome = asyncio.CancelledError()
            self.ended = True
            self._moved(self)

        self._task.add_done_callback(end)

    async def _fly(self, pump: Pump, function: Test, arguments: Mapping[str, object]) -> None:
        tasks: Tasks = weakref.WeakSet()
        _STARTED.set(tasks)
        sandboxes = [value for value in arguments.values() if isinstance(value, Starting)]
        try:
            given = {name: await _there(value) for name, value in arguments.items()}
            self.start, began = time.time(), time.perf_counter()
            self.begun, self._from = True, pump.clock()
            self._moved(self)
            await _Steps(function(**given), self)
        except BaseException as error:  # noqa: BLE001 - SystemExit too waits for the item's turn
            self.outcome = error
        if self.begun:
            self.stop, self.seconds = time.time(), time.perf_counter() - began
            self._until = pump.clock()
        for sandbox in sandboxes:
            sandbox.let_go()
        # A loop of its own would end them too.
        left = [task for task in tasks if not (task.done() or self._shares_loop)]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)

    @property
    def ran(self) -> float:
        """The seconds that it had until now, or until its end."""
        if self._pump is None or not self.begun:
            return 0.0
        return (self._until or self._pump.clock()) - self._from + self._held_up

    def step(self, seconds: float) -> None:
        """Take note of how long a step of the test took; others do not have that time."""
        self.blocked = max(self.blocked, seconds)
        if self._pump is not None and seconds > LONG_SECONDS:
            self._held_up += seconds
            self._pump.stand(seconds)

    @property
    def failed(self) -> bool:
        """Whether pytest is likely to count it as a failure at its turn."""
        told = isinstance(self.outcome, pytest.skip.Exception | pytest.xfail.Exception)
        expected = any(self.item.iter_markers("xfail"))
        return self.ended and self.outcome is not None and not told and not expected

    def cancel(self) -> None:
        """End it before its time."""
        if self._task is not None:
            self._task.cancel()

    def time_out(self, seconds: float) -> None:
        """Let the test fail where it waits."""
        self._timeout = seconds
        self.cancel()

    def replaced(self, error: BaseException) -> BaseException:
        """What the test is to see of an error that is thrown into it."""
        if self._timeout is None or not isinstance(error, asyncio.CancelledError):
            return error
        return timed_out(self._timeout)


class _Steps(Generator[object, object, object]):
    """The steps of a test, timed: one that blocks holds up every other test."""

    def __init__(self, coroutine: Coroutine[object, object, object], flight: Flight) -> None:
        self._coroutine = coroutine
        self._flight = flight

    def __await__(self) -> Generator[object, object, object]:
        return self

    def send(self, value: object) -> object:
        began = time.perf_counter()
        try:
            return self._coroutine.send(value)
        finally:
            self._flight.step(time.perf_counter() - began)

    def throw(self, error: object, *_: object) -> object:
        return self._coroutine.throw(self._flight.replaced(cast("BaseException", error)))


async def _there(value: object) -> object:
    """The argument that a test gets: a sandbox may still be on its way."""
    if not isinstance(value, Starting):
        return value
    return await asyncio.wrap_future(value.future)


def remember_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Have the loop know which test started which task."""
    make = loop.get_task_factory() or _task

    def start(
        loop: asyncio.AbstractEventLoop,
        coroutine: Generator[Any, None, T] | Coroutine[Any, Any, T],
        **options: Any,  # noqa: ANN401 - whatever this Python tells a factory
    ) -> asyncio.Future[T]:
        task = make(loop, coroutine, **options)
        tasks = _STARTED.get()
        if tasks is not None:
            tasks.add(task)
        return task

    loop.set_task_factory(start)


def _task(
    loop: asyncio.AbstractEventLoop,
    coroutine: Generator[Any, None, T] | Coroutine[Any, Any, T],
    **options: Any,  # noqa: ANN401 - as above
) -> asyncio.Future[T]:
    return asyncio.Task(coroutine, loop=loop, **options)
