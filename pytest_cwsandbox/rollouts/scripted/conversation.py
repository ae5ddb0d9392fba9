"""What a script sees and what it may answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_cwsandbox.rollouts.messages import AssistantMessage, Message, ToolCall


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation so far, and the names of the tools that may be called."""

    messages: Sequence[Message]
    tools: frozenset[str]

    @property
    def asked(self) -> str:
        return "\n".join(m["content"] for m in self.messages if m["role"] == "user")

    @property
    def observations(self) -> list[str]:
        """What the tools answered. Their number tells how far a script is."""
        return [m["content"] for m in self.messages if m["role"] == "tool"]

    @property
    def calls(self) -> int:
        """How many calls were made."""
        return sum(len(m.get("tool_calls", ())) for m in self.messages if m["role"] == "assistant")


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a tool; ``arguments`` that are a string go out as they are, JSON or not."""

    tool: str
    arguments: dict[str, str] | str


@dataclass(frozen=True, slots=True)
class Answer:
    """A message, and Chat Completions' word for why it ends."""

    message: AssistantMessage
    finish_reason: str


def say(text: str | None) -> Answer:
    return Answer({"role": "assistant", "content": text}, "stop")


def refuse(text: str) -> Answer:
    return Answer({"role": "assistant", "content": None, "refusal": text}, "stop")


def call(
    conversation: Conversation, *steps: Step, text: str | None = None, ids: Sequence[str] = ()
) -> Answer:
    """Call tools, in one turn. A call's id is its place in the conversation, unless given."""
    first = conversation.calls + 1
    ids = ids or [f"call_{number}" for number in range(first, first + len(steps))]
    calls: list[ToolCall] = [
        {
            "id": id_,
            "type": "function",
            "function": {
                "name": step.tool,
                "arguments": step.arguments
                if isinstance(step.arguments, str)
                else json.dumps(step.arguments),
            },
        }
        for id_, step in zip(ids, steps, strict=True)
    ]
    return Answer({"role": "assistant", "content": text, "tool_calls": calls}, "tool_calls")
