"""The tools that come along: code, commands and files in the sandbox, and the submission."""

from __future__ import annotations

import asyncio
import posixpath
import uuid
from functools import cache
from typing import TYPE_CHECKING

from pytest_cwsandbox.background import unheard
from pytest_cwsandbox.errors import ConfigurationError
from pytest_cwsandbox.rollouts import observations
from pytest_cwsandbox.rollouts.deadlines import answered
from pytest_cwsandbox.rollouts.tools import CommandTimeoutError, Submission, Tool, ToolError
from pytest_cwsandbox.telemetry import ROLLOUTS, logged

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cwsandbox import Process, ProcessResult, Sandbox, StreamReader

COMMAND_SECONDS = 30.0
FOLDER = "/workspace"
COMMAND_BYTES = 96 << 10  # what is longer goes as a file: one argument may have 128 KiB
# No agent needs longer ones, and what is echoed in the details of an error, some of it escaped,
# must fit what gRPC takes there: else a bad path would look like a failure of the service.
PATH_BYTES = 1024
NAME_BYTES = 255
STREAM_CHARACTERS = 1 << 20  # of each stream that are kept; a command that writes more is stopped
REST_SECONDS = 1.0  # for output that is on its way when a command times out
CHANGE_FOLDER = 'cd -- "$0" 2>/dev/null; exec "$@"'
NAMES = ("execute_code", "bash", "read_file", "write_file", "submit_solution")


def sandbox_tools(
    *, timeout_seconds: float = COMMAND_SECONDS, folder: str = FOLDER
) -> dict[str, Tool]:
    """All of them by name. Every command has ``timeout_seconds``.

    ``folder`` is the working folder: commands run there, relative paths are taken from there.
    """

    async def execute_code(code: str, sandbox: Sandbox) -> str:
        """Run a Python program in the sandbox; get its exit code, standard output and error.

        Use print to see values. Each call is a new process without input; files that it writes
        remain. A program that takes too long is stopped.

        Args:
            code: A complete Python program.
        """
        program = code.encode("utf-8", "replace")
        if len(program) < COMMAND_BYTES and b"\0" not in program:
            command = ["python", "-c", program.decode()]
        else:
            path = await _placed(sandbox, program, timeout_seconds)
            command = ["sh", "-c", 'exec python - <"$1"', "sh", path]
        return await run(sandbox, command, folder=folder, timeout_seconds=timeout_seconds)

    async def bash(command: str, sandbox: Sandbox) -> str:
        """Run a Bash command in the sandbox; get its exit code, standard output and error.

        Each call is a new shell without input; files that it writes remain, and so do processes in
        the background. A command that takes too long is stopped.

        Args:
            command: A Bash command line or script.
        """
        script = command.encode("utf-8", "replace")
        if b"\0" in script:
            raise ToolError("a command cannot hold a NUL character; escape it, as in printf '\\0'")
        if len(script) < COMMAND_BYTES:
            words = ["bash", "-c", script.decode()]
        else:
            words = ["bash", await _placed(sandbox, script, timeout_seconds)]
        return await run(sandbox, words, folder=folder, timeout_seconds=timeout_seconds)

    async def read_file(path: str, sandbox: Sandbox) -> str:
        """Read a text file in the sandbox.

        The middle of a long file is left out; use a command to see a part of it.

        Args:
            path: An absolute path, or one relative to the working folder.
        """
        # Not by the SDK's own way, which would take files of any size into memory.
        command = ["head", "-c", str(STREAM_CHARACTERS), "--", _absolute(path, folder)]
        result = await _finished(sandbox, command, timeout_seconds=timeout_seconds)
        if result.returncode != 0:
            raise ToolError(result.stderr.strip().removeprefix("head: ") or f"{path}: unreadable")
        return result.stdout

    async def write_file(path: str, content: str, sandbox: Sandbox) -> str:
        """Write a text file in the sandbox, replacing what it held; missing folders are made.

        Args:
            path: An absolute path, or one relative to the working folder.
            content: The whole new content.
        """
        data = content.encode("utf-8", "replace")
        writing = sandbox.write_file(_absolute(path, folder), data, timeout_seconds=timeout_seconds)
        await answered(writing, timeout_seconds)
        return "File written successfully"

    def submit_solution(code: str) -> Submission:
        """Submit the final solution and end the task.

        It is graded with tests and cannot be changed afterwards: try it out first.

        Args:
            code: The complete Python source of the solution.
        """
        return Submission(code)

    functions: list[Callable[..., object]]
    functions = [execute_code, bash, read_file, write_file, submit_solution]
    return {tool.name: tool for tool in map(Tool.of, functions)}


@cache  # their schemas are made once, not once per episode
def named_tools(
    names: tuple[str, ...], *, timeout_seconds: float = COMMAND_SECONDS, folder: str = FOLDER
) -> tuple[Tool, ...]:
    """Those with these names, in this order; raises ``ConfigurationError``."""
    tools = sandbox_tools(timeout_seconds=timeout_seconds, folder=folder)
    for name in names:
        if name not in tools:
            raise ConfigurationError(f"there is no tool {name!r}; there are {', '.join(NAMES)}")
    return tuple(tools[name] for name in names)


async def run(
    sandbox: Sandbox, command: Sequence[str], *, folder: str, timeout_seconds: float
) -> str:
    """Run a command in ``folder``, where there is one; what to tell the model of it.

    A command that writes too much, or has no end, is killed with all that it started. Raises
    ``ToolError`` then, and what the SDK raises.
    """
    there = ["sh", "-c", CHANGE_FOLDER, folder, *command]
    result = await _finished(sandbox, there, timeout_seconds=timeout_seconds)
    return observations.of_run(result.returncode, result.stdout, result.stderr)


async def _finished(
    sandbox: Sandbox, command: Sequence[str], *, timeout_seconds: float
) -> ProcessResult:
    from cwsandbox import SandboxTimeoutError

    process = sandbox.exec(command, timeout_seconds=timeout_seconds)
    kept = [_Kept(process, stream) for stream in (process.stdout, process.stderr)]
    # Watched as it comes: the SDK keeps any amount. Streams of a command that never began do not
    # end, only ``process`` does.
    watching = [unheard(stream.fill()) for stream in kept]
    try:
        return await answered(logged(ROLLOUTS, sandbox, process), timeout_seconds)
    except asyncio.CancelledError:
        if not any(stream.full for stream in kept):
            raise
        raise ToolError(
            f"the command was stopped: it wrote more than {STREAM_CHARACTERS >> 20} MiB\n"
            + observations.of_streams(*(stream.text for stream in kept))
        ) from None
    except SandboxTimeoutError as error:
        await asyncio.wait(watching, timeout=REST_SECONDS)
        written = observations.of_streams(*(stream.text for stream in kept))
        raise CommandTimeoutError(
            f"command timed out after {timeout_seconds:g} seconds"
            + (f"; until then it wrote\n{written}" if written else "")
        ) from error
    finally:
        process.cancel()
        for watch, stream in zip(watching, kept, strict=True):
            watch.cancel()
            stream.close()


class _Kept:
    """The beginning of a stream. A process that writes more than fits is stopped."""

    def __init__(self, process: Process, stream: StreamReader[str]) -> None:
        self._process = process
        self._stream = stream
        self._parts: list[str] = []
        self.full = False

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def close(self) -> None:
        """Release what waits for more, in the SDK's own loop too."""
        self._stream.close()

    async def fill(self) -> None:
        room = STREAM_CHARACTERS
        async for part in self._stream:
            self._parts.append(part[:room])
            if len(part) > room:
                self.full = True
                self._process.cancel()
                return
            room -= len(part)


async def _placed(sandbox: Sandbox, content: bytes, timeout_seconds: float) -> str:
    path = f"/tmp/{uuid.uuid4().hex}"  # noqa: S108 - inside the sandbox
    writing = sandbox.write_file(path, content, timeout_seconds=timeout_seconds)
    await answered(writing, timeout_seconds)
    return path


def _absolute(path: str, folder: str) -> str:
    if not path or "\0" in path:
        raise ToolError(f"{path[:100]!r} is no path")
    absolute = posixpath.join(folder, path)
    encoded = absolute.encode("utf-8", "replace")
    if len(encoded) > PATH_BYTES:
        raise ToolError(f"the path has {len(encoded)} bytes; at most {PATH_BYTES} can be used")
    if (longest := max(map(len, encoded.split(b"/")))) > NAME_BYTES:
        raise ToolError(f"a name in the path has {longest} bytes; no more than {NAME_BYTES} exist")
    return absolute
