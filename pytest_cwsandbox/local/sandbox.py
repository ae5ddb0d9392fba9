"""The host's side of one sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import os
import socket
import stat
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pytest_cwsandbox.local import bwrap, images, limits
from pytest_cwsandbox.local.channel import Channel, ClosedError
from pytest_cwsandbox.local.process import Exec, Stream

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_cwsandbox.local.host import PreparedHost
    from pytest_cwsandbox.local.limits import Group

__all__ = ["Exec", "FileError", "LocalSandbox", "Spec", "StartError"]

START = 0  # id of frames about the main process
START_SECONDS = 30.0
END_SECONDS = 5.0
REMOVE_ATTEMPTS = 400
MIB = 1 << 20
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "HOSTNAME": "sandbox",
}
# Enters the cgroups, then becomes bwrap: to move a process afterwards costs ten times as much.
ENTER = 'while [ "$1" != -- ]; do echo 0 >"$1" || exit; shift; done; shift; exec "$@"'

FileProblem = Literal["not_found", "is_directory", "permission_denied", "too_large", "io_failed"]
FILE_PROBLEMS: dict[int, FileProblem] = {
    errno.ENOENT: "not_found",
    errno.ENOTDIR: "not_found",
    errno.EISDIR: "is_directory",
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
    errno.EROFS: "permission_denied",
}

_names = itertools.count(1)


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


class LocalSandbox:
    """Started by ``start``, ended by ``stop``, by its main process, or by misfortune.

    ``main_exit`` resolves to the main process's exit code, ``died`` to a reason when the sandbox
    ended though neither its main process did nor anybody asked. Belongs to one event loop.
    """

    def __init__(self, host: PreparedHost, spec: Spec) -> None:
        self._loop = asyncio.get_running_loop()
        self._host = host
        self._spec = spec
        self._memory = spec.memory_bytes or limits.MEMORY
        self._ids = itertools.count(1)
        self._execs: dict[int, Exec] = {}
        self._files: dict[int, asyncio.Future[int]] = {}
        self._started: asyncio.Future[None] = self._loop.create_future()
        self._gone: asyncio.Future[int] = self._loop.create_future()  # bwrap's exit status
        self._stopping: asyncio.Task[None] | None = None
        self._reason = ""
        self._group: Group | None = None
        self.main_exit: asyncio.Future[int] = self._loop.create_future()
        self.died: asyncio.Future[str] = self._loop.create_future()

    @classmethod
    async def start(cls, host: PreparedHost, spec: Spec) -> LocalSandbox:
        """Return when the main process runs. Raises ``StartError``."""
        sandbox = cls(host, spec)
        try:
            image = host.image(spec.image)
        except (images.NoSuchImageError, images.UnusableInterpreterError) as error:
            raise StartError(str(error)) from error
        try:
            sandbox._spawn(image)
        except OSError as error:
            if sandbox._group is not None:
                sandbox._group.remove()
            raise StartError(f"bubblewrap could not be started: {error}") from error
        try:
            async with asyncio.timeout(START_SECONDS):
                await sandbox._begin()
        except TimeoutError:
            await sandbox.stop(0)
            raise StartError(f"the sandbox was not ready after {START_SECONDS:g} s") from None
        except BaseException:
            await sandbox.stop(0)
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
        if tty is None:
            if stdin:
                reading, stdin_end = os.pipe()
            else:
                reading = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            theirs.append(reading)
            for stream in ("stdout", "stderr"):
                ours, writing = os.pipe()
                theirs.append(writing)
                outputs[ours] = stream
        else:
            arguments[:0] = [b"%d" % number for number in tty]
        process = Exec(lambda: self._kill(ident), outputs, stdin_end)
        self._execs[ident] = process
        process.gone.add_done_callback(lambda _: self._execs.pop(ident, None))
        try:
            if self._stopping is not None:
                raise ClosedError
            await self._channel.send(b"X" if tty is None else b"T", ident, arguments, theirs)
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
            raise _file_error(path, error.errno) from error
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
            raise _file_error(path, error.errno) from error
        finally:
            os.close(fd)

    async def stop(self, grace_seconds: float) -> None:
        """Ask the main process to end, then kill all; returns when nothing is left."""
        await asyncio.shield(self._begin_stop(grace_seconds))

    def _spawn(self, image: images.Image) -> None:
        if self._host.cgroups is not None:
            name = str(next(_names))
            self._group = self._host.cgroups.create(name, self._memory, self._spec.cpus)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._errors, errors = os.pipe()
        passed = [theirs.fileno()]
        try:
            files = {}
            for path, content in self._spec.files.items():
                files[path] = _in_memory(content)
                passed.append(files[path])
            filters = os.open(self._host.seccomp, os.O_RDONLY)
            passed.append(filters)
            options = [*self._host.arguments(image), "--seccomp", str(filters)]
            options += bwrap.sealed(files)
            arguments = _in_memory(b"".join(option.encode() + b"\0" for option in options))
            passed.append(arguments)
            command = [str(self._host.bwrap), "--args", str(arguments), "--"]
            command += [str(image.interpreter.executable), *bwrap.AGENT, str(theirs.fileno())]
            if self._group is not None:
                command[:0] = ["/bin/sh", "-c", ENTER, "sh", *self._group.entrances, "--"]
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={},
                cwd="/",
                pass_fds=passed,
            )
        except BaseException:
            ours.close()
            os.close(self._errors)
            raise
        finally:
            theirs.close()
            for fd in (errors, *passed[1:]):
                os.close(fd)
        self._pidfd = os.pidfd_open(self._process.pid)
        self._loop.add_reader(self._pidfd, self._bwrap_ended)
        self._channel = Channel(ours, self._receive)

    async def _begin(self) -> None:
        spec = self._spec
        if self._group is None:
            data, address_space = self._memory, self._memory * limits.ADDRESS_SPACE_FACTOR
        else:
            data = address_space = -1
        numbers = (data, address_space, limits.PROCESSES)
        environment = {**ENVIRONMENT, **spec.env}
        texts = [
            *(str(number) for number in numbers),
            spec.working_dir or "/",
            str(len(spec.command)),
            *spec.command,
            *(f"{name}={value}" for name, value in environment.items()),
        ]
        # A bwrap that has failed says why at its end.
        with contextlib.suppress(ClosedError):
            await self._channel.send(b"S", START, [os.fsencode(text) for text in texts])
        await self._started

    async def _open(self, letter: bytes, path: str) -> int:
        if not path.startswith("/"):
            raise FileError("io_failed", path, "not an absolute path")
        ident = next(self._ids)
        opened: asyncio.Future[int] = self._loop.create_future()
        self._files[ident] = opened
        try:
            if self._stopping is not None:
                raise ClosedError
            await self._channel.send(letter, ident, [os.fsencode(path)])
            fd = await opened
        except OSError as error:
            raise _file_error(path, error.errno) from error
        except ClosedError as error:
            raise FileError("io_failed", path, "the sandbox has ended") from error
        finally:
            del self._files[ident]
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise FileError("io_failed", path, "not a regular file")
        return fd

    async def _kill(self, ident: int) -> None:
        with contextlib.suppress(ClosedError):
            await self._channel.send(b"K", ident, [])

    def _receive(self, letter: bytes, ident: int, payload: bytes, fds: list[int]) -> None:
        """Handle a frame from the agent."""
        process = self._execs.get(ident)
        opened = self._files.get(ident)
        if letter == b"s":
            self._started.set_result(None)
        elif letter == b"m":
            self.main_exit.set_result(int(payload))
            self._begin_stop(0)
        elif letter == b"e" and process:
            process.end(int(payload))
        elif letter == b"g" and process:
            process.vanish()
        elif letter == b"t" and process:
            process.attach(fds.pop())
        elif letter == b"f" and opened and not opened.done():
            opened.set_result(fds.pop())
        elif letter == b"!" and ident == START:
            why = os.strerror(int(payload))
            self._started.set_exception(StartError(f"{self._spec.command[0]!r}: {why}"))
        elif letter == b"!" and opened and not opened.done():
            opened.set_exception(OSError(int(payload), ""))
        elif letter == b"d":
            self._reason = payload.decode()
        for fd in fds:
            os.close(fd)

    def _bwrap_ended(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._gone.set_result(self._process.wait())
        if not self._started.done():
            self._started.set_exception(StartError(f"bubblewrap: {self._why()}"))
        elif self._stopping is None:
            self.died.set_result(self._why())
        self._begin_stop(0)

    def _why(self) -> str:
        """Why the sandbox ended by itself."""
        os.set_blocking(self._errors, False)
        with contextlib.suppress(BlockingIOError):
            written = os.read(self._errors, 1 << 16).decode(errors="replace").strip()
            self._reason = self._reason or written.rpartition("\n")[2]
        if self._group is not None and self._group.ran_out_of_memory():
            return f"out of memory: its limit is {self._memory >> 20} MiB"
        return self._reason or f"killed (status {self._gone.result()})"

    def _begin_stop(self, grace_seconds: float) -> asyncio.Task[None]:
        if self._stopping is None:
            self._stopping = self._loop.create_task(self._stop(grace_seconds))
        return self._stopping

    async def _stop(self, grace_seconds: float) -> None:
        if grace_seconds > 0 and not self._gone.done():
            with contextlib.suppress(ClosedError):
                await self._channel.send(b"Q", 0, [])
            ends = (self.main_exit, self._gone)
            await asyncio.wait(ends, timeout=grace_seconds, return_when=asyncio.FIRST_COMPLETED)
        self._channel.close()  # at which the agent ends, and with process 1 every other
        await asyncio.wait((self._gone,), timeout=END_SECONDS)
        if not self._gone.done():
            self._process.kill()
            await self._gone
        for process in [*self._execs.values()]:
            process.vanish()
        for opened in self._files.values():
            if not opened.done():
                opened.set_exception(ClosedError())
        os.close(self._errors)
        if self._group is not None:
            await _remove(self._group)


async def _remove(group: Group) -> None:
    for _ in range(REMOVE_ATTEMPTS):
        if group.remove():
            return
        await asyncio.sleep(0.005)


def _in_memory(content: bytes) -> int:
    fd = os.memfd_create("sandbox")
    with open(fd, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _file_error(path: str, code: int | None) -> FileError:
    code = code or errno.EIO
    return FileError(FILE_PROBLEMS.get(code, "io_failed"), path, os.strerror(code).lower())
