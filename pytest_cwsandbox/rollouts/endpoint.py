"""One OpenAI-compatible endpoint: its connections, its retries, and what its failures mean."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, Self
from urllib.parse import urlsplit

from pytest_cwsandbox.errors import ModelError
from pytest_cwsandbox.rollouts.failures import BadAnswerError, Fault, judge
from pytest_cwsandbox.rollouts.policy import FAILED_ATTEMPTS, Generation
from pytest_cwsandbox.rollouts.reading import decode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from openai import AsyncOpenAI

    from pytest_cwsandbox.rollouts.messages import Message, ToolDefinition
    from pytest_cwsandbox.rollouts.model import ModelOptions

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 8.0  # seconds between attempts, the client's own
NO_KEY = "no-key"  # servers of one's own ask for none, the client insists on one


class RawAnswer(Protocol):
    """What the client hands out before it reads an answer."""

    retries_taken: int

    @property
    def content(self) -> bytes: ...


@dataclass(slots=True)
class ReadAnswer:
    """An answer that its client has read already."""

    content: bytes
    retries_taken: int = 0


class Answered(Protocol):
    """What the client tells of every answer."""

    status_code: int


class Endpoint:
    """What all samples of one model share.

    A client belongs to the event loop that it was used on, so there is one for each. With
    ``client``, somebody else's, that one is used, and not closed.
    """

    def __init__(
        self,
        options: ModelOptions,
        *,
        base_url: str,
        api_key: str,
        is_openai: bool,
        client: AsyncOpenAI | None = None,
    ) -> None:
        parts = urlsplit(base_url)
        self.is_openai = is_openai
        address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        self.where = f"{options.model} at {address}"  # without the password that it may hold
        self._base_url = base_url
        self._api_key = api_key
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

        The client sends again what got no answer or a passing error. An answer of status 200 that
        cannot be read is sent for again here, out of the same budget; so is everything with a
        client that was given, which cannot tell what it sent again.
        """
        from openai import OpenAIError

        client = self._client()
        left, pause = self._options.retries, FIRST_PAUSE
        while True:
            try:
                raw = await send(client)
                left -= raw.retries_taken
                generation = read(decode(raw.content))
            except OpenAIError as error:
                fault = self._keyless(Fault.of(error))
                if self.given is None:
                    left = 0
                else:
                    _note(f"{fault.status}: {fault.text}")
            except BadAnswerError as error:
                fault = self._keyless(error.fault)
                _note(f"{fault.status}: {fault.text}")
            else:
                self.answered = True
                return generation
            meaning = judge(fault, where=self.where, answered=self.answered)
            if isinstance(meaning, Generation):
                self.answered = True
                return meaning
            if left <= 0 or not isinstance(meaning, ModelError):
                # The client's own error is left out: it may quote the key.
                raise meaning from None
            await asyncio.sleep(pause)
            left, pause = left - 1, min(2 * pause, LONGEST_PAUSE)
            if self.given is None:
                client = client.with_options(max_retries=left)

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    def _keyless(self, fault: Fault) -> Fault:
        if not self._api_key:
            return fault
        return replace(fault, text=fault.text.replace(self._api_key, "(the key)"))

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
                max_retries=self._options.retries,
                timeout=Timeout(seconds, connect=min(seconds, 30.0)),
                # A proxy of the environment cannot reach this machine's own servers.
                http_client=DefaultAsyncHttpxClient(
                    trust_env=not self._on_loopback, event_hooks={"response": [_note_failure]}
                ),
            )
        return self._clients[loop]


async def _note_failure(response: Answered) -> None:
    """Told by the client of every answer: one that it will ask for again ends in no exception."""
    if response.status_code >= 400:
        _note(f"status {response.status_code}")


def _note(failure: str) -> None:
    if (failures := FAILED_ATTEMPTS.get()) is not None:
        failures.append(failure)


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

    @property
    def timeout_seconds(self) -> float:
        """How long one request may wait before its endpoint is to blame."""
        return self.options.timeout_seconds

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
