"""An OpenAI-compatible HTTP server on loopback, with the scripts behind it."""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import secrets
import signal
from collections import Counter
from typing import TYPE_CHECKING

from aiohttp import web
from pydantic import ValidationError

from pytest_cwsandbox.rollouts.scripted import plans
from pytest_cwsandbox.rollouts.scripted.chat import ChatRequest
from pytest_cwsandbox.rollouts.scripted.failure import ApiError, invalid
from pytest_cwsandbox.rollouts.scripted.responses import ResponsesRequest
from pytest_cwsandbox.rollouts.scripted.scripts import SCRIPTS, answer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from pytest_cwsandbox.rollouts.scripted.conversation import Answer, Conversation

    Handler = Callable[[web.Request], Awaitable[web.Response]]

BODY_BYTES = 256 << 20
SLOW_SECONDS = 1.0
RATE_LIMITED = 2  # requests of a conversation
RETRY_SECONDS = 0.05
CLOSE_SECONDS = 0.1


async def serve(rendezvous: Path, lifeline: int, latency: float) -> None:
    """Serve until the lifeline becomes readable or a signal comes. Raises ``OSError``."""
    plans.bundled()
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(lifeline, over.set)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    token = secrets.token_urlsafe(32)
    runner = web.AppRunner(
        application(token, latency), access_log=None, shutdown_timeout=CLOSE_SECONDS
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        address = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        _announce(rendezvous, {"address": address, "token": token, "pid": os.getpid()})
        await over.wait()
    finally:
        loop.remove_reader(lifeline)
        await runner.cleanup()


def application(token: str, latency: float) -> web.Application:
    app = web.Application(client_max_size=BODY_BYTES)
    api = _Api(token, latency)
    app.router.add_post("/v1/chat/completions", api.guarded(api.chat))
    app.router.add_post("/v1/responses", api.guarded(api.responses))
    app.router.add_get("/v1/models", api.guarded(api.models))
    return app


class _Api:
    def __init__(self, token: str, latency: float) -> None:
        self._authorization = f"Bearer {token}".encode()
        self._latency = latency
        self._refused: Counter[int] = Counter()

    def guarded(self, handler: Handler) -> Handler:
        """The same behind the token, and with failures told as OpenAI tells them."""

        async def guarded(request: web.Request) -> web.Response:
            try:
                given = request.headers.get("Authorization", "").encode()
                if not hmac.compare_digest(given, self._authorization):
                    raise ApiError(401, "invalid_api_key", "Incorrect API key provided.")
                return await handler(request)
            except ApiError as error:
                return web.json_response(error.body, status=error.status, headers=error.headers)
            except ValidationError as error:
                first = error.errors(include_url=False, include_input=False)[0]
                where = ".".join(map(str, first["loc"])) or "body"
                refused = invalid(f"Invalid request: {where}: {first['msg']}")
                return web.json_response(refused.body, status=refused.status)

        return guarded

    async def chat(self, request: web.Request) -> web.Response:
        body = ChatRequest.model_validate_json(await request.read())
        conversation = body.conversation()
        answered = await self._answer(body.model, conversation, stream=body.stream)
        return web.json_response(body.completion(conversation, answered))

    async def responses(self, request: web.Request) -> web.Response:
        body = ResponsesRequest.model_validate_json(await request.read())
        conversation = body.conversation()
        answered = await self._answer(body.model, conversation, stream=body.stream)
        return web.json_response(body.response(conversation, answered))

    async def models(self, _: web.Request) -> web.Response:
        rows = [
            {"id": name, "object": "model", "created": 0, "owned_by": "pytest-cwsandbox"}
            for name in SCRIPTS
        ]
        return web.json_response({"object": "list", "data": rows})

    async def _answer(
        self, model: str, conversation: Conversation, *, stream: bool | None
    ) -> Answer:
        if stream:
            raise invalid("The scripts do not stream.")
        if model == "scripted-rate-limited":
            self._limit(conversation)
        latency = self._latency
        if model == "scripted-slow":
            latency = latency or SLOW_SECONDS
        if latency:
            await asyncio.sleep(latency)
        return answer(model, conversation)

    def _limit(self, conversation: Conversation) -> None:
        """Refuse the first requests of every conversation."""
        key = hash(conversation.asked)
        if self._refused[key] < RATE_LIMITED:
            self._refused[key] += 1
            raise ApiError(
                429,
                "rate_limit_exceeded",
                "Rate limit reached, please try again.",
                headers={"Retry-After": str(RETRY_SECONDS)},
            )


def _announce(rendezvous: Path, row: dict[str, object]) -> None:
    """Write the file whole, and readable by its owner alone."""
    part = rendezvous.with_name(f"{rendezvous.name}.{os.getpid()}")
    part.touch(mode=0o600, exist_ok=False)  # before the token is in it
    part.write_text(json.dumps(row))
    part.rename(rendezvous)
