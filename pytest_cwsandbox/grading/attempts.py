"""One attempt at running a program in a sandbox: the ways to do it, and how each may end.

Any backend executes a command in a running sandbox. The local runner also has sandboxes that run
one command and nothing else, which cost less: there the program comes as a mounted file, and its
result is what the main process writes, as its log.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_cwsandbox.backend import ONE_SHOT
from pytest_cwsandbox.background import unheard
from pytest_cwsandbox.errors import ConfigurationError, InfrastructureError
from pytest_cwsandbox.grading.limits import OUTPUT_BYTES
from pytest_cwsandbox.grading.report import BEGUN
from pytest_cwsandbox.grading.scripts import LAUNCH_FILE, PYTHON
from pytest_cwsandbox.outcome import Verdict
from pytest_cwsandbox.telemetry import GRADING, logged

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from cwsandbox import CWSandboxError, Process, ProcessResult, Sandbox

    from pytest_cwsandbox.grading.limits import Limits
    from pytest_cwsandbox.grading.scripts import Script
    from pytest_cwsandbox.pool import SandboxPool

    Lease = Callable[["Tally"], AbstractAsyncContextManager[Sandbox]]
    Attempt = Callable[[Script, Sequence[str], "Tally"], Awaitable["Ended"]]

# A program whose result depends on the order of a set shall get the same reward every time; and
# numerical libraries reserve memory per CPU, more than the limit on a large machine.
ENVIRONMENT = {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}
COMMAND_BYTES = 96 << 10  # what is longer goes as a file: one argument may have 128 KiB
UNWATCHED_SECONDS = 1.0
SLACK_BYTES = 1 << 20  # results travel as hexadecimal lines
LINES = 1000  # several times as many as the largest result has
JOB = "/run/grade"  # where a one-shot sandbox finds its program
SIGKILL, SIGXCPU = 9, 24
FLOODED = "flooded the channel of the result"
OVERDUE = "nothing ended the program in time"


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


class SuspectError(Exception):
    """The sandbox or the process in it was killed, or nobody ended the program in time."""

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


class Executed:
    """Runs a script as a command in a running sandbox of ``lease``."""

    def __init__(self, lease: Lease, limits: Limits) -> None:
        self._lease = lease
        self._limits = limits

    async def __call__(self, script: Script, arguments: Sequence[str], tally: Tally) -> Ended:
        """Raises as ``Runs.run`` does, and ``SuspectError`` for what needs a second look."""
        async with self._lease(tally) as sandbox:
            tally.sandboxes += 1
            return await self._execute(sandbox, script.command, arguments)

    async def _execute(
        self, sandbox: Sandbox, script: tuple[str, ...], arguments: Sequence[str]
    ) -> Ended:
        from cwsandbox import CWSandboxError

        limits = self._limits
        command: Sequence[str] = script
        started = time.monotonic()
        try:
            command = await _command(sandbox, script, [*limits.arguments(), *arguments])
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
        return _concluded(result.returncode, result.stdout_bytes, result.stderr, limits)


class Alone:
    """Runs a script as the only process that a one-shot sandbox of ``pool`` ever runs."""

    def __init__(self, pool: SandboxPool, limits: Limits) -> None:
        self._pool = pool
        self._limits = limits

    async def __call__(self, script: Script, arguments: Sequence[str], tally: Tally) -> Ended:
        """Raises as ``Executed`` does."""
        from cwsandbox import (
            CWSandboxError,
            SandboxRequestTimeoutError,
            SandboxStreamTruncatedError,
            SandboxTimeoutError,
        )

        limits = self._limits
        job = script.file([*limits.arguments(), *arguments])
        command, *given = *PYTHON, LAUNCH_FILE, JOB
        options = {
            "command": command,
            "args": given,
            "mounted_files": {JOB: job},
            "runtime_class": ONE_SHOT,
        }
        async with self._pool.lease(tally, options) as sandbox:
            tally.sandboxes += 1
            try:
                result = await logged(GRADING, sandbox, _completed(sandbox, limits.outer_seconds))
            except SandboxStreamTruncatedError as error:
                raise ProgramFailedError(Verdict.OUTPUT_LIMIT, FLOODED) from error
            except CWSandboxError as error:
                if isinstance(error, SandboxTimeoutError) and not isinstance(
                    error, SandboxRequestTimeoutError
                ):
                    raise SuspectError(Verdict.TIMEOUT, OVERDUE) from error
                raise InfrastructureError(f"the sandbox service failed: {error}") from error
        code, said = result.returncode, result.stdout
        # Nothing comes before this mark but what was said before the program began.
        began = said.startswith(BEGUN)
        complaint = "" if began else said.strip() or f"it said nothing and ended with {code}"
        return _concluded(code, result.stdout_bytes, complaint, limits)


async def _completed(sandbox: Sandbox, seconds: float) -> ProcessResult:
    """What the main process of a one-shot sandbox came to."""
    from cwsandbox import ProcessResult

    if sandbox.returncode is None:
        await sandbox.wait_until_complete(timeout=seconds)
    said: list[str] = []
    with contextlib.closing(sandbox.stream_logs()) as log:
        async for line in log:
            said.append(line)
            if len(said) > LINES:  # each one costs a switch of threads
                if said[0].startswith(BEGUN):
                    raise ProgramFailedError(Verdict.OUTPUT_LIMIT, FLOODED)
                break
    code = sandbox.returncode
    if code is None:
        raise InfrastructureError("the service does not say how the program ended")
    text = "".join(said)
    return ProcessResult(text, "", code, text.encode())


def _concluded(returncode: int, output: bytes, complaint: str, limits: Limits) -> Ended:
    """How a process ended that was not cut short; ``complaint`` is from before it began."""
    ended = Ended(returncode, output)
    if complaint := complaint.strip():
        reason = complaint.splitlines()[-1][:300]
        if complaint.startswith("tests: "):
            raise ConfigurationError(
                f"the imports or setup of the tests fail in the sandbox: {reason[7:]}"
            )
        raise InfrastructureError(f"the program could not be started: {reason}")
    if ended.signal == SIGKILL:
        raise SuspectError(Verdict.SANDBOX_KILLED, "the program was killed")
    if ended.signal == SIGXCPU:
        raise ProgramFailedError(Verdict.TIMEOUT, f"used more than {limits.cpu_seconds} s of CPU")
    return ended


async def _suspicion(
    error: CWSandboxError, sandbox: Sandbox, *, overdue: bool
) -> SuspectError | None:
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
            return SuspectError(Verdict.TIMEOUT, OVERDUE)
        return None
    if isinstance(error, SandboxStreamBackpressureError | SandboxStreamTruncatedError):
        # No honest result is so large that a service would cut it short.
        return SuspectError(Verdict.OUTPUT_LIMIT, FLOODED)
    died = isinstance(error, SandboxNotRunningError | SandboxExecutionError)
    if died and not isinstance(error, SandboxUnavailableError) and await _is_over(sandbox):
        return SuspectError(Verdict.SANDBOX_KILLED, "the sandbox died under the program")
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
    done = unheard(process)
    try:
        await asyncio.wait((done,), timeout=UNWATCHED_SECONDS)
        if not done.done() and await _flooded_first(process, done):
            raise ProgramFailedError(Verdict.OUTPUT_LIMIT, FLOODED)
        result = await done
    finally:
        done.cancel()
        process.stdout.close()  # a read that was cancelled waits on, in the SDK's loop
    if len(result.stdout_bytes) > 2 * OUTPUT_BYTES + SLACK_BYTES:
        raise ProgramFailedError(Verdict.OUTPUT_LIMIT, FLOODED)
    return result


async def _flooded_first(process: Process, done: asyncio.Future[ProcessResult]) -> bool:
    # The stream of a command that never began does not end, only the process does.
    flooding = unheard(_floods(process))
    try:
        await asyncio.wait((done, flooding), return_when=asyncio.FIRST_COMPLETED)
        return flooding.done() and flooding.exception() is None and flooding.result()
    finally:
        flooding.cancel()


async def _floods(process: Process) -> bool:
    """Whether the output becomes too much; returns when it does, or ends."""
    size = 0
    async for chunk in process.stdout:
        size += len(chunk)
        if size > 2 * OUTPUT_BYTES + SLACK_BYTES:
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
