"""What the scripts have in place of a tokenizer: pieces of four characters."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_cwsandbox.rollouts.messages import AssistantMessage, Message

PIECE = 4
VOCABULARY = 50_000
TOKENS_PER_TOOL = 60


def count(text: str) -> int:
    return -(-len(text) // PIECE)


def ids(text: str) -> list[int]:
    return [zlib.crc32(piece.encode(errors="replace")) % VOCABULARY for piece in _pieces(text)]


def logprobs(text: str) -> list[dict[str, object]]:
    """Tokens in the form of a choice's ``logprobs``; a script is always sure."""
    return [
        {
            "token": piece,
            "bytes": list(piece.encode(errors="replace")),
            "logprob": 0.0,
            "top_logprobs": [],
        }
        for piece in _pieces(text)
    ]


def read(messages: Sequence[Message]) -> str:
    """All that the model reads."""
    return "".join(
        written(message) if message["role"] == "assistant" else message["content"]
        for message in messages
    )


def written(message: AssistantMessage) -> str:
    """All that the model wrote in one message."""
    calls = [call["function"] for call in message.get("tool_calls", ())]
    said = message.get("refusal") or message["content"] or ""
    return said + "".join(call["name"] + call["arguments"] for call in calls)


def _pieces(text: str) -> list[str]:
    return [text[start : start + PIECE] for start in range(0, len(text), PIECE)]
