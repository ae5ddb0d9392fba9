"""What a policy said, in one form: policies of one's own write messages in many."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_cwsandbox.rollouts.policy import Generation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_cwsandbox.rollouts.messages import AssistantMessage, Message, ToolCall


def read_answer(answer: object, messages: Sequence[Message]) -> Generation:
    """The answer with its message as ``AssistantMessage`` says it, which is a copy.

    Null fields are left out, parts of text are joined, arguments that are an object become JSON,
    calls without an id get one. Raises ``TypeError`` for what is no message at all.
    """
    generation = answer if isinstance(answer, Generation) else None
    said = generation.message if generation else answer
    if not isinstance(said, dict) or said.get("role") != "assistant":
        raise TypeError(
            "generate must return a Generation or an assistant message, a dict with role, content "
            f"and perhaps tool_calls; got {said!r:.100}"
        )
    given = {name: value for name, value in said.items() if value is not None}
    message: AssistantMessage = {"role": "assistant", "content": _text(given.get("content"))}
    if calls := given.get("tool_calls"):
        taken = {
            call["id"]
            for message in messages
            if message["role"] == "assistant"
            for call in message.get("tool_calls", ())
        }
        message["tool_calls"] = [_call(call, taken) for call in calls]
    if isinstance(refusal := given.get("refusal"), str):
        message["refusal"] = refusal
    if isinstance(reasoning := given.get("reasoning_content"), str):
        message["reasoning_content"] = reasoning
    if isinstance(items := given.get("reasoning_items"), list):
        message["reasoning_items"] = items
    return replace(generation, message=message) if generation else Generation(message)


def copies(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Messages that a policy may change without changing what is recorded."""
    return tuple(_copy(message) for message in messages)


def _copy(message: Message) -> Message:
    if message["role"] != "assistant" or "tool_calls" not in message:
        return message.copy()
    calls: list[ToolCall] = [
        {**call, "function": call["function"].copy()} for call in message["tool_calls"]
    ]
    return {**message, "tool_calls": calls}


def _text(content: object) -> str | None:
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        return "".join(part for part in parts if isinstance(part, str))
    raise TypeError(f"the content of a message must be text or None, got {content!r:.100}")


def _call(call: object, taken: set[str]) -> ToolCall:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(function, dict):
        raise TypeError(f"a tool call must be a dict with a function, got {call!r:.100}")
    wanted = call.get("id")
    number = len(taken) + 1
    while not isinstance(wanted, str) or not wanted or wanted in taken:
        wanted = f"call_{number}"
        number += 1
    taken.add(wanted)
    arguments = function.get("arguments")
    return {
        "id": wanted,
        "type": "function",
        "function": {
            "name": str(function.get("name") or ""),
            "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments or {}),
        },
    }
