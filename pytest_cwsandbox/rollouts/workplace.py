"""The sandbox of one episode, and whose fault it is when something fails there.

Two mistakes would be trained on: to tell the model of a failure that was the service's, and to drop
an episode that the model has broken on purpose. So a failure that the service reports as its own
ends the episode without a reward; what the agent's programs can bring about, up to the end of the
sandbox, is told to the model, which goes on. Where both are possible a fresh sandbox decides: if it
works, the old one was broken from inside.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from typing import TYPE_CHECKING, TypeVar

from pytest_cwsandbox.errors import ConfigurationError, InfrastructureError
from pytest_cwsandbox.pool import backoff

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from cwsandbox import Sandbox, SandboxFileError

T = TypeVar("T")

PROBE = ("true",)  # whatever becomes of it, a sandbox that runs it is there
PROBE_SECONDS = 15.0  # enough on any machine
SETTLE_ATTEMPTS = 10  # a service may need a moment to notice that a sandbox ended
SETTLE_SECONDS = 0.2
# What an exec stream may say of the service's own state; any other code is about the command.
SERVICE_CODES = frozenset(
    {
        "INTERNAL",
        "REPLAY_GAP",
        "RUNNER_DRAINING",
        "RUNNER_UNAVAILABLE",
        "SESSION_NOT_FOUND",
        "STREAM_INTERRUPTED",
        "UNAVAILABLE",
    }
)
FILE_WORDS = {
    "CWSANDBOX_FILE_NOT_FOUND": "no such file",
    "CWSANDBOX_FILE_IS_DIRECTORY": "is a directory",
    "CWSANDBOX_FILE_PERMISSION_DENIED": "permission denied",
    "CWSANDBOX_FILE_TOO_LARGE": "too large",
    "CWSANDBOX_FILE_IO_FAILED": "cannot be read or written; perhaps the disk is full",
}
REPLACED = "the sandbox was terminated; a new one is in its place, earlier files are gone"
TERMINATED = "the sandbox was terminated"


class ToolError(Exception):
    """What a tool tells the model of a failure that is the model's own: "Error: ..."."""


class CommandTimeoutError(ToolError):
    """A command that had all its time; told to the model if the sandbox still answers."""


class _EndedError(Exception):
    """The sandbox came to its end, or no longer answers, and the service knows of no reason."""


class Workplace:
    """A sandbox that is started ahead, replaced while it has no state, removed at the end.

    ``take`` and ``give_back`` are a pool's. ``prepare`` places an episode's files, in every new
    sandbox. ``sandbox_ids`` are all that were used; ``start_seconds`` sums up the wait for them.
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
        self._starting: asyncio.Task[Sandbox] | None = None
        self._used = False  # something was done in this sandbox that a fresh one does not have
        self._gone = False
        self.sandbox_ids: list[str] = []
        self.start_seconds = 0.0

    @classmethod
    def over(cls, sandbox: Sandbox) -> Workplace:
        """The caller's own sandbox: never replaced, never removed."""

        async def take() -> Sandbox:
            await sandbox
            return sandbox

        workplace = cls(take, lambda _: None, retries=0)
        workplace._replaceable = False
        return workplace

    def start_ahead(self) -> None:
        """Begin to start a sandbox; whether it fails shows at the first use."""
        if self._starting is None:
            self._starting = asyncio.ensure_future(self._start())
            self._starting.add_done_callback(lambda task: task.cancelled() or task.exception())

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
                self._discard()
            else:
                self._used = True
                return result
        raise AssertionError  # the last attempt is not retried

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
        if _is_cancelled(failure):
            self._used = True
            raise failure
        try:
            told = await _explain(failure, sandbox)
        except _EndedError:
            # Without state a second sandbox tells whether the first one ended by chance.
            if again or not retry:
                await self._replace()
                raise ToolError(REPLACED) from failure
            return
        if told is not None:
            self._used = True
            raise told from failure
        if not retry:
            raise InfrastructureError(
                f"the sandbox service failed: {_describe(failure)}"
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
                    if _is_cancelled(error):
                        raise
                    if isinstance(error, SandboxFileError) and error.reason in FILE_WORDS:
                        raise ConfigurationError(
                            f"a file cannot be placed in the sandbox: {_of_file(error)}"
                        ) from error
                    if not isinstance(
                        error, CWSandboxError | InfrastructureError | asyncio.CancelledError
                    ):
                        raise
                    failure = error
                else:
                    self.sandbox_ids.append(str(sandbox.sandbox_id))
                    return sandbox
        finally:
            self.start_seconds += time.monotonic() - started
        raise InfrastructureError(
            f"no sandbox could be prepared in {self._retries + 1} attempts: {_describe(failure)}"
        ) from failure

    async def _taken(self) -> Sandbox:
        from cwsandbox import CWSandboxError

        try:
            return await self._take()
        except (CWSandboxError, asyncio.CancelledError) as error:
            if _is_cancelled(error):
                raise
            raise InfrastructureError(f"no sandbox: {_describe(error)}") from error

    async def _replace(self) -> None:
        """A fresh sandbox for one that was broken, and the proof that the service works."""
        if not self._replaceable:
            self._gone = True
            raise ToolError(TERMINATED)
        self._discard()
        try:
            await _probe(await self._running())
        except InfrastructureError as error:
            raise InfrastructureError(f"the sandbox ended, and then: {error}") from error

    def _discard(self) -> None:
        starting, self._starting = self._starting, None
        self._used = False
        if starting is not None:
            self._let_go(starting)

    def _let_go(self, starting: asyncio.Task[Sandbox]) -> None:
        if not starting.cancelled() and starting.exception() is None:
            self._give_back(starting.result())


async def _explain(failure: BaseException, sandbox: Sandbox) -> ToolError | None:
    """What to tell the model of its failure; None if it is the service's.

    Raises ``_EndedError`` where the sandbox is no longer of use.
    """
    from cwsandbox import (
        CWSandboxValidationError,
        SandboxFileError,
        SandboxStreamBackpressureError,
        SandboxStreamTruncatedError,
        SandboxTimeoutError,
    )

    told: ToolError | None = None
    if isinstance(failure, ToolError):
        told = failure
    elif isinstance(failure, SandboxTimeoutError):
        told = CommandTimeoutError("the command timed out")
    elif isinstance(failure, SandboxFileError):
        told = ToolError(_of_file(failure))
    elif isinstance(failure, CWSandboxValidationError):
        told = ToolError(str(failure))
    elif isinstance(failure, SandboxStreamBackpressureError | SandboxStreamTruncatedError):
        told = ToolError("the command was stopped: it wrote more than can be passed on")
    elif await _broken(failure, sandbox):
        raise _EndedError
    if isinstance(told, CommandTimeoutError) and not await _answers(sandbox):
        return None
    return told


async def _answers(sandbox: Sandbox) -> bool:
    """Whether a sandbox in which a command timed out still runs others.

    False when the service fails. Raises ``_EndedError`` when the sandbox ended, or is too busy with
    what the agent started there.
    """
    from cwsandbox import CWSandboxError, SandboxTimeoutError

    try:
        await sandbox.exec(PROBE, timeout_seconds=PROBE_SECONDS)
    except (CWSandboxError, asyncio.CancelledError) as error:
        if _is_cancelled(error):
            raise
        if isinstance(error, SandboxTimeoutError) or await _broken(error, sandbox):
            raise _EndedError from error
        return False
    return True


async def _probe(sandbox: Sandbox) -> None:
    """Run a command in a fresh sandbox; raises ``InfrastructureError``."""
    from cwsandbox import CWSandboxError

    try:
        await sandbox.exec(PROBE, timeout_seconds=PROBE_SECONDS)
    except (CWSandboxError, asyncio.CancelledError) as error:
        if _is_cancelled(error):
            raise
        raise InfrastructureError(f"a fresh sandbox failed: {_describe(error)}") from error


async def _broken(failure: BaseException, sandbox: Sandbox) -> bool:
    """Whether it failed because the sandbox was broken from inside.

    Otherwise the service failed, or was asked by somebody to take the sandbox away.
    """
    from cwsandbox import (
        CWSandboxError,
        SandboxExecutionError,
        SandboxFailedError,
        SandboxNotRunningError,
        SandboxStatus,
        SandboxUnavailableError,
    )

    if isinstance(failure, SandboxExecutionError) and failure.reason not in {None, *SERVICE_CODES}:
        return True
    # The SDK cancels what is under way in a sandbox that ends.
    cancelled = not isinstance(failure, CWSandboxError)
    may_have_ended = isinstance(
        failure, SandboxNotRunningError | SandboxExecutionError | SandboxFailedError
    )
    if isinstance(failure, SandboxUnavailableError) or not (cancelled or may_have_ended):
        return False
    for _ in range(SETTLE_ATTEMPTS):
        try:
            status = await asyncio.to_thread(sandbox.get_status)
        except (CWSandboxError, asyncio.CancelledError) as error:
            if _is_cancelled(error):
                raise
            return False
        if status in {SandboxStatus.COMPLETED, SandboxStatus.FAILED}:
            return True
        if status is SandboxStatus.TERMINATED or isinstance(failure, SandboxExecutionError):
            return False
        await asyncio.sleep(SETTLE_SECONDS)
    return False


def _is_cancelled(error: BaseException) -> bool:
    """Whether somebody cancelled the task that got ``error``, rather than the SDK its call."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling() > 0)


def _of_file(error: SandboxFileError) -> str:
    words = FILE_WORDS.get(error.reason or "")
    return f"{error.filepath}: {words}" if words and error.filepath else str(error)


def _describe(error: BaseException) -> str:
    return str(error) or "the sandbox was taken away"
