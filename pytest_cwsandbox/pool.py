"""Single-use sandboxes: started, ahead if it is known for whom, removed; failed starts retried."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Protocol

from pytest_cwsandbox import admission as places
from pytest_cwsandbox.admission import Admission, Kind
from pytest_cwsandbox.background import unheard
from pytest_cwsandbox.errors import InfrastructureError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
    from concurrent.futures import Future

    from cwsandbox import CWSandboxError, OperationRef, Sandbox, Session

    from pytest_cwsandbox.admission import Place

Options = Mapping[str, object]

BACKOFF_SECONDS = 0.2  # before the first retry; doubles, with jitter
LONGEST_SECONDS = 10.0  # between two tries where the service has no room
ASKED_SECONDS = 60.0  # that the service may ask to wait
REFUSED_SECONDS = 180.0  # a service that starts nothing for so long has failed
STALE_SECONDS = 600.0  # its lifetime runs: what waited longer is not handed out

# Beside RESOURCE_EXHAUSTED: what the service says where it has no room for now.
FULL = frozenset({"CWSANDBOX_RUNNER_CAPACITY_EXHAUSTED", "CWSANDBOX_RUNNER_OVERLOADED"})


async def backoff(attempt: int, *, longest: float = inf, at_least: float = 0.0) -> None:
    """Wait before retry number ``attempt``, which counts from 1."""
    seconds = max(at_least, min(longest, BACKOFF_SECONDS * 2.0 ** min(attempt - 1, 30)))
    await asyncio.sleep(seconds * random.uniform(0.5, 1.5))  # noqa: S311 - jitter, not a secret


class Counting(Protocol):
    """Whoever counts the failures of the infrastructure that were made good for it."""

    retries: int


class SandboxPool:
    """Hands out running sandboxes of one SDK session, each to one holder, at most ``size`` at once.

    Belongs to one event loop. Options of a sandbox are those of ``Session.sandbox``, and
    ``environment`` is that of all. ``kind`` says who holds them; their places are ``admission``'s,
    by default the process's. ``created`` counts the sandboxes that started, ``failed_starts`` those
    that did not.
    """

    def __init__(
        self,
        session: Session,
        *,
        size: int = 32,
        retries: int = 2,
        environment: Mapping[str, str] | None = None,
        kind: Kind = Kind.GRADE,
        admission: Admission | None = None,
    ) -> None:
        self._session = session
        self._slots = asyncio.Semaphore(size)
        self._retries = retries
        self._usual = {"environment_variables": dict(environment)} if environment else {}
        self._kind = kind
        self._admission = admission or places.PROCESS
        self._ahead: list[_Ahead] = []
        self._places: dict[Sandbox, Place] = {}
        self.created = 0
        self.failed_starts = 0

    @asynccontextmanager
    async def lease(
        self, tally: Counting | None = None, options: Options | None = None
    ) -> AsyncIterator[Sandbox]:
        """A sandbox that is removed when the block ends; raises as ``take`` does."""
        sandbox = await self.take(options, tally=tally)
        try:
            yield sandbox
        finally:
            self.give_back(sandbox)

    async def take(
        self,
        options: Options | None = None,
        *,
        tally: Counting | None = None,
        urgent: bool = False,
    ) -> Sandbox:
        """A running sandbox, to be given back: one that was started ahead with the same options.

        ``tally`` learns how many starts failed before it, if one did not. ``urgent`` is one that
        the holder of another needs to get on.
        Raises ``InfrastructureError`` when none started in ``1 + retries`` attempts.
        """
        await self._slots.acquire()
        try:
            sandbox, failed = await self._start(options or {}, urgent=urgent)
        except BaseException:
            self._slots.release()
            raise
        self._places[sandbox].busy()
        if tally is not None:
            tally.retries += failed
        return sandbox

    def give_back(self, sandbox: Sandbox) -> None:
        """Remove the sandbox; the holder need not wait, the session's close does."""
        self._slots.release()
        self._remove(sandbox, self._places.pop(sandbox))

    async def remove(self, sandbox: Sandbox) -> None:
        """Give it back and wait until it is gone; raises ``CWSandboxError``."""
        self._slots.release()
        gone = self._remove(sandbox, self._places.pop(sandbox))
        await asyncio.shield(asyncio.wrap_future(gone))

    def idle(self, sandbox: Sandbox, let_go: Callable[[], object]) -> None:
        """Its holder only keeps it: ``let_go`` is called, on this loop, when a place is needed."""
        self._places[sandbox].idle(_from_anywhere(let_go))

    def busy(self, sandbox: Sandbox) -> None:
        """Take back that it is idle."""
        self._places[sandbox].busy()

    # Ahead

    async def prepare(self, wanted: Sequence[Options]) -> None:
        """Begin to start what will be asked for next; remove what was begun and is not wanted now.

        At places that nobody waits for. Whether a start fails shows when its sandbox is asked for:
        as the first of the attempts.
        """
        for ahead in [ahead for ahead in self._ahead if ahead.options not in wanted]:
            self._let_go(ahead)
        there = [ahead.options for ahead in self._ahead]
        for options in wanted:
            if options in there:
                there.remove(options)
            elif place := self._admission.enter_now(self._kind):
                starting = unheard(self._attempt(place, options))
                ahead = _Ahead(options, place, starting, time.monotonic())
                self._ahead.append(ahead)
                place.idle(_from_anywhere(partial(self._let_go, ahead)))

    @property
    def ahead(self) -> int:
        """How many were started ahead and not taken."""
        return len(self._ahead)

    async def close(self) -> None:
        """Remove all that was started ahead and not taken."""
        going = [ahead.starting for ahead in self._ahead]
        for ahead in [*self._ahead]:
            self._let_go(ahead)
        if going:
            await asyncio.wait(going)

    def _claim(self, options: Options) -> _Ahead | None:
        """What was started ahead with these options; what is too old is removed."""
        fresh = time.monotonic() - STALE_SECONDS
        for ahead in [ahead for ahead in self._ahead if ahead.options == options]:
            if ahead.since >= fresh:
                self._ahead.remove(ahead)
                return ahead
            self._let_go(ahead)
        return None

    def _let_go(self, ahead: _Ahead) -> None:
        if ahead not in self._ahead:
            return  # it was taken meanwhile
        self._ahead.remove(ahead)
        self._forgo(ahead)

    def _forgo(self, ahead: _Ahead) -> None:
        ahead.starting.cancel()
        ahead.starting.add_done_callback(partial(self._unneeded, ahead.place))

    def _unneeded(self, place: Place, starting: asyncio.Task[Sandbox]) -> None:
        if starting.cancelled():
            if not place.used:  # it was cancelled before its first step
                place.leave()
        elif starting.exception() is None:
            sandbox = starting.result()
            self._remove(sandbox, self._places.pop(sandbox))

    async def _claimed(self, ahead: _Ahead) -> Sandbox | None:
        """The sandbox, if it still runs; raises as its start did."""
        from cwsandbox import CWSandboxError, SandboxStatus

        try:
            sandbox = await asyncio.shield(ahead.starting)
        except asyncio.CancelledError:
            self._forgo(ahead)
            raise
        self._places[sandbox].busy()
        runs = False
        try:
            with suppress(CWSandboxError):
                runs = await asyncio.to_thread(sandbox.get_status) is SandboxStatus.RUNNING
        finally:
            if not runs:
                self._remove(sandbox, self._places.pop(sandbox))
        return sandbox if runs else None

    # Starts

    async def _start(self, options: Options, *, urgent: bool) -> tuple[Sandbox, int]:
        """A running sandbox, and how many starts failed before."""
        from cwsandbox import CWSandboxAuthenticationError, CWSandboxError

        ahead = self._claim(options)
        failed = refusals = died = 0
        asked_since: float | None = None
        while True:
            try:
                sandbox = None
                if ahead is not None:
                    claimed, ahead = ahead, None
                    sandbox = await self._claimed(claimed)
                    died = sandbox is None
                if sandbox is None:
                    place = await self._admission.enter(self._kind, urgent=urgent)
                    sandbox = await self._attempt(place, options)
            except _FullError as full:
                asked_since = asked_since or time.monotonic()
                # Before that nobody may have asked for long.
                refused = min(full.seconds, time.monotonic() - asked_since)
                if refused > REFUSED_SECONDS:
                    raise InfrastructureError(
                        f"no sandbox started: the service has had no room for "
                        f"{refused:.0f} s: {full.error}"
                    ) from full.error
                refusals += 1
                asked = full.error.retry_delay
                await backoff(
                    refusals,
                    longest=LONGEST_SECONDS,
                    at_least=min(asked.total_seconds(), ASKED_SECONDS) if asked else 0.0,
                )
            except CWSandboxError as failure:
                failed += 1
                if failed > self._retries or isinstance(failure, CWSandboxAuthenticationError):
                    raise InfrastructureError(
                        f"no sandbox started in {failed} attempts: {failure}"
                    ) from failure
                await backoff(failed)
            else:
                if failed or died:
                    self._admission.started_again()
                return sandbox, failed + died

    async def _attempt(self, place: Place, options: Options) -> Sandbox:
        """Start one at this place; raises ``_FullError`` where the service has no room."""
        from cwsandbox import CWSandboxError

        place.used = True
        try:
            sandbox = self._session.sandbox(**{**self._usual, **options})  # type: ignore[arg-type]  # checked by the SDK itself
        except BaseException:
            place.leave()
            raise
        try:
            await _running(sandbox)
        except CWSandboxError as error:
            seconds = place.refused() if _is_full(error) else None
            self._remove(sandbox, place)
            if seconds is not None:
                raise _FullError(error, seconds) from error
            self.failed_starts += 1
            raise
        except BaseException:
            self._remove(sandbox, place)
            raise
        place.started()
        self.created += 1
        self._places[sandbox] = place
        return sandbox

    def _remove(self, sandbox: Sandbox, place: Place) -> Future[None]:
        """Remove it, and leave its place when that has been acknowledged, or failed for good."""
        work: Coroutine[None, None, None]
        if sandbox.returncode is None:
            work = _removed(sandbox, _stop(sandbox), self._retries)
        else:  # it ended by itself: the SDK's stop() would leave its connections open
            work = sandbox._cleanup_channels_async()  # noqa: SLF001
        # There, since this pool's loop may end before.
        gone: Future[None] = sandbox._loop_manager.run_async(work)  # noqa: SLF001
        gone.add_done_callback(lambda _: place.leave())
        return gone


@dataclass(eq=False, slots=True)
class _Ahead:
    """A sandbox that is started for whoever asks for these options."""

    options: Options
    place: Place
    starting: asyncio.Future[Sandbox]
    since: float


class _FullError(Exception):
    """The service has no room; ``seconds`` is for how long it has had none at all."""

    def __init__(self, error: CWSandboxError, seconds: float) -> None:
        super().__init__(str(error))
        self.error = error
        self.seconds = seconds


def _from_anywhere(let_go: Callable[[], object]) -> Callable[[], None]:
    """Has it called on this loop, from any thread."""
    loop = asyncio.get_running_loop()

    def call() -> None:
        with suppress(RuntimeError):  # closed: all that was of it is being removed already
            loop.call_soon_threadsafe(let_go)

    return call


def _is_full(error: CWSandboxError) -> bool:
    from cwsandbox import SandboxResourceExhaustedError

    return isinstance(error, SandboxResourceExhaustedError) or error.reason in FULL


def _stop(sandbox: Sandbox) -> OperationRef[None]:
    return sandbox.stop(graceful_shutdown_seconds=0, missing_ok=True)


async def _removed(sandbox: Sandbox, stopping: OperationRef[None], retries: int) -> None:
    """Wait for its end, and try again where the service fails: it lives until then."""
    from cwsandbox import CWSandboxError

    for attempt in range(1, retries + 1):
        try:
            await stopping
        except CWSandboxError:
            await backoff(attempt)
            stopping = _stop(sandbox)
        else:
            return
    await stopping


async def _running(sandbox: Sandbox) -> None:
    """Start it and wait until it runs, so that a failed start shows here.

    Cancelled, and cancelled again, it waits until the service has answered the request to create
    the sandbox: one that nobody knows cannot be removed.
    """
    # No task: whoever ends a loop cancels all of its tasks.
    created = asyncio.wrap_future(sandbox.start()._future)  # noqa: SLF001 - the SDK shows it to nobody
    try:
        await asyncio.shield(created)
    except asyncio.CancelledError:
        while not created.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait((created,))
        if not created.cancelled():
            created.exception()  # nobody is to hear of it
        raise
    await sandbox
