"""The process tree of one sandbox, as the host sees it: bwrap, with an agent inside."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
import subprocess
from typing import TYPE_CHECKING

from pytest_cwsandbox.local import bwrap

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_cwsandbox.local.host import PreparedHost
    from pytest_cwsandbox.local.images import Image
    from pytest_cwsandbox.local.limits import Group

END_SECONDS = 5.0
REMOVE_ATTEMPTS = 400
ERROR_BYTES = 1 << 16
# Enters the cgroups, then becomes bwrap: to move a process afterwards costs ten times as much.
ENTER = 'while [ "$1" != -- ]; do echo 0 >"$1" || exit; shift; done; shift; exec "$@"'

_names = itertools.count(1)


class Cell:
    """Started at once; ``socket`` leads to the agent. Raises ``OSError``.

    Must be made in a thread that outlives it: the kernel kills it when that thread ends.
    ``ended`` resolves to bwrap's exit status: then no process is left.
    """

    def __init__(
        self,
        host: PreparedHost,
        image: Image,
        files: Mapping[str, bytes],
        *,
        memory: int,
        cpus: float | None,
    ) -> None:
        self._memory = memory
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[int] = self._loop.create_future()
        self._group: Group | None = None
        with contextlib.ExitStack() as undo, contextlib.ExitStack() as done:
            if host.cgroups is not None:
                self._group = host.cgroups.create(str(next(_names)), memory, cpus)
                undo.callback(self._group.remove)
            self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            undo.callback(self.socket.close)
            done.callback(theirs.close)
            self._errors, errors = os.pipe()
            undo.callback(os.close, self._errors)
            done.callback(os.close, errors)
            filters = os.open(host.seccomp, os.O_RDONLY)
            done.callback(os.close, filters)
            mounted = {path: _in_memory(content, done) for path, content in files.items()}
            last = bwrap.encode([*bwrap.sealed(mounted), "--seccomp", str(filters)])
            options = _in_memory(host.options(image) + last, done)
            command = [str(host.bwrap), "--args", str(options), "--"]
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
                pass_fds=[theirs.fileno(), filters, options, *mounted.values()],
            )
            undo.pop_all()
        self._pidfd = os.pidfd_open(self._process.pid)
        self._loop.add_reader(self._pidfd, self._reap)

    @property
    def limits_memory(self) -> bool:
        """Whether a cgroup holds the memory of all processes and files together."""
        return self._group is not None

    def reason(self, told: str) -> str:
        """Why it ended, when nobody asked it to; ``told`` is what the agent said of that."""
        os.set_blocking(self._errors, False)
        said = b""
        with contextlib.suppress(BlockingIOError):
            said = os.read(self._errors, ERROR_BYTES)
        if self._group is not None and self._group.ran_out_of_memory():
            return f"out of memory: the limit is {self._memory >> 20} MiB"
        lines = said.decode(errors="replace").split("\n")
        return told or next((line for line in reversed(lines) if line.strip()), "it was killed")

    async def close(self) -> None:
        """Wait for the end, which comes when the agent's socket is closed; clear up."""
        await asyncio.wait((self.ended,), timeout=END_SECONDS)
        if not self.ended.done():
            self._process.kill()
            await self.ended
        os.close(self._errors)
        if self._group is not None:
            for _ in range(REMOVE_ATTEMPTS):  # the kernel needs a moment
                if self._group.remove():
                    break
                await asyncio.sleep(0.005)

    def _reap(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self.ended.set_result(self._process.wait())


def _in_memory(content: bytes, done: contextlib.ExitStack) -> int:
    """A file of this content, by descriptor."""
    fd = os.memfd_create("sandbox")
    done.callback(os.close, fd)
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
