"""A policy: whatever continues a conversation. An endpoint, a trainer's model, a plain function."""

from __future__ import annotations

import asyncio
import inspect
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from pytest_cwsandbox.rollouts.messages import AssistantMessage, Message, ToolDefinition


@dataclass(frozen=True, slots=True)
class Generation:
    """One answer of a policy.

    ``finish_reason`` is Chat Completions' word, "" when unknown. Token counts are of this request:
    prompt in, answer out. ``logprobs`` has the form of a Chat Completions choice; token ids come
    from endpoints that return them.
    """

    message: AssistantMessage
    finish_reason: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    logprobs: dict[str, object] | None = None
    token_ids: tuple[int, ...] | None = None
    prompt_token_ids: tuple[int, ...] | None = None


# A policy adds to it why a request failed that it sends again. When an episode's time is up during
# such retries, the endpoint is to blame and not the model.
FAILED_ATTEMPTS: ContextVar[list[str] | None] = ContextVar("failed_attempts", default=None)


class Policy(Protocol):
    """Continues a conversation.

    ``generate`` raises ``ModelError`` when the endpoint failed after its retries,
    ``ContextExceededError`` when the conversation is too long for the model, and ``EndpointError``
    when no request can succeed.
    """

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition]
    ) -> Generation | AssistantMessage: ...


if TYPE_CHECKING:
    Said = Generation | AssistantMessage | str
    PolicyFunction = Callable[[Sequence[Message], Sequence[ToolDefinition]], Said | Awaitable[Said]]


def as_policy(policy: Policy | PolicyFunction) -> Policy:
    """A policy as it is, or a plain function as one."""
    return policy if hasattr(policy, "generate") else FunctionPolicy(policy)


class FunctionPolicy:
    """A plain function, sync or async, of messages and tools; a text is an answer without calls.

    A sync one, such as a model in this process, runs in a thread of its own, one call at a time:
    ``turn`` is what an episode waits for before its own time begins.
    """

    def __init__(self, function: PolicyFunction) -> None:
        self._function = function
        self.name = getattr(function, "__name__", type(function).__name__)
        named = function if inspect.isroutine(function) else type(function).__call__
        self._is_async = inspect.iscoroutinefunction(named)
        self._turn = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="cwsandbox-policy")

    def turn(self) -> AbstractAsyncContextManager[None]:
        return nullcontext() if self._is_async else self._turn

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition]
    ) -> Generation | AssistantMessage:
        if self._is_async:
            answer = self._function(messages, tools)
        else:
            loop = asyncio.get_running_loop()
            answer = await loop.run_in_executor(self._thread, self._function, messages, tools)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, str):
            return {"role": "assistant", "content": answer}
        return answer
