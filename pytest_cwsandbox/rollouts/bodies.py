"""The body of an answer: decoded, and never longer than anybody needs."""

from __future__ import annotations

import zlib
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from pytest_cwsandbox.rollouts.failures import unreadable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, MutableMapping

LONGEST = 64 << 20  # bytes; a hundred times the longest answer of any model
UNASKED = {"Accept-Encoding": "identity"}  # a bomb of a few kilobytes unpacks to gigabytes
PACKED = {"gzip", "x-gzip", "deflate"}
GZIP_OR_ZLIB = 47  # zlib tells them apart


class Stream(Protocol):
    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None: ...


class Response(Protocol):
    """What httpx, with openai 2, and httpx2, with openai 3, have in common."""

    headers: MutableMapping[str, str]
    stream: Stream


async def read_body(response: Response) -> None:
    """Read an answer, also one that reports an error, before the client does.

    The client would unpack whatever comes. Raises ``BadAnswerError``.
    """
    packing = response.headers.get("content-encoding", "").strip().lower()
    if packing not in {"", "identity", *PACKED}:
        raise unreadable(f"the answer is packed as {packing[:40]!r}, which nobody asked for")
    content = await _content(response.stream, is_packed=packing in PACKED)
    await response.stream.aclose()  # which gives the connection back
    response.headers.pop("content-encoding", None)
    package = type(response).__module__.partition(".")[0]
    response.stream = import_module(package).ByteStream(content)


async def _content(stream: Stream, *, is_packed: bool) -> bytes:
    unpacker = zlib.decompressobj(GZIP_OR_ZLIB)
    content = bytearray()
    async for chunk in stream:
        try:
            content += (
                unpacker.decompress(chunk, LONGEST + 1 - len(content)) if is_packed else chunk
            )
        except zlib.error:
            raise unreadable("the answer cannot be unpacked") from None
        if len(content) > LONGEST:
            raise unreadable(f"the answer is longer than {LONGEST >> 20} MiB")
        if unpacker.eof:
            break  # the rest is not packed, and would pile up
    return bytes(content)
