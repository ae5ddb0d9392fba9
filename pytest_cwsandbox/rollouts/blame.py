"""Whose fault a failure in a sandbox is: the model's, or the service's.

Two mistakes would be trained on: to tell the model of a failure that was the service's, and to drop
an episode that the model has broken on purpose. So a failure that the service reports as its own
ends the episode without a reward; what the agent's programs can bring about, up to the end of the
sandbox, is told to the model, which goes on. Where both are possible a fresh sandbox decides: if it
works, the old one was broken from inside.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from typing import TYPE_CHECKING

from pytest_cwsandbox.errors import InfrastructureError
from pytest_cwsandbox.rollouts.deadlines import answered
from pytest_cwsandbox.telemetry import uncounted

if TYPE_CHECKING:
    from cwsandbox import Sandbox, SandboxFileError, SandboxStatus

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


class ToolError(Exception):
    """What a tool tells the model of a failure that is the model's own: "Error: ..."."""


class CommandTimeoutError(ToolError):
    """A command that had all its time; told to the model if the sandbox still answers."""


class EndedError(Exception):
    """The sandbox came to its end, or no longer answers, and the service knows of no reason."""


async def explain(failure: BaseException, sandbox: Sandbox) -> ToolError | None:
    """What to tell the model of its failure; None if it is the service's.

    Raises ``EndedError`` where the sandbox is no longer of use.
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
        told = ToolError(of_file(failure))
    elif isinstance(failure, CWSandboxValidationError):
        told = ToolError(str(failure))
    elif isinstance(failure, SandboxStreamBackpressureError | SandboxStreamTruncatedError):
        told = ToolError("the command was stopped: it wrote more than can be passed on")
    elif await _broken(failure, sandbox):
        raise EndedError
    if isinstance(told, CommandTimeoutError) and not await _answers(sandbox):
        return None
    return told


async def _answers(sandbox: Sandbox) -> bool:
    """Whether a sandbox in which a command timed out still runs others.

    False when the service fails, or is silent about all sandboxes. Raises ``EndedError`` when this
    one ended, or is too busy with what the agent started there.
    """
    from cwsandbox import CWSandboxError, SandboxTimeoutError

    try:
        await _run_probe(sandbox)
    except (CWSandboxError, asyncio.CancelledError) as error:
        if is_cancelled(error):
            raise
        if isinstance(error, SandboxTimeoutError):
            ended = await _status(sandbox) is not None
        else:
            ended = await _broken(error, sandbox)
        if ended:
            raise EndedError from error
        return False
    return True


async def probe(sandbox: Sandbox) -> None:
    """Run a command in a fresh sandbox; raises ``InfrastructureError``."""
    from cwsandbox import CWSandboxError

    try:
        await _run_probe(sandbox)
    except (CWSandboxError, asyncio.CancelledError) as error:
        if is_cancelled(error):
            raise
        raise InfrastructureError(f"a fresh sandbox failed: {describe(error)}") from error


async def _run_probe(sandbox: Sandbox) -> None:
    with uncounted(sandbox):
        await answered(sandbox.exec(PROBE, timeout_seconds=PROBE_SECONDS), PROBE_SECONDS)


async def _status(sandbox: Sandbox) -> SandboxStatus | None:
    """What the service says of the sandbox; None if it fails, or says nothing in time."""
    from cwsandbox import CWSandboxError

    asking = asyncio.to_thread(sandbox.get_status)  # the SDK has no other way to ask
    try:
        return await answered(asking, PROBE_SECONDS)
    except (CWSandboxError, asyncio.CancelledError, concurrent.futures.CancelledError) as error:
        if is_cancelled(error):
            raise
        return None


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
        status = await _status(sandbox)
        if status is None:
            return False
        if status in {SandboxStatus.COMPLETED, SandboxStatus.FAILED}:
            return True
        if status is SandboxStatus.TERMINATED or isinstance(failure, SandboxExecutionError):
            return False
        await asyncio.sleep(SETTLE_SECONDS)
    return False


def is_cancelled(error: BaseException) -> bool:
    """Whether somebody cancelled the task that got ``error``, rather than the SDK its call."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling() > 0)


def of_file(error: SandboxFileError) -> str:
    words = FILE_WORDS.get(error.reason or "")
    return f"{error.filepath}: {words}" if words and error.filepath else str(error)


def describe(error: BaseException) -> str:
    return str(error) or "the sandbox was taken away"
