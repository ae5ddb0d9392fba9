"""Which model answers, where it is served, and how it samples."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from pytest_cwsandbox.errors import EndpointError
from pytest_cwsandbox.rollouts.scripted import SCRIPTED

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from pytest_cwsandbox.rollouts.chat import ChatPolicy
    from pytest_cwsandbox.rollouts.responses import ResponsesPolicy

OPENAI = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """A model and its settings; what is None or empty is left to the endpoint.

    ``base_url`` defaults to OPENAI_BASE_URL and then to OpenAI, ``api_key`` to OPENAI_API_KEY.
    ``api`` is "responses" or "chat"; "" takes responses for OpenAI itself and chat anywhere else.
    ``extra_body`` goes into every request as it is and wins over the other settings.
    ``timeout_seconds`` is how long the endpoint may keep silent before a request counts as failed,
    ``retries`` how often a failed request is sent again.
    """

    model: str = SCRIPTED
    base_url: str = ""
    api: str = ""
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    extra_body: dict[str, object] = field(default_factory=dict)
    timeout_seconds: float = 300.0
    retries: int = 4
    api_key: str = field(default="", repr=False)

    def for_sample(self, sample: int) -> Self:
        """Count the seed on: samples that share one would be the same sample."""
        return self if self.seed is None else replace(self, seed=self.seed + sample)


def openai_policy(
    options: ModelOptions, *, base_url: str = "", api_key: str = ""
) -> ChatPolicy | ResponsesPolicy:
    """Build the policy that ``options`` describe; the arguments win over them.

    ``EndpointError`` when no request could succeed: no model, no key for OpenAI, a base URL that
    is none, a seed for the Responses API.
    """
    from pytest_cwsandbox.rollouts.chat import ChatPolicy
    from pytest_cwsandbox.rollouts.endpoint import Endpoint
    from pytest_cwsandbox.rollouts.responses import ResponsesPolicy

    url = base_url or options.base_url or os.environ.get("OPENAI_BASE_URL", "").strip() or OPENAI
    is_openai = _host(url) == "api.openai.com" or _host(url).endswith(".api.openai.com")
    api = options.api or ("responses" if is_openai else "chat")
    key = (api_key or options.api_key or os.environ.get("OPENAI_API_KEY", "")).strip()
    if not options.model:
        raise EndpointError("no model is named: give one with --cwsandbox-model")
    if api not in {"responses", "chat"}:
        raise EndpointError(f"no API is called {api!r}: --cwsandbox-model-api is responses or chat")
    if api == "responses" and options.seed is not None:
        raise EndpointError(
            "the Responses API knows no seed: leave --cwsandbox-seed out, "
            "or take --cwsandbox-model-api=chat"
        )
    if is_openai and not key:
        raise EndpointError(
            f"OpenAI answers {options.model} with a key only: set OPENAI_API_KEY, "
            "or name another endpoint with --cwsandbox-model-base-url"
        )
    if not (key.isascii() and key.isprintable()):
        raise EndpointError("the key has characters that no key has: check OPENAI_API_KEY")
    import_module("openai")  # it takes a second, which no event loop should wait for
    endpoint = Endpoint(options, base_url=url, api_key=key, is_openai=is_openai)
    return (ChatPolicy if api == "chat" else ResponsesPolicy)(options, endpoint)


def client_policy(client: AsyncOpenAI, options: ModelOptions) -> ChatPolicy:
    """Chat Completions through somebody else's client, such as a trainer's for its own model.

    Where and with which key is the client's affair; retries and time limit are ``options``'.
    """
    from pytest_cwsandbox.rollouts.chat import ChatPolicy
    from pytest_cwsandbox.rollouts.endpoint import Endpoint

    endpoint = Endpoint(
        options,
        base_url=str(client.base_url),
        api_key=client.api_key,
        is_openai=False,
        client=client,
    )
    return ChatPolicy(options, endpoint)


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
        plain = url.isprintable() and " " not in url and parts.port != 0
        if plain and parts.scheme in {"http", "https"} and parts.hostname:
            return parts.hostname
    except ValueError:  # a port that is no number, half an IPv6 address
        pass
    raise EndpointError(
        f"{url!r} is no address of an endpoint: --cwsandbox-model-base-url takes one such as "
        "http://127.0.0.1:8000/v1"
    )
