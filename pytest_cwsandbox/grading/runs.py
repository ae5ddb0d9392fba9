"""One program in one fresh sandbox, and whose fault it is when that fails.

Three rules. What the service reports as its own failure is retried and never the program's doing.
A sandbox that dies under the program, and an exec that nobody ended in time, may be either's: when
it happens again on a fresh sandbox the canary, a program known to be right, decides. The second
look is evidence and no retry: it is taken where retries are off as well. And what stands on
standard error was written before the program began: it never got to run.
"""

from __future__ import annotations

import asyncio
import shlex
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_cwsandbox.errors import ConfigurationError, InfrastructureError
from pytest_cwsandbox.grading.limits import OUTPUT_BYTES
from pytest_cwsandbox.outcome import Verdict
from pytest_cwsandbox.pool import backoff
from pytest_cwsandbox.telemetry import GRADING, logged

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from cwsandbox import CWSandboxError, Process, ProcessResult, Sandbox

    from pytest_cwsandbox.grading.limits import Limits

    Lease = Callable[["Tally"], AbstractAsyncContextManager[Sandbox]]

# A program whose result depends on the order of a set shall get the same reward every time; and
# numerical libraries reserve memory per CPU, more than the limit on a large machine.
ENVIRONMENT = {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}
COMMAND_BYTES = 96 << 10  # what is longer goes as a file: one argument may have 128 KiB
UNWATCHED_SECONDS = 1.0
SLACK_BYTES = 1 << 16
SIGKILL, SIGXCPU = 9, 24


@dataclass(frozen=True, slots=True)
class Ended:
    """A process that ended by itself; ``signal`` is 0 or the signal that ended it."""

    returncode: int
    output: bytes

    @property
    def signal(self) -> int:
        """The SDK passes on what the service says: both ways of writing a signal occur."""
        return -self.returncode if self.returncode < 0 else max(self.returncode - 128, 0)


class ProgramFailedError(Exception):
    """The program's own failure, which leaves no result to look at."""

    def __init__(self, verdict: Verdict, detail: str) -> None:
        super().__init__(detail)
        self.verdict = verdict


class _SuspectError(Exception):
    """The sandbox or the process in it was killed, or nobody ended the exec in time."""

    def __init__(self, verdict: Verdict, detail: str) -> None:
        super().__init__(detail)
        self.verdict = verdict


@dataclass(slots=True)
class Tally:
    """Counts the sandboxes that one grade used, and the asserts where it was asked to.

    ``retries`` are the failures of the infrastructure that were made good on a fresh sandbox.
    """

    sandboxes: int = 0
    retries: int = 0
    asserts: int = 0
    passed_asserts: int = 0


class Runs:
    """Runs scripts with retries, every attempt in a sandbox of ``lease``.

    ``canary`` tells whether a right program passes on a fresh sandbox. Without one nobody knows
    whose fault a suspicious failure is: it counts as the infrastructure's, with no second look.
    """

    def __init__(
        self,
        lease: Lease,
        *,
        limits: Limits,
        retries: int,
        canary: Callable[[], Awaitable[bool]] | None,
    ) -> None:
        self._lease = lease
        self._limits = limits
        self._retries = retries
        self._canary = canary

    async def run(self, script: tuple[str, ...], arguments: Sequence[str], tally: Tally) -> Ended:
        """Run ``script`` until it ended by itself.

        Raises ``ProgramFailedError``, ``InfrastructureError``, or ``ConfigurationError`` where
        imports or setup of the tests fail.
        """
        failures = suspicions = 0
        while True:
            if again := failures + suspicions:
                await backoff(again)
            try:
                async with self._lease(tally) as sandbox:
                    tally.sandboxes += 1
                    ended = await self._attempt(sandbox, script, arguments)
            except _SuspectError as suspicion:
                if self._canary is None:
                    raise InfrastructureError(str(suspicion)) from suspicion
                suspicions += 1
                if suspicions < 2:
                    continue
                if not await self._canary():
                    raise InfrastructureError(
                        f"{suspicion}, and a known right program fails as well"
                    ) from suspicion
                raise ProgramFailedError(
                    suspicion.verdict, f"{suspicion}, also on a fresh sandbox"
                ) from suspicion
            except InfrastructureError:
                failures += 1
                if failures > self._retries:
                    raise
                tally.retries += 1
            else:
                # A program that kills its sandbox does so again: one suspicion was no program's.
                tally.retries += suspicions
                return ended

    async def _attempt(
        self, sandbox: Sandbox, script: tuple[str, ...], arguments: Sequence[str]
    ) -> Ended:
        """Run the script once; raises ``_SuspectError`` for what needs a second look."""
        from cwsandbox import CWSandboxError

        limits = self._limits
        given = [str(limits.cpu_seconds), str(limits.wall_seconds), str(limits.memory_bytes)]
        command: Sequence[str] = script
        started = time.monotonic()
        try:
            command = await _command(sandbox, script, [*given, *arguments])
            started = time.monotonic()
            process = sandbox.exec(command, timeout_seconds=limits.outer_seconds)
            result = await logged(GRADING, sandbox, _bounded(process))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # The SDK cancels what runs in a sandbox that ends; nobody cancelled this grade.
            raise InfrastructureError("the sandbox was taken away under the program") from None
        except CWSandboxError as error:
            overdue = time.monotonic() - started > 0.9 * limits.outer_seconds
            suspicion = await _suspicion(error, sandbox, overdue=overdue)
            if suspicion is not None:
                raise suspicion from error
            # A reader learns nothing from the command, which is long and holds the program.
            said = str(error).replace(f"Command {shlex.join(command)}", "the program")
            raise InfrastructureError(f"the sandbox service failed: {said}") from error
        ended = Ended(result.returncode, result.stdout_bytes)
        if complaint := result.stderr.strip():
            reason = complaint.splitlines()[-1][:300]
            if complaint.startswith("tests: "):
                raise ConfigurationError(
                    f"the imports or setup of the tests fail in the sandbox: {reason[7:]}"
                )
            raise InfrastructureError(f"the program could not be started: {reason}")
        if ended.signal == SIGKILL:
            raise _SuspectError(Verdict.SANDBOX_KILLED, "the program was killed")
        if ended.signal == SIGXCPU:
            raise ProgramFailedError(
                Verdict.TIMEOUT, f"used more than {limits.cpu_seconds} s of CPU"
            )
        return ended


async def _suspicion(
    error: CWSandboxError, sandbox: Sandbox, *, overdue: bool
) -> _SuspectError | None:
    """What the program may have done to make the SDK raise ``error``; None if it is the service's.

    ``overdue`` says that the exec had all the time that the SDK gives it.
    """
    from cwsandbox import (
        SandboxExecutionError,
        SandboxNotRunningError,
        SandboxRequestTimeoutError,
        SandboxStreamBackpressureError,
        SandboxStreamTruncatedError,
        SandboxTimeoutError,
        SandboxUnavailableError,
    )

    if isinstance(error, SandboxTimeoutError):
        if overdue and not isinstance(error, SandboxRequestTimeoutError):
            return _SuspectError(Verdict.TIMEOUT, "nothing ended the program in time")
        return None
    if isinstance(error, SandboxStreamBackpressureError | SandboxStreamTruncatedError):
        # No honest result is so large that a service would cut it short.
        return _SuspectError(Verdict.OUTPUT_LIMIT, "flooded the channel of the result")
    died = isinstance(error, SandboxNotRunningError | SandboxExecutionError)
    if died and not isinstance(error, SandboxUnavailableError) and await _is_over(sandbox):
        return _SuspectError(Verdict.SANDBOX_KILLED, "the sandbox died under the program")
    return None


async def _command(sandbox: Sandbox, script: tuple[str, ...], arguments: list[str]) -> list[str]:
    """The command line; arguments that it cannot carry are written to a file."""
    text = "".join(arguments)
    if len(text) < COMMAND_BYTES and "\0" not in text and text.isascii():
        return [*script, "-", *arguments]
    path = f"/tmp/{uuid.uuid4().hex}"  # noqa: S108 - inside the sandbox
    lengths = " ".join(str(len(argument)) for argument in arguments)
    await sandbox.write_file(path, f"{lengths}\n{text}".encode("utf-8", "surrogatepass"))
    return [*script, path]


async def _bounded(process: Process) -> ProcessResult:
    """The result, unless the output is too much: the SDK keeps it all in memory."""
    done = asyncio.ensure_future(process)
    await asyncio.wait((done,), timeout=UNWATCHED_SECONDS)
    if not done.done():
        # The stream of a command that never began does not end, only the process does.
        flooding = asyncio.ensure_future(_floods(process))
        await asyncio.wait((done, flooding), return_when=asyncio.FIRST_COMPLETED)
        flooded = flooding.done() and flooding.exception() is None and flooding.result()
        flooding.cancel()
        if flooded:
            done.cancel()
            raise ProgramFailedError(Verdict.OUTPUT_LIMIT, "flooded the channel of the result")
    result = await done
    if len(result.stdout_bytes) > OUTPUT_BYTES + SLACK_BYTES:
        raise ProgramFailedError(Verdict.OUTPUT_LIMIT, "flooded the channel of the result")
    return result


async def _floods(process: Process) -> bool:
    """Whether the output becomes too much; returns when it does, or ends."""
    size = 0
    async for chunk in process.stdout:
        size += len(chunk)
        if size > OUTPUT_BYTES + SLACK_BYTES:
            return True
    return False


async def _is_over(sandbox: Sandbox) -> bool:
    """Whether the service says that the sandbox ended.

    Not when it cannot be reached, and not when somebody took it away, which is TERMINATED.
    """
    from cwsandbox import CWSandboxError, SandboxStatus

    try:
        status = await asyncio.to_thread(sandbox.get_status)
    except CWSandboxError:
        return False
    return status in {SandboxStatus.COMPLETED, SandboxStatus.FAILED}
