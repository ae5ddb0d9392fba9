"""One OpenAI-compatible endpoint: its connections, its retries, and what its failures mean."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Protocol, Self
from urllib.parse import urlsplit

from pytest_cwsandbox.errors import ModelError
from pytest_cwsandbox.rollouts import attempts
from pytest_cwsandbox.rollouts.bodies import UNASKED, read_body
from pytest_cwsandbox.rollouts.failures import (
    NOBODY_THERE,
    SILENCE,
    BadAnswerError,
    Fault,
    judge,
    unreadable,
)
from pytest_cwsandbox.rollouts.policy import Generation
from pytest_cwsandbox.rollouts.reading import decode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from openai import AsyncOpenAI

    from pytest_cwsandbox.errors import HarnessError
    from pytest_cwsandbox.rollouts.messages import Message, ToolDefinition
    from pytest_cwsandbox.rollouts.model import ModelOptions

NO_KEY = "no-key"  # servers of one's own ask for none, the client insists on one


class RawAnswer(Protocol):
    """What the client hands out before it reads an answer."""

    @property
    def content(self) -> bytes: ...


@dataclass(slots=True)
class ReadAnswer:
    """An answer that its client has read already."""

    content: bytes


class Endpoint:
    """What all samples of one model share; ``options`` say where it is and with which key.

    A client belongs to the event loop that it was used on, so there is one for each. With
    ``client``, somebody else's, that one is used, and not closed.
    """

    def __init__(
        self, options: ModelOptions, *, is_openai: bool, client: AsyncOpenAI | None = None
    ) -> None:
        parts = urlsplit(options.base_url)
        self.is_openai = is_openai
        address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        self.where = f"{options.model} at {address}"  # without the password that it may hold
        self._base_url = options.base_url
        self._api_key = options.api_key
        self._on_loopback = parts.hostname in {"localhost", "127.0.0.1", "::1"}
        self._options = options
        self.answered = False
        self.given = client
        self._clients: dict[asyncio.AbstractEventLoop, AsyncOpenAI] = {}

    async def ask(
        self,
        send: Callable[[AsyncOpenAI], Awaitable[RawAnswer]],
        read: Callable[[dict[str, object]], Generation],
    ) -> Generation:
        """Send until an answer can be read, or raise what the failure means.

        What the client would send again is sent again here, together with answers of status 200
        that cannot be read, out of one budget: an episode is told of each failure as it happens.
        """
        for attempt in count():
            outcome = self._judged(await self._attempt(send, read))
            if isinstance(outcome, Generation):
                self.answered = True
                return outcome
            fault, meaning = outcome
            can_pass = isinstance(meaning, ModelError) or fault.code == NOBODY_THERE
            if attempt >= self._options.retries or not (fault.passes and can_pass):
                raise meaning
            attempts.note(fault.said)
            await asyncio.sleep(attempts.pause(attempt, fault.wait))
            # The model may think long now, but one that stays silent has had its time.
            if fault.code != SILENCE:
                attempts.forget()
        raise AssertionError("not reached")

    async def _attempt(
        self,
        send: Callable[[AsyncOpenAI], Awaitable[RawAnswer]],
        read: Callable[[dict[str, object]], Generation],
    ) -> Generation | Fault:
        """Send once. The client's own errors end here: they may quote the key."""
        from openai import OpenAIError

        try:
            # The client's own limit begins anew with every byte.
            async with asyncio.timeout(self._options.timeout_seconds):
                answer = await send(self._client())
            return self._read(answer.content, read)
        except TimeoutError:
            return Fault.silence()
        except OpenAIError as error:
            if isinstance(error.__cause__, BadAnswerError):  # openai 2 wraps what is raised inside
                return error.__cause__.fault
            return Fault.of(error)
        except BadAnswerError as error:
            return error.fault

    @staticmethod
    def _read(content: bytes, read: Callable[[dict[str, object]], Generation]) -> Generation:
        try:
            return read(decode(content))
        except (ValueError, OverflowError, RecursionError) as error:
            raise unreadable(f"the answer cannot be read ({type(error).__name__})") from None

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    def _judged(self, outcome: Generation | Fault) -> Generation | tuple[Fault, HarnessError]:
        if isinstance(outcome, Generation):
            return outcome
        fault = outcome
        if self._api_key:
            fault = replace(fault, text=fault.text.replace(self._api_key, "(the key)"))
        meaning = judge(fault, where=self.where, answered=self.answered, api=self._options.api)
        return meaning if isinstance(meaning, Generation) else (fault, meaning)

    def _client(self) -> AsyncOpenAI:
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Timeout

        if self.given is not None:
            return self.given.with_options(max_retries=0, timeout=self._options.timeout_seconds)
        for loop in [loop for loop in self._clients if loop.is_closed()]:
            del self._clients[loop]
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            seconds = self._options.timeout_seconds
            self._clients[loop] = AsyncOpenAI(
                api_key=self._api_key or NO_KEY,
                base_url=self._base_url,
                max_retries=0,
                timeout=Timeout(seconds, connect=min(seconds, 30.0)),
                default_headers=UNASKED,
                # A proxy of the environment cannot reach this machine's own servers.
                http_client=DefaultAsyncHttpxClient(
                    trust_env=not self._on_loopback, event_hooks={"response": [read_body]}
                ),
            )
        return self._clients[loop]


class EndpointPolicy(ABC):
    """What the policies of both APIs have in common."""

    api: str

    def __init__(self, options: ModelOptions, endpoint: Endpoint) -> None:
        self.options = options
        self.endpoint = endpoint

    @abstractmethod
    async def generate(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition]
    ) -> Generation:
        """Continue a conversation; the errors are those of ``Policy``."""

    @property
    def name(self) -> str:
        return self.options.model

    @property
    def has_answered(self) -> bool:
        """Whether the endpoint ever answered: one that has not, does not think too long."""
        return self.endpoint.answered

    def for_sample(self, sample: int) -> Self:
        """Return the policy of one sample: another seed, the same connections."""
        return type(self)(self.options.for_sample(sample), self.endpoint)

    async def aclose(self) -> None:
        """Close the connections of this event loop, for all samples."""
        await self.endpoint.aclose()

    def sampling(self, **names: object) -> dict[str, object]:
        """Collect the settings that are given."""
        given = {"temperature": self.options.temperature, "top_p": self.options.top_p, **names}
        return {name: value for name, value in given.items() if value is not None}
