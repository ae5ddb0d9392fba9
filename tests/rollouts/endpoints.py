"""An endpoint on loopback that answers what a test tells it to, down to the bytes."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

HANG = b"(never answer)"
CLOSE = b""
TRICKLE = b"(a byte now and then)"


def reply(
    body: object = "", *, status: int = 200, kind: str = "application/json", **headers: str
) -> bytes:
    """Build an HTTP response; a body that is no text and no bytes goes out as JSON."""
    if isinstance(body, str):
        content = body.encode()
    elif isinstance(body, bytes):
        content = body
    else:
        content = json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Said", f"Content-Type: {kind}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    lines += [f"Content-Length: {len(content)}", "", ""]
    return "\r\n".join(lines).encode() + content


def failure(status: int, message: str = "it broke", **error: object) -> bytes:
    """Build an error in OpenAI's form that asks to be tried again at once."""
    body = {"error": {"message": message, "type": "an_error", **error}}
    return reply(body, status=status, retry_after_ms="1")


@dataclass
class Endpoint:
    """Answers one request after the other with ``replies``, the last one for ever."""

    replies: list[bytes]
    port: int = 0
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            answer = self.replies[min(len(self.bodies), len(self.replies) - 1)]
            self.paths.append(head[0].split()[1])
            self.headers.append(headers)
            self.bodies.append(json.loads(body))
            self.asked.set()
            if answer == HANG:
                await reader.read()  # until the client has had enough
            if answer == TRICKLE:
                await self._trickle(writer)
            writer.write(b"" if answer in {HANG, TRICKLE} else answer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client went away, as some tests make it
        finally:
            writer.close()

    async def _trickle(self, writer: asyncio.StreamWriter) -> None:
        writer.write(reply(b" " * 500)[:-500])
        for _ in range(500):  # ten seconds
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.02)


@asynccontextmanager
async def endpoint(*replies: bytes) -> AsyncIterator[Endpoint]:
    served = Endpoint(list(replies))
    server = await asyncio.start_server(served.answer, "127.0.0.1", 0, limit=2**20)
    served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        server.close()


def chat_answer(
    content: object = "hello", *, finish: str = "stop", **message: object
) -> dict[str, object]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "toy",
        "choices": [
            {
                "index": 0,
                "finish_reason": finish,
                "message": {"role": "assistant", "content": content, **message},
            }
        ],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    }


def chat_call(
    identity: object, name: object = "execute_code", arguments: object = '{"code": "1"}'
) -> dict[str, object]:
    return {
        "id": identity,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def responses_answer(
    *items: dict[str, object], status: str = "completed", **fields: object
) -> dict[str, object]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "toy",
        "status": status,
        "output": list(items),
        "usage": {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10},
        **fields,
    }


def responses_text(text: str = "hello") -> dict[str, object]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


def responses_call(
    identity: object, name: object = "execute_code", arguments: object = '{"code": "1"}'
) -> dict[str, object]:
    return {
        "type": "function_call",
        "call_id": identity,
        "name": name,
        "arguments": arguments,
        "status": "completed",
    }


def answer(api: str, text: str = "hello") -> bytes:
    """Build the plain answer of either API."""
    body = chat_answer(text) if api == "chat" else responses_answer(responses_text(text))
    return reply(body)
