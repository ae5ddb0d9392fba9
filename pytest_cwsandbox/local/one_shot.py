"""A sandbox that runs its main process and nothing else: cheaper than one with an agent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytest_cwsandbox.local import images, limits
from pytest_cwsandbox.local.cell import Cell, Main
from pytest_cwsandbox.local.sandbox import ENVIRONMENT, StartError

if TYPE_CHECKING:
    from pytest_cwsandbox.local.host import PreparedHost
    from pytest_cwsandbox.local.sandbox import Spec

OUTPUT_BYTES = 40 << 20
CHUNK = 1 << 18
KILLED = 137  # as a shell says it: 128 + SIGKILL


class OneShot:
    """Started at once. ``main_exit``, ``died`` and ``stop`` are as in ``LocalSandbox``.

    ``output`` is what the main process wrote, to standard output and error alike; too much of it
    ends the sandbox, and it is ``truncated``. Raises ``StartError``.
    """

    def __init__(self, host: PreparedHost, spec: Spec) -> None:
        loop = asyncio.get_running_loop()
        self.output = bytearray()
        self.truncated = False
        self.main_exit: asyncio.Future[int] = loop.create_future()
        self.died: asyncio.Future[str] = loop.create_future()
        self._started = False
        main = Main(spec.command, {**ENVIRONMENT, **spec.env}, spec.working_dir or "/")
        memory = spec.memory_bytes or limits.MEMORY
        try:
            self._cell = Cell(
                host, host.image(spec.image), spec.files, memory=memory, cpus=spec.cpus, main=main
            )
        except (images.NoSuchImageError, images.UnusableInterpreterError, OSError) as error:
            raise StartError(str(error)) from error
        self._loop = loop
        self._cell.socket.setblocking(False)
        loop.add_reader(self._cell.socket, self._read)
        self._cell.ended.add_done_callback(lambda ended: self._end(ended.result()))

    async def stop(self, _: float) -> None:
        """Kill all; returns when nothing is left."""
        self._cell.kill()
        await self._cell.close()

    def _read(self) -> bool:
        """Take what there is; whether there may be more."""
        try:
            data = self._cell.socket.recv(CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._loop.remove_reader(self._cell.socket)
            return False
        if not self._started:  # the first byte is process 1's
            self._started, data = True, data[1:]
        self.output += data
        if len(self.output) > OUTPUT_BYTES:
            self.truncated = True
            del self.output[OUTPUT_BYTES:]
            self._loop.remove_reader(self._cell.socket)
            self._cell.kill()
            return False
        return True

    def _end(self, status: int) -> None:
        while not self.truncated and self._read():
            pass
        self._loop.remove_reader(self._cell.socket)
        self._cell.socket.close()
        if self._started:
            self.main_exit.set_result(status if status >= 0 else KILLED)
        else:
            self.died.set_result(f"the sandbox did not start: {self._cell.reason('')}")
