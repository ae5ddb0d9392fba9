"""The sandbox of one episode."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import time
from typing import TYPE_CHECKING, TypeVar

from pytest_cwsandbox.background import unheard
from pytest_cwsandbox.errors import ConfigurationError, InfrastructureError
from pytest_cwsandbox.pool import backoff
from pytest_cwsandbox.rollouts.blame import (
    FILE_WORDS,
    CommandTimeoutError,
    EndedError,
    ToolError,
    describe,
    explain,
    is_cancelled,
    of_file,
    probe,
)
from pytest_cwsandbox.rollouts.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from cwsandbox import Sandbox

__all__ = ["REPLACED", "TERMINATED", "CommandTimeoutError", "ToolError", "Workplace"]

T = TypeVar("T")

REPLACED = "the sandbox was terminated; a new one is in its place, earlier files are gone"
TERMINATED = "the sandbox was terminated"


class Workplace:
    """A sandbox that is started ahead, replaced while it has no state, removed at the end.

    ``take`` and ``give_back`` are a pool's. ``prepare`` places an episode's files, in every new
    sandbox. ``sandbox_ids`` are all that were used; ``start_seconds`` sums up the wait for them;
    ``retries`` counts failures of the infrastructure that were made good on a fresh sandbox.
    ``clock`` is that of the tools: starts, pauses between attempts and probes do not count.
    """

    def __init__(
        self,
        take: Callable[[], Awaitable[Sandbox]],
        give_back: Callable[[Sandbox], None],
        *,
        prepare: Callable[[Sandbox], Awaitable[None]] | None = None,
        retries: int = 2,
    ) -> None:
        self._take = take
        self._give_back = give_back
        self._prepare = prepare
        self._retries = retries
        self._replaceable = True
        self._starting: asyncio.Future[Sandbox] | None = None
        self._used = False  # something was done in this sandbox that a fresh one does not have
        self._gone = False
        self.sandbox_ids: list[str] = []
        self.start_seconds = 0.0
        self.retries = 0
        self.clock = Clock()

    @classmethod
    def over(
        cls, sandbox: Sandbox, *, prepare: Callable[[Sandbox], Awaitable[None]] | None = None
    ) -> Workplace:
        """The caller's own sandbox: never replaced, never removed."""

        async def take() -> Sandbox:
            await sandbox
            return sandbox

        workplace = cls(take, lambda _: None, prepare=prepare, retries=0)
        workplace._replaceable = False
        return workplace

    def start_ahead(self) -> None:
        """Begin to start a sandbox; whether it fails shows at the first use."""
        if self._starting is None:
            self._starting = unheard(self._start())

    async def ready(self) -> None:
        """Wait until a sandbox runs and is prepared; raises ``InfrastructureError``."""
        await self._running()

    async def use(self, action: Callable[[Sandbox], Awaitable[T]]) -> T:
        """Do something in the sandbox; ``action`` is repeated in a fresh one where none has state.

        Raises ``ToolError`` for what the model has done, ``InfrastructureError`` for what the
        service has; any other exception of the action passes through.
        """
        from cwsandbox import CWSandboxError

        for attempt in range(self._retries + 1):
            if self._gone:
                raise ToolError(TERMINATED)
            with self.clock.paused():
                if attempt:
                    await backoff(attempt)
                sandbox = await self._running()
            try:
                result = await action(sandbox)
            except (
                ToolError,
                CWSandboxError,
                asyncio.CancelledError,
                concurrent.futures.CancelledError,
            ) as failure:
                retry = attempt < self._retries and not self._used
                await self._failed(failure, sandbox, retry=retry, again=attempt > 0)
                self.retries += 1
                self._discard()
            else:
                self._used = True
                return result
        raise AssertionError  # the last attempt is not retried

    async def check(self) -> None:
        """Tell a slow model from a silent service; raises ``InfrastructureError`` for the latter.

        For when a limit has ended what was under way: nothing else would have told.
        """
        sandbox = await self._running()
        overdue = CommandTimeoutError("it does not answer")
        with contextlib.suppress(ToolError):  # it is the model's doing, and nobody is to be told
            await self._failed(overdue, sandbox, retry=False, again=False)

    async def close(self) -> None:
        """Remove the sandbox, also one that is still to start."""
        starting = self._starting
        if starting is None or starting.done():
            self._discard()
            return
        self._starting = None
        starting.add_done_callback(self._let_go)  # also if this wait is interrupted
        starting.cancel()
        await asyncio.wait((starting,))

    async def _failed(
        self, failure: BaseException, sandbox: Sandbox, *, retry: bool, again: bool
    ) -> None:
        """Raise what an action's failure means, unless another sandbox may do better."""
        if is_cancelled(failure):
            self._used = True
            raise failure
        try:
            with self.clock.paused():
                told = await explain(failure, sandbox)
        except EndedError:
            # Without state a second sandbox tells whether the first one ended by chance.
            if again or not retry:
                with self.clock.paused():
                    await self._replace()
                raise ToolError(REPLACED) from failure
            return
        if told is not None:
            self._used = True
            raise told from failure
        if not retry:
            raise InfrastructureError(
                f"the sandbox service failed: {describe(failure)}"
            ) from failure

    async def _running(self) -> Sandbox:
        self.start_ahead()
        starting = self._starting
        assert starting is not None  # noqa: S101 - for mypy: start_ahead has set it
        await asyncio.wait((starting,))  # a caller that is cancelled leaves it running
        return starting.result()

    async def _start(self) -> Sandbox:
        from cwsandbox import CWSandboxError, SandboxFileError

        started = time.monotonic()
        failure: BaseException
        try:
            for attempt in range(self._retries + 1):
                if attempt:
                    await backoff(attempt)
                sandbox = await self._taken()
                try:
                    if self._prepare is not None:
                        await self._prepare(sandbox)
                except BaseException as error:
                    self._give_back(sandbox)
                    if is_cancelled(error):
                        raise
                    if isinstance(error, SandboxFileError) and error.reason in FILE_WORDS:
                        raise ConfigurationError(
                            f"a file cannot be placed in the sandbox: {of_file(error)}"
                        ) from error
                    if not isinstance(
                        error, CWSandboxError | InfrastructureError | asyncio.CancelledError
                    ):
                        raise
                    failure = error
                else:
                    self.retries += attempt
                    self.sandbox_ids.append(str(sandbox.sandbox_id))
                    return sandbox
        finally:
            self.start_seconds += time.monotonic() - started
        raise InfrastructureError(
            f"no sandbox could be prepared in {self._retries + 1} attempts: {describe(failure)}"
        ) from failure

    async def _taken(self) -> Sandbox:
        from cwsandbox import CWSandboxError

        try:
            return await self._take()
        except (CWSandboxError, asyncio.CancelledError) as error:
            if is_cancelled(error):
                raise
            raise InfrastructureError(f"no sandbox: {describe(error)}") from error

    async def _replace(self) -> None:
        """A fresh sandbox for one that was broken, and the proof that the service works."""
        if not self._replaceable:
            self._gone = True
            raise ToolError(TERMINATED)
        self._discard()
        try:
            await probe(await self._running())
        except InfrastructureError as error:
            raise InfrastructureError(f"the sandbox ended, and then: {error}") from error

    def _discard(self) -> None:
        starting, self._starting = self._starting, None
        self._used = False
        if starting is not None:
            self._let_go(starting)

    def _let_go(self, starting: asyncio.Future[Sandbox]) -> None:
        if not starting.cancelled() and starting.exception() is None:
            self._give_back(starting.result())
