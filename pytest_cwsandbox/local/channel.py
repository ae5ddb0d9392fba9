"""The host's end of the socket to an agent; ``agent.py`` says what the frames mean."""

from __future__ import annotations

import array
import asyncio
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FRAME = 1 << 16
HEADER = 5


class ClosedError(Exception):
    """The agent is gone, or has been told to go."""


class Channel:
    """``receive`` gets every frame as letter, id, payload and descriptors."""

    def __init__(
        self,
        sock: socket.socket,
        receive: Callable[[bytes, int, bytes, list[int]], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._receive = receive
        self._sending = asyncio.Lock()
        sock.setblocking(False)
        self._loop.add_reader(sock, self._readable)

    async def send(
        self, letter: bytes, ident: int, fields: Sequence[bytes], fds: Sequence[int] = ()
    ) -> None:
        payload = b"\0".join(fields)
        header = ident.to_bytes(4, "little")
        limit = FRAME - HEADER
        async with self._sending:
            while len(payload) > limit:
                await self._send(b"+" + header + payload[:limit], ())
                payload = payload[limit:]
            await self._send(letter + header + payload, fds)

    def close(self) -> None:
        if self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock)
            self._loop.remove_writer(self._sock)
            self._sock.close()

    async def _send(self, frame: bytes, fds: Sequence[int]) -> None:
        rights = array.array("i", fds)
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if fds else []
        while True:
            try:
                self._sock.sendmsg([frame], ancillary)
            except BlockingIOError:
                writable = self._loop.create_future()
                self._loop.add_writer(self._sock, _wake, writable)
                try:
                    await writable
                finally:
                    if self._sock.fileno() >= 0:
                        self._loop.remove_writer(self._sock)
            except OSError as error:
                raise ClosedError from error
            else:
                return

    def _readable(self) -> None:
        while self._sock.fileno() >= 0:
            try:
                frame, ancillary, _, _ = self._sock.recvmsg(
                    FRAME, socket.CMSG_SPACE(4 * 4), socket.MSG_CMSG_CLOEXEC
                )
            except BlockingIOError:
                return
            except OSError:  # reset: the agent ended with frames unread
                frame, ancillary = b"", []
            if not frame:
                self.close()
                return
            fds = array.array("i")
            for _, _, data in ancillary:
                fds.frombytes(data)
            ident = int.from_bytes(frame[1:HEADER], "little")
            self._receive(frame[:1], ident, frame[HEADER:], list(fds))


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
