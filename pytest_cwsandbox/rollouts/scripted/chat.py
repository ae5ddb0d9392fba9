"""The scripts in the format of Chat Completions."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel

from pytest_cwsandbox.rollouts.scripted import tokens
from pytest_cwsandbox.rollouts.scripted.conversation import Answer, Conversation
from pytest_cwsandbox.rollouts.scripted.failure import invalid

if TYPE_CHECKING:
    from pytest_cwsandbox.rollouts.messages import AssistantMessage, Message, ToolCall


class Part(BaseModel):
    type: Literal["text", "input_text", "output_text", "refusal"]
    text: str = ""


class CalledFunction(BaseModel):
    name: str
    arguments: str


class Call(BaseModel):
    id: str
    function: CalledFunction

    def plain(self) -> ToolCall:
        name, arguments = self.function.name, self.function.arguments
        return {
            "id": self.id,
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }


class ChatMessage(BaseModel):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Part] | None = None
    refusal: str | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str = ""

    def plain(self) -> Message:
        content = text(self.content)
        if self.role == "tool":
            return {"role": "tool", "tool_call_id": self.tool_call_id, "content": content}
        if self.role == "user":
            return {"role": "user", "content": content}
        if self.role != "assistant":
            return {"role": "system", "content": content}
        message: AssistantMessage = {"role": "assistant", "content": content or None}
        if self.tool_calls:
            message["tool_calls"] = [call.plain() for call in self.tool_calls]
        if self.refusal:
            message["refusal"] = self.refusal
        return message


class OfferedFunction(BaseModel):
    name: str


class Tool(BaseModel):
    type: Literal["function"]
    function: OfferedFunction


class ChatRequest(BaseModel):
    model: str
    messages: list[ChatMessage]
    tools: list[Tool] | None = None
    stream: bool | None = False
    logprobs: bool | None = False
    return_token_ids: bool | None = False

    def conversation(self) -> Conversation:
        """Raises ``ApiError`` for one that OpenAI would not take."""
        messages = [message.plain() for message in self.messages]
        check(messages)
        return Conversation(messages, frozenset(tool.function.name for tool in self.tools or ()))

    def completion(self, conversation: Conversation, answer: Answer) -> dict[str, object]:
        """The body of the response."""
        written = tokens.written(answer.message)
        read = tokens.read(conversation.messages)
        tokens_in, tokens_out = usage(conversation, answer)
        choice: dict[str, object] = {
            "index": 0,
            "finish_reason": answer.finish_reason,
            "message": {"refusal": None, "annotations": [], **answer.message},
            "logprobs": {"content": tokens.logprobs(written), "refusal": None}
            if self.logprobs
            else None,
        }
        body: dict[str, object] = {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": self.model,
            "choices": [choice],
            "usage": {
                "prompt_tokens": tokens_in,
                "completion_tokens": tokens_out,
                "total_tokens": tokens_in + tokens_out,
                "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
                "completion_tokens_details": {
                    "reasoning_tokens": 0,
                    "audio_tokens": 0,
                    "accepted_prediction_tokens": 0,
                    "rejected_prediction_tokens": 0,
                },
            },
            "service_tier": "default",
            "system_fingerprint": None,
        }
        if self.return_token_ids:  # as vLLM does
            choice["token_ids"] = tokens.ids(written)
            body["prompt_token_ids"] = tokens.ids(read)
        return body


def text(content: str | list[Part] | None) -> str:
    if isinstance(content, list):
        return "".join(part.text for part in content)
    return content or ""


def usage(conversation: Conversation, answer: Answer) -> tuple[int, int]:
    """Tokens in and out, the same through every API."""
    prompt = tokens.count(tokens.read(conversation.messages))
    prompt += tokens.TOKENS_PER_TOOL * len(conversation.tools)
    return prompt, max(1, tokens.count(tokens.written(answer.message)))


def check(messages: list[Message]) -> None:
    """Every call must be answered before the conversation goes on, and nothing else be answered."""
    if not messages:
        raise invalid("The conversation is empty.")
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                raise invalid(
                    f"There is no open tool call {message['tool_call_id']!r} to be answered."
                )
            open_calls.remove(message["tool_call_id"])
        elif open_calls:
            break
        elif message["role"] == "assistant":
            open_calls = [call["id"] for call in message.get("tool_calls", ())]
    if open_calls:
        raise invalid(
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            f"to each 'tool_call_id'. No response to: {', '.join(open_calls)}"
        )
