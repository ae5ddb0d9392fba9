"""Which model answers, where it is served, and how it samples."""

from __future__ import annotations

import json
import os
import re
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

OURS = {"model", "messages", "input", "stream"}  # what is asked, and how it is answered
OPENAI = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """A model and its settings; what is None or empty is left to the endpoint.

    ``base_url`` defaults to OPENAI_BASE_URL and then to OpenAI, ``api_key`` to OPENAI_API_KEY.
    ``api`` is "responses" or "chat"; "" takes responses for OpenAI itself and chat anywhere else.
    ``extra_body`` goes into every request as it is and wins over the other settings.
    ``timeout_seconds`` is how long one request may take before it counts as failed, ``retries`` how
    often a failed request is sent again.
    """

    model: str = SCRIPTED
    base_url: str = field(default="", repr=False)  # it may hold a password
    api: str = ""
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    extra_body: dict[str, object] = field(default_factory=dict, repr=False)
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

    options = _settled(options, base_url, api_key)
    del base_url, api_key  # a traceback with local variables would show them
    host = _host(options.base_url)
    if not host:
        raise EndpointError(
            f"{_shown(options.base_url)!r} is no address of an endpoint: "
            "--cwsandbox-model-base-url takes one such as http://127.0.0.1:8000/v1"
        )
    is_openai = _is_openai(host)
    options = replace(options, api=options.api or _usual_api(host))
    if not options.model:
        raise EndpointError("no model is named: give one with --cwsandbox-model")
    if options.api not in {"responses", "chat"}:
        raise EndpointError(
            f"no API is called {options.api!r}: --cwsandbox-model-api is responses or chat"
        )
    if options.api == "responses" and options.seed is not None:
        raise EndpointError(
            "the Responses API knows no seed: leave --cwsandbox-seed out, "
            "or take --cwsandbox-model-api=chat"
        )
    if is_openai and not options.api_key:
        raise EndpointError(
            f"OpenAI answers {options.model} with a key only: set OPENAI_API_KEY, "
            "or name another endpoint with --cwsandbox-model-base-url"
        )
    if not (options.api_key.isascii() and options.api_key.isprintable()):
        raise EndpointError("the key has characters that no key has: check OPENAI_API_KEY")
    _check_body(options)
    import_module("openai")  # it takes a second, which no event loop should wait for
    endpoint = Endpoint(options, is_openai=is_openai)
    return (ChatPolicy if options.api == "chat" else ResponsesPolicy)(options, endpoint)


def client_policy(client: AsyncOpenAI, options: ModelOptions) -> ChatPolicy:
    """Chat Completions through somebody else's client, such as a trainer's for its own model.

    Where and with which key is the client's affair; retries and time limit are ``options``'.
    """
    from pytest_cwsandbox.rollouts.chat import ChatPolicy
    from pytest_cwsandbox.rollouts.endpoint import Endpoint

    _check_body(options)
    options = replace(
        options, base_url=str(client.base_url), api_key=client.api_key, api=ChatPolicy.api
    )
    return ChatPolicy(options, Endpoint(options, is_openai=False, client=client))


def _settled(options: ModelOptions, base_url: str, api_key: str) -> ModelOptions:
    environ = os.environ
    url = base_url or options.base_url or environ.get("OPENAI_BASE_URL", "").strip() or OPENAI
    key = api_key or options.api_key or environ.get("OPENAI_API_KEY", "")
    return replace(options, base_url=url, api_key=key.strip())


def resolved(options: ModelOptions) -> ModelOptions:
    """The same with the address and the API that ``openai_policy`` would take."""
    options = _settled(options, "", "")
    return replace(options, api=options.api or _usual_api(_host(options.base_url)))


def _is_openai(host: str) -> bool:
    return host == "api.openai.com" or host.endswith(".api.openai.com")


def _usual_api(host: str) -> str:
    return "responses" if _is_openai(host) else "chat"


def _check_body(options: ModelOptions) -> None:
    if ours := sorted(OURS & options.extra_body.keys()):
        raise EndpointError(
            f"--cwsandbox-extra-body may not set {', '.join(ours)}, which each request has of its "
            "own: leave it out"
        )
    try:
        json.dumps([options.temperature, options.top_p, options.extra_body], allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise EndpointError(
            "no JSON can hold the settings of the model: check --cwsandbox-extra-body, "
            "--cwsandbox-temperature and --cwsandbox-top-p"
        ) from None


def _host(url: str) -> str:
    """The host of an endpoint's address, "" where it is none."""
    try:
        parts = urlsplit(url)
        # The client knows fewer letters than there are names: a foreign one is written xn--.
        plain = url.isprintable() and " " not in url and (parts.hostname or "").isascii()
        if plain and parts.port != 0 and parts.scheme in {"http", "https"} and parts.hostname:
            return parts.hostname
    except ValueError:  # a port that is no number, half an IPv6 address
        pass
    return ""


def _shown(url: str) -> str:
    """What may be shown of something that is no address: no user, no password, no query."""
    before, at, after = url.rpartition("@")
    scheme, separator, _ = before.partition("://")
    place = re.split("[?#]", after)[0]
    return f"{scheme}{separator}{place}" if at and separator else place
