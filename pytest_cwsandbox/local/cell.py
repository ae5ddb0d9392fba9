"""The process tree of one sandbox, as the host sees it: bwrap around an agent or a program."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_cwsandbox.local import bwrap, limits

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

# The kernel takes a program's sandbox before the runner when memory runs out.
ENTER_ONE_SHOT = f"echo 800 >/proc/self/oom_score_adj; {ENTER}"

_names = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Main:
    """What runs in a cell without an agent."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    directory: str


class Cell:
    """Started at once; ``socket`` leads to the agent, or is what ``main`` writes to.

    Raises ``OSError``.

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
        main: Main | None = None,
    ) -> None:
        self._memory = memory
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[int] = self._loop.create_future()
        self._group: Group | None = None
        with contextlib.ExitStack() as undo, contextlib.ExitStack() as done:
            if host.cgroups is not None:
                self._group = host.cgroups.create(str(next(_names)), memory, cpus)
                undo.callback(self._group.remove)
            # Not a pipe: whoever may write to one can open it again and take back what it holds.
            kind = socket.SOCK_STREAM if main else socket.SOCK_SEQPACKET
            self.socket, theirs = socket.socketpair(socket.AF_UNIX, kind)
            undo.callback(self.socket.close)
            done.callback(theirs.close)
            self._errors, errors = os.pipe()
            undo.callback(os.close, self._errors)
            done.callback(os.close, errors)
            filters = os.open(host.seccomp, os.O_RDONLY)
            done.callback(os.close, filters)
            mounted = {path: _in_memory(content, done) for path, content in files.items()}
            own = [] if main is None else bwrap.surroundings(main.environment, main.directory)
            last = bwrap.encode([*own, *bwrap.sealed(mounted), "--seccomp", str(filters)])
            options = _in_memory(host.options(image) + last, done)
            command = [str(host.bwrap), "--args", str(options), "--"]
            if main is None:
                command += [str(image.interpreter.executable), *bwrap.AGENT, str(theirs.fileno())]
            else:
                command += [bwrap.INIT, "-c", bwrap.INIT_SCRIPT, "init", *self._rlimits()]
                command += main.command
            if main is not None or self._group is not None:
                entrances = self._group.entrances if self._group else []
                enter = ENTER if main is None else ENTER_ONE_SHOT
                command[:0] = ["/bin/sh", "-c", enter, "sh", *entrances, "--"]
            given = [filters, options, *mounted.values()]
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL if main is None else theirs.fileno(),
                stderr=errors,
                env={},
                cwd="/",
                pass_fds=given if main else [theirs.fileno(), *given],
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

    def kill(self) -> None:
        """End all processes at once."""
        if not self.ended.done():
            self._process.kill()

    def _rlimits(self) -> list[str]:
        """Processes, and KiB of data and of address space where no cgroup counts memory."""
        kib = self._memory >> 10
        memory = ["-", "-"] if self._group else [str(kib), str(kib * limits.ADDRESS_SPACE_FACTOR)]
        return [str(limits.PROCESSES), *memory]

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
