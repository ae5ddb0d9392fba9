"""A trajectory's messages as trainers want them: a prompt, and what the model made of it."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_cwsandbox.rollouts.messages import Message, ToolCall

NO_REWARD = "without a reward (the endpoint or the infrastructure failed)"
NO_ANSWER = "without an answer of the model"

_INTEGERS = range(-(2**63), 2**64)  # what fast JSON readers take


def split(messages: Sequence[Message]) -> tuple[list[Message], list[Message]]:
    """The messages before the model's first, and those from there to its last.

    Tool results after its last message are left out: nothing follows from them, and a trainer
    would take them for something that the model said.
    """
    spoken = [number for number, message in enumerate(messages) if message["role"] == "assistant"]
    if not spoken:
        return list(messages), []
    return list(messages[: spoken[0]]), list(messages[spoken[0] : spoken[-1] + 1])


def text(message: Message) -> str:
    """Its content; a model that refused said that, one that only called tools nothing."""
    return message["content"] or str(message.get("refusal") or "")


def called_names(messages: Iterable[Message]) -> dict[str, str]:
    """The tool's name of each call, by the call's id."""
    return {
        call["id"]: call["function"]["name"]
        for message in messages
        if message["role"] == "assistant"
        for call in message.get("tool_calls", [])
    }


def parsed_arguments(call: ToolCall) -> dict[str, object] | str:
    """The arguments as an object where the model wrote one, else its text as it stands."""
    written = call["function"]["arguments"]
    try:
        value = json.loads(
            written, parse_int=_integer, parse_float=_number, parse_constant=_no_constant
        )
    except (ValueError, RecursionError):
        return written
    return value if isinstance(value, dict) else written


def _integer(digits: str) -> int:
    value = int(digits)
    if value not in _INTEGERS:
        raise ValueError(digits)
    return value


def _number(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(digits)
    return value


def _no_constant(name: str) -> float:
    raise ValueError(name)
