"""The reward of a general agent: whether the task's test command passes in the sandbox it leaves.

This is the weakest of the grades: the judge is where the agent was, and an agent may have been
there as root. The deciding files are placed last, and compiled Python files in the working folder
are removed. Neither stops an agent that replaces python, bash or a library, that leaves a
``sitecustomize.py`` or a ``unittest.py`` where the tests find it first, that leaves a process which
rewrites the test files or watches for them, or whose code ends the test run with exit code 0.
"""

from __future__ import annotations

import asyncio
import io
import tarfile
import time
import uuid
from typing import TYPE_CHECKING

from pytest_cwsandbox.background import unheard
from pytest_cwsandbox.errors import ConfigurationError
from pytest_cwsandbox.outcome import Outcome, Verdict
from pytest_cwsandbox.rollouts.deadlines import answered
from pytest_cwsandbox.rollouts.sandbox_tools import FOLDER
from pytest_cwsandbox.rollouts.workplace import REPLACED, TERMINATED, CommandTimeoutError, ToolError
from pytest_cwsandbox.telemetry import GRADING, logged, uncounted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cwsandbox import Process, ProcessResult, Sandbox, StreamReader

    from pytest_cwsandbox.rollouts.tasks import Task
    from pytest_cwsandbox.rollouts.workplace import Workplace

PLACING_SECONDS = 60.0
GRACE_SECONDS = 30.0  # for the sandbox to end the command before the SDK does
FLOOD_BYTES = 1 << 20  # far more than the scripts below let through
TIMED_OUT, KILLED = 124, 137

PLACE = """
mkdir -p "$1" && cd "$1" || exit
tar -xPf "$2" 2>&1 | head -n 1
code=${PIPESTATUS[0]}
rm -f "$2"
exit $code
"""

# Python trusts a compiled file whose source had the same size in the same second: a quick agent's
# fix of one character would not be seen, so none stays. Only the end of the output leaves the
# sandbox, whatever its amount. A process that the tests leave behind may hold the pipe open: then
# the exit code is told without waiting for it.
RUN = """
cd "$1" || exit
seconds=$2
shift 2
timeout -k 1 10 find . -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null
export PYTHONDONTWRITEBYTECODE=1
exec 3> >(exec tail -c 2000)
tail=$!
timeout -k 1 "$seconds" "$@" >&3 2>&1 3>&- < /dev/null
code=$?
exec 3>&-
for _ in {1..100}; do
    kill -0 $tail 2>/dev/null || break
    sleep 0.02
done
kill $tail 2>/dev/null
exit $code
"""


async def place_files(sandbox: Sandbox, files: Mapping[str, str]) -> None:
    """Write files with their folders; scripts that begin with ``#!`` can be executed.

    What is there already is replaced, also a symbolic link. Needs bash and tar in the image. Raises
    ``ConfigurationError`` where the sandbox does not take them, and what the SDK raises.
    """
    if not files:
        return
    archive = f"/tmp/{uuid.uuid4().hex}.tar"  # noqa: S108 - inside the sandbox
    writing = sandbox.write_file(archive, _archive(files), timeout_seconds=PLACING_SECONDS)
    await answered(writing, PLACING_SECONDS)
    command = ["bash", "-c", PLACE, "-", FOLDER, archive]
    with uncounted(sandbox):
        placing = _bounded(sandbox.exec(command, timeout_seconds=PLACING_SECONDS))
        result = await answered(placing, PLACING_SECONDS)
    if result is None or result.returncode != 0:
        raise ConfigurationError(f"the files cannot be placed in the sandbox: {_complaint(result)}")


async def grade_task(task: Task, workplace: Workplace) -> Outcome:
    """Place the task's test files where the agent worked, and run its test command there.

    Whatever the agent did that keeps this from succeeding is its own doing. Raises
    ``InfrastructureError``, and ``ConfigurationError`` for a task without a test command.
    """
    if not task.test_command:
        raise ConfigurationError(f"task {task.id}: there is no test_command to grade with")
    started = time.monotonic()
    verdict, detail = await _find(task, workplace)
    return Outcome(verdict, detail, time.monotonic() - started)


async def _find(task: Task, workplace: Workplace) -> tuple[Verdict, str]:
    async def attempt(sandbox: Sandbox) -> tuple[ProcessResult | None, float]:
        await place_files(sandbox, task.test_files)
        return await _run(task, sandbox)

    try:
        result, seconds = await workplace.use(attempt)
    except ConfigurationError as error:
        return Verdict.WRONG_ANSWER, f"the tests: {error}"
    except CommandTimeoutError as error:
        return Verdict.TIMEOUT, str(error)
    except ToolError as error:
        killed = str(error) in {REPLACED, TERMINATED}
        return Verdict.SANDBOX_KILLED if killed else Verdict.WRONG_ANSWER, f"the tests: {error}"
    return _verdict(result, overdue=seconds >= task.timeout_seconds)


def _verdict(result: ProcessResult | None, *, overdue: bool) -> tuple[Verdict, str]:
    if result is None:
        return Verdict.OUTPUT_LIMIT, "the tests: a flood of output"
    if result.returncode == 0:
        return Verdict.PASSED, ""
    if overdue and result.returncode in {TIMED_OUT, KILLED}:
        return Verdict.TIMEOUT, "the test command did not end in time"
    return Verdict.WRONG_ANSWER, _complaint(result)


async def _run(task: Task, sandbox: Sandbox) -> tuple[ProcessResult | None, float]:
    """How the test command ended, and after how many seconds."""
    from cwsandbox import SandboxRequestTimeoutError, SandboxTimeoutError

    limit = f"{task.timeout_seconds:f}"
    outer = task.timeout_seconds + GRACE_SECONDS
    command = ["bash", "-c", RUN, "-", FOLDER, limit, *task.test_command]
    started = time.monotonic()
    try:
        with uncounted(sandbox):
            process = sandbox.exec(command, timeout_seconds=outer)
            result = await answered(logged(GRADING, sandbox, _bounded(process)), outer)
    except SandboxTimeoutError as error:
        overdue = time.monotonic() - started > 0.9 * outer
        if overdue and not isinstance(error, SandboxRequestTimeoutError):
            raise CommandTimeoutError("nothing ended the test command in time") from error
        raise
    return result, time.monotonic() - started


async def _bounded(process: Process) -> ProcessResult | None:
    """The result; None, and the process is ended, if its output would fill the host's memory."""
    streams = (process.stdout, process.stderr)
    flooded = False

    async def watch(stream: StreamReader[str]) -> None:
        nonlocal flooded
        size = 0
        async for chunk in stream:
            size += len(chunk)
            if size > FLOOD_BYTES:
                flooded = True
                process.cancel()

    # Streams of a command that never began do not end, only ``process`` does.
    watching = [unheard(watch(stream)) for stream in streams]
    try:
        return await process
    except asyncio.CancelledError:
        if not flooded:
            raise
        return None
    finally:
        process.cancel()  # of no effect on a process that ended
        for task, stream in zip(watching, streams, strict=True):
            task.cancel()
            stream.close()


def _archive(files: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path, text in files.items():
            content = text.encode()
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            entry.mode = 0o755 if text.startswith("#!") else 0o644
            entry.mtime = int(time.time())
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _complaint(result: ProcessResult | None) -> str:
    """The last line of the output, or how the command ended."""
    if result is None:
        return "a flood of output"
    lines = f"{result.stdout}\n{result.stderr}".split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return last[:300] or f"exit code {result.returncode}"
