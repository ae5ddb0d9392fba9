"""One sandbox: its main process, its commands, its files."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pytest_cwsandbox.local import images, limits
from pytest_cwsandbox.local.cell import Cell
from pytest_cwsandbox.local.channel import Channel, ClosedError
from pytest_cwsandbox.local.process import Exec, Stream

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_cwsandbox.local.host import PreparedHost

__all__ = ["Exec", "FileError", "LocalSandbox", "Spec", "StartError"]

START = 0  # id of frames about the main process
START_SECONDS = 30.0
MIB = 1 << 20
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "HOSTNAME": "sandbox",
}

FileProblem = Literal["not_found", "is_directory", "permission_denied", "too_large", "io_failed"]
FILE_PROBLEMS: dict[int, FileProblem] = {
    errno.ENOENT: "not_found",
    errno.ENOTDIR: "not_found",
    errno.EISDIR: "is_directory",
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
    errno.EROFS: "permission_denied",
}


class StartError(Exception):
    """A sandbox that did not start; the message is for its user."""


class FileError(Exception):
    """A file that cannot be read or written, and why."""

    def __init__(
        self, kind: FileProblem, path: str, reason: str = "", *, size: int | None = None
    ) -> None:
        super().__init__(f"{path}: {reason or kind.replace('_', ' ')}")
        self.kind = kind
        self.path = path
        self.size = size


@dataclass(frozen=True)
class Spec:
    """What a sandbox is to be. ``files`` are mounted, read-only; limits default to the host's."""

    image: str
    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    working_dir: str = ""
    memory_bytes: int | None = None
    cpus: float | None = None
    one_shot: bool = False


class LocalSandbox:
    """Started by ``start``, ended by ``stop``, by its main process, or by misfortune.

    ``main_exit`` resolves to the main process's exit code, ``died`` to a reason when the sandbox
    ended though neither its main process did nor anybody asked. Belongs to one event loop.
    """

    def __init__(self, spec: Spec, cell: Cell) -> None:
        self._loop = asyncio.get_running_loop()
        self._spec = spec
        self._cell = cell
        self._channel = Channel(cell.socket, self._receive)
        self._ids = itertools.count(START + 1)
        self._execs: dict[int, Exec] = {}
        self._files: dict[int, asyncio.Future[int]] = {}
        self._started: asyncio.Future[None] = self._loop.create_future()
        self._stopping: asyncio.Task[None] | None = None
        self._reason = ""
        self.main_exit: asyncio.Future[int] = self._loop.create_future()
        self.died: asyncio.Future[str] = self._loop.create_future()
        cell.ended.add_done_callback(lambda _: self._cell_ended())

    @classmethod
    async def start(cls, host: PreparedHost, spec: Spec) -> LocalSandbox:
        """Return when the main process runs. Raises ``StartError``."""
        memory = spec.memory_bytes or limits.MEMORY
        try:
            image = host.image(spec.image)
            cell = Cell(host, image, spec.files, memory=memory, cpus=spec.cpus)
        except (images.NoSuchImageError, images.UnusableInterpreterError, OSError) as error:
            raise StartError(str(error)) from error
        sandbox = cls(spec, cell)
        try:
            async with asyncio.timeout(START_SECONDS):
                await sandbox._start_main(memory)
        except BaseException as error:
            await sandbox.stop(0)
            if isinstance(error, TimeoutError):
                message = f"the sandbox was not ready after {START_SECONDS:g} s"
                raise StartError(message) from error
            raise
        return sandbox

    async def exec(
        self, argv: Sequence[str], *, stdin: bool = False, tty: tuple[int, int] | None = None
    ) -> Exec:
        """Start a command; one that cannot be run ends with 127 or 126 and says so on stderr."""
        ident = next(self._ids)
        arguments = [os.fsencode(argument) for argument in argv]
        theirs: list[int] = []
        outputs: dict[int, Stream] = {}
        stdin_end = None
        if tty is not None:
            arguments[:0] = [b"%d" % number for number in tty]
        else:
            if stdin:
                reading, stdin_end = os.pipe()
            else:
                reading = os.open(os.devnull, os.O_RDONLY)
            theirs.append(reading)
            for stream in ("stdout", "stderr"):
                ours, writing = os.pipe()
                theirs.append(writing)
                outputs[ours] = stream
        process = Exec(lambda: self._kill(ident), outputs, stdin_end)
        self._execs[ident] = process
        process.gone.add_done_callback(lambda _: self._execs.pop(ident, None))
        try:
            await self._send(b"X" if tty is None else b"T", ident, arguments, theirs)
            if tty is not None:
                await process.attached()
        except ClosedError:
            process.vanish()
        finally:
            for fd in theirs:
                os.close(fd)
        return process

    async def read_file(self, path: str, max_bytes: int) -> bytes:
        """Raises ``FileError``."""
        fd = await self._open(b"R", path)
        try:
            size = os.fstat(fd).st_size
            if size > max_bytes:
                raise FileError("too_large", path, f"{size} bytes", size=size)
            chunks = []
            left = max_bytes
            while left and (chunk := os.read(fd, min(left, MIB))):
                chunks.append(chunk)
                left -= len(chunk)
                await asyncio.sleep(0)
        except OSError as error:
            raise _file_error(path, error) from error
        finally:
            os.close(fd)
        return b"".join(chunks)

    async def write_file(self, path: str, data: bytes) -> None:
        """Replace a file's content, making directories on the way. Raises ``FileError``."""
        fd = await self._open(b"W", path)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view[:MIB]) :]
                await asyncio.sleep(0)
        except OSError as error:
            raise _file_error(path, error) from error
        finally:
            os.close(fd)

    async def stop(self, grace_seconds: float) -> None:
        """Ask the main process to end, then kill all; returns when nothing is left."""
        await asyncio.shield(self._begin_stop(grace_seconds))

    async def _start_main(self, memory: int) -> None:
        spec = self._spec
        data, address_space = memory, memory * limits.ADDRESS_SPACE_FACTOR
        if self._cell.limits_memory:  # better than what counts each process alone
            data = address_space = -1
        environment = {**ENVIRONMENT, **spec.env}
        fields = (
            *(str(number) for number in (data, address_space, limits.PROCESSES)),
            spec.working_dir or "/",
            str(len(spec.command)),
            *spec.command,
            *(f"{name}={value}" for name, value in environment.items()),
        )
        with contextlib.suppress(ClosedError):  # a bwrap that has failed says why at its end
            await self._send(b"S", START, [os.fsencode(text) for text in fields])
        await self._started

    async def _send(
        self, letter: bytes, ident: int, fields: Sequence[bytes], fds: Sequence[int] = ()
    ) -> None:
        if self._stopping is not None:
            raise ClosedError
        await self._channel.send(letter, ident, fields, fds)

    async def _kill(self, ident: int) -> None:
        with contextlib.suppress(ClosedError):
            await self._send(b"K", ident, [])

    async def _open(self, letter: bytes, path: str) -> int:
        if not path.startswith("/"):
            raise FileError("io_failed", path, "not an absolute path")
        ident = next(self._ids)
        self._files[ident] = opened = self._loop.create_future()
        try:
            await self._send(letter, ident, [os.fsencode(path)])
            fd: int = await opened
        except OSError as error:
            raise _file_error(path, error) from error
        except ClosedError as error:
            raise FileError("io_failed", path, "the sandbox has ended") from error
        finally:
            del self._files[ident]
        if not stat.S_ISREG(os.fstat(fd).st_mode):  # the agent is not trusted with the loop's time
            os.close(fd)
            raise FileError("io_failed", path, "not a regular file")
        return fd

    def _receive(self, letter: bytes, ident: int, payload: bytes, fds: list[int]) -> None:
        """Handle a frame from the agent, and close what nobody has taken of ``fds``."""
        process = self._execs.get(ident)
        opened = self._files.get(ident)
        try:
            if process is not None:
                self._receive_about(process, letter, payload, fds)
            elif opened is not None and not opened.done():
                if letter == b"f":
                    opened.set_result(fds.pop())
                else:
                    opened.set_exception(OSError(int(payload), ""))
            elif ident == START:
                self._receive_main(letter, payload)
        finally:
            for fd in fds:
                os.close(fd)

    def _receive_about(self, process: Exec, letter: bytes, payload: bytes, fds: list[int]) -> None:
        if letter == b"e":
            process.end(int(payload))
        elif letter == b"g":
            process.vanish()
        elif letter == b"t":
            process.attach(fds.pop())

    def _receive_main(self, letter: bytes, payload: bytes) -> None:
        if letter == b"s":
            self._started.set_result(None)
        elif letter == b"m":
            self.main_exit.set_result(int(payload))
            self._begin_stop(0)
        elif letter == b"d":
            self._reason = payload.decode()
        else:
            why = os.strerror(int(payload))
            self._started.set_exception(StartError(f"{self._spec.command[0]!r}: {why}"))

    def _cell_ended(self) -> None:
        if self._stopping is None:
            reason = self._cell.reason(self._reason)
            if self._started.done():
                self.died.set_result(reason)
            else:
                self._started.set_exception(StartError(f"the sandbox did not start: {reason}"))
            self._begin_stop(0)

    def _begin_stop(self, grace_seconds: float) -> asyncio.Task[None]:
        if self._stopping is None:
            self._stopping = self._loop.create_task(self._stop(grace_seconds))
        return self._stopping

    async def _stop(self, grace_seconds: float) -> None:
        if grace_seconds > 0:
            with contextlib.suppress(ClosedError):
                await self._channel.send(b"Q", START, [])
                ends = (self.main_exit, self._cell.ended)
                await asyncio.wait(ends, timeout=grace_seconds, return_when=asyncio.FIRST_COMPLETED)
        self._channel.close()  # at which the agent ends, and with process 1 every other
        await self._cell.close()
        for process in [*self._execs.values()]:
            process.vanish()
        for opened in self._files.values():
            if not opened.done():
                opened.set_exception(ClosedError())


def _file_error(path: str, error: OSError) -> FileError:
    code = error.errno or errno.EIO
    return FileError(FILE_PROBLEMS.get(code, "io_failed"), path, os.strerror(code).lower())
