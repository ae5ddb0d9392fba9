"""A command that runs in a sandbox: its output is read here, straight from its pipes."""

from __future__ import annotations

import array
import asyncio
import errno
import fcntl
import os
import struct
import termios
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

CHUNK = 1 << 16
# For output of background children that outlive the command and hold its pipes.
GRACE_SECONDS = 0.25
END_OF_TRANSMISSION = b"\x04"  # what a terminal takes for the end of input

Stream = Literal["stdout", "stderr"]


class Exec:
    """Iterate to get the output, as it comes. Nothing is buffered: who is not read has to wait.

    ``returncode`` is valid after iteration: 128 + signal for a signal, None when the sandbox ended
    before the command did.
    """

    def __init__(
        self, kill: Callable[[], Awaitable[None]], outputs: dict[int, Stream], stdin: int | None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._kill = kill
        self._outputs = outputs
        self._stdin = stdin
        self._terminal: int | None = None
        self._wake: asyncio.Future[None] | None = None
        self._grace_ends: float | None = None
        self._iterated = False
        self.returncode: int | None = None
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.gone: asyncio.Future[None] = self._loop.create_future()  # with all descendants
        self._attached: asyncio.Future[None] = self._loop.create_future()
        for fd in (*outputs, *([] if stdin is None else [stdin])):
            os.set_blocking(fd, False)

    def attach(self, terminal: int) -> None:
        """Take the other side of the command's terminal: input and output in one."""
        os.set_blocking(terminal, False)
        self._terminal = self._stdin = terminal
        self._outputs[terminal] = "stdout"
        self._attached.set_result(None)

    async def attached(self) -> None:
        """Wait for the terminal, or the news that there will be none."""
        await asyncio.wait((self._attached, self.ended), return_when=asyncio.FIRST_COMPLETED)

    def vanish(self) -> None:
        """Nothing of the command is left; if it has not ended, its sandbox has."""
        self.end(None)
        if not self.gone.done():
            self.gone.set_result(None)

    def end(self, returncode: int | None) -> None:
        """The command itself has ended."""
        if not self.ended.done():
            self.returncode = returncode
            self._grace_ends = self._loop.time() + GRACE_SECONDS
            self.ended.set_result(None)
            self._resume()
            if returncode is None and not self._iterated:
                self.close()

    async def __aiter__(self) -> AsyncIterator[tuple[Stream, bytes]]:
        self._iterated = True
        try:
            while self._outputs or not self.ended.done():
                if self._grace_ends is not None and self._loop.time() >= self._grace_ends:
                    for fd, stream in [*self._outputs.items()]:
                        for rest in _rest(fd):
                            yield stream, rest
                    break
                waiting = True
                for fd, stream in [*self._outputs.items()]:
                    data = _read(fd, CHUNK)
                    if data is None:
                        continue
                    waiting = False
                    if data:
                        yield stream, data
                    else:
                        self._finish(fd)
                if waiting:
                    await self._wait()
        finally:
            self.close()

    async def write_stdin(self, data: bytes) -> None:
        """Returns when the pipe has taken all; what a command does not want is dropped."""
        view = memoryview(data)
        while view and self._stdin is not None:
            fd = self._stdin
            try:
                view = view[os.write(fd, view) :]
            except BlockingIOError:
                await self._writable(fd)
                if self.ended.done():
                    return
            except OSError:  # nobody reads any more
                await self.close_stdin()

    async def close_stdin(self) -> None:
        if self._terminal is not None:
            await self.write_stdin(END_OF_TRANSMISSION)
        elif self._stdin is not None:
            fd, self._stdin = self._stdin, None
            self._loop.remove_writer(fd)
            os.close(fd)

    async def resize(self, width: int, height: int) -> None:
        if self._terminal is not None:
            size = struct.pack("HHHH", height, width, 0, 0)
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)

    async def kill(self) -> None:
        """Kill the command and all that descends from it; returns when they are gone."""
        if not self.gone.done():
            await self._kill()
            await asyncio.wait((self.gone,))

    def close(self) -> None:
        """Let go of the pipes."""
        for fd in [*self._outputs]:
            self._finish(fd)
        if self._stdin is not None:
            self._loop.remove_writer(self._stdin)
            os.close(self._stdin)
        self._stdin = self._terminal = None

    def _finish(self, fd: int) -> None:
        del self._outputs[fd]
        if fd != self._terminal:  # which is still written to
            os.close(fd)

    async def _wait(self) -> None:
        """Until there is output, or the command has ended, or the grace after that is over."""
        self._wake = wake = self._loop.create_future()
        fds = [*self._outputs]
        for fd in fds:
            self._loop.add_reader(fd, _set, wake)
        timer = self._grace_ends and self._loop.call_at(self._grace_ends, _set, wake)
        try:
            await wake
        finally:
            if timer:
                timer.cancel()
            for fd in fds:
                self._loop.remove_reader(fd)

    async def _writable(self, fd: int) -> None:
        """Until the pipe takes more, or the command has ended."""
        writable = self._loop.create_future()
        self._loop.add_writer(fd, _set, writable)
        try:
            await asyncio.wait((writable, self.ended), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._loop.remove_writer(fd)

    def _resume(self) -> None:
        if self._wake is not None:
            _set(self._wake)


def _read(fd: int, size: int) -> bytes | None:
    """What there is; empty at the end, None when there is nothing yet."""
    try:
        return os.read(fd, size)
    except BlockingIOError:
        return None
    except OSError as error:
        if error.errno == errno.EIO:  # a terminal that nobody has open any more
            return b""
        raise


def _rest(fd: int) -> list[bytes]:
    """What the pipe holds at this moment: a background child may never stop writing."""
    held = array.array("i", [0])
    fcntl.ioctl(fd, termios.FIONREAD, held)
    chunks = []
    while held[0] > 0 and (data := _read(fd, min(held[0], CHUNK))):
        chunks.append(data)
        held[0] -= len(data)
    return chunks


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
