"""The scripts in the format of the Responses API."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

from pydantic import BaseModel

from pytest_cwsandbox.rollouts.scripted import tokens
from pytest_cwsandbox.rollouts.scripted.chat import Part, check, text, usage
from pytest_cwsandbox.rollouts.scripted.conversation import Answer, Conversation
from pytest_cwsandbox.rollouts.scripted.failure import invalid

if TYPE_CHECKING:
    from pytest_cwsandbox.rollouts.messages import AssistantMessage, Message, ToolCall

LOGPROBS = "message.output_text.logprobs"
INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


class Item(BaseModel):
    """One item of the input; which fields it has depends on its type."""

    type: str = "message"
    role: str = ""
    content: str | list[Part] | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    output: str | list[Part] = ""


class FlatTool(BaseModel):
    type: str
    name: str = ""


class ResponsesRequest(BaseModel):
    model: str
    input: str | list[Item]
    instructions: str | None = None
    tools: list[FlatTool] | None = None
    include: list[str] | None = None
    stream: bool | None = False
    previous_response_id: str | None = None
    temperature: float | None = None
    top_p: float | None = None

    def conversation(self) -> Conversation:
        """Raises ``ApiError`` for one that OpenAI would not take."""
        if self.previous_response_id:
            raise invalid("Responses are not stored here: send the whole conversation as input.")
        messages: list[Message] = []
        if self.instructions:
            messages.append({"role": "system", "content": self.instructions})
        if isinstance(self.input, str):
            messages.append({"role": "user", "content": self.input})
        else:
            messages += _messages(self.input)
        check(messages)
        return Conversation(messages, frozenset(tool.name for tool in self.tools or ()))

    def response(self, conversation: Conversation, answer: Answer) -> dict[str, object]:
        """The body of the response."""
        tokens_in, tokens_out = usage(conversation, answer)
        reason = INCOMPLETE.get(answer.finish_reason)
        status = "incomplete" if reason else "completed"
        created = int(time.time())
        return {
            "id": f"resp_{secrets.token_hex(16)}",
            "object": "response",
            "created_at": created,
            "completed_at": None if reason else created,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": reason} if reason else None,
            "instructions": self.instructions,
            "metadata": {},
            "model": self.model,
            "output": _output(answer.message, status, logprobs=LOGPROBS in (self.include or ())),
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "store": False,
            "temperature": self.temperature,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": self.top_p,
            "truncation": "disabled",
            "usage": {
                "input_tokens": tokens_in,
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": tokens_out,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": tokens_in + tokens_out,
            },
        }


def _messages(items: list[Item]) -> list[Message]:
    messages: list[Message] = []
    turn: AssistantMessage | None = None  # which the next call still belongs to
    for item in items:
        if item.type == "function_call_output":
            turn = None
            output = text(item.output)
            messages.append({"role": "tool", "tool_call_id": item.call_id, "content": output})
        elif item.type == "function_call":
            if turn is None:
                turn = {"role": "assistant", "content": None}
                messages.append(turn)
            turn.setdefault("tool_calls", []).append(_call(item))
        elif item.type == "reasoning":
            turn = None
        elif item.type != "message":
            raise invalid(f"There are no items of type {item.type!r} here.")
        elif item.role == "assistant":
            turn = {"role": "assistant", "content": text(item.content) or None}
            messages.append(turn)
        elif item.role == "user":
            messages.append({"role": "user", "content": text(item.content)})
        else:
            messages.append({"role": "system", "content": text(item.content)})
    return messages


def _call(item: Item) -> ToolCall:
    return {
        "id": item.call_id,
        "type": "function",
        "function": {"name": item.name, "arguments": item.arguments},
    }


def _output(message: AssistantMessage, status: str, *, logprobs: bool) -> list[dict[str, object]]:
    items: list[dict[str, object]] = []
    if thought := message.get("reasoning_content"):
        items.append(
            {
                "type": "reasoning",
                "id": _id("rs"),
                "summary": [{"type": "summary_text", "text": thought}],
                "encrypted_content": thought.encode().hex(),
                "status": status,
            }
        )
    content: dict[str, object] | None = None
    if refusal := message.get("refusal"):
        content = {"type": "refusal", "refusal": refusal}
    elif said := message["content"]:
        content = {
            "type": "output_text",
            "text": said,
            "annotations": [],
            "logprobs": tokens.logprobs(said) if logprobs else [],
        }
    if content:
        items.append(
            {
                "type": "message",
                "id": _id("msg"),
                "role": "assistant",
                "status": status,
                "content": [content],
            }
        )
    items += [
        {
            "type": "function_call",
            "id": _id("fc"),
            "call_id": call["id"],
            "name": call["function"]["name"],
            "arguments": call["function"]["arguments"],
            "status": status,
        }
        for call in message.get("tool_calls", ())
    ]
    return items


def _id(kind: str) -> str:
    return f"{kind}_{secrets.token_hex(12)}"
