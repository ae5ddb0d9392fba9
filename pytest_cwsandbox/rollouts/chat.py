"""A policy over Chat Completions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pytest_cwsandbox.rollouts.endpoint import EndpointPolicy, ReadAnswer
from pytest_cwsandbox.rollouts.failures import BadAnswerError, Fault, unreadable
from pytest_cwsandbox.rollouts.policy import Generation
from pytest_cwsandbox.rollouts.reading import (
    MOST_CALLS,
    count,
    logprobs_of,
    objects,
    sendable_arguments,
    sendable_name,
    text_of,
    token_ids,
    tool_calls,
    whole_text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openai import AsyncOpenAI

    from pytest_cwsandbox.rollouts.endpoint import RawAnswer
    from pytest_cwsandbox.rollouts.messages import AssistantMessage, Message, ToolDefinition


class ChatPolicy(EndpointPolicy):
    """Speaks Chat Completions: vLLM, llama.cpp, and nearly every other endpoint."""

    api = "chat"

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition]
    ) -> Generation:
        from openai import BaseModel

        async def send(client: AsyncOpenAI) -> RawAnswer:
            completions = client.chat.completions
            # `extra_body` replaces the rest of the body and is sent as it is. No variable holds it:
            # a traceback with local variables would show what is secret in it.
            if self.endpoint.given is None:
                return await completions.with_raw_response.create(
                    model=self.name, messages=[], extra_body=self._request(messages, tools)
                )
            # Its owner may have wrapped `create`: ART adds settings and counts costs there.
            try:
                answer: object = await completions.create(
                    model=self.name, messages=[], extra_body=self._request(messages, tools)
                )
                text = answer.to_json() if isinstance(answer, BaseModel) else json.dumps(answer)
            except (ValueError, RecursionError) as error:  # it reads the answer by itself
                raise unreadable(f"the answer is no sound JSON ({type(error).__name__})") from None
            return ReadAnswer(text.encode())

        return await self.endpoint.ask(send, lambda answer: _read(answer, messages))

    def _request(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition]
    ) -> dict[str, object]:
        # OpenAI's reasoning models refuse the old name, many other servers know no other.
        longest = "max_completion_tokens" if self.endpoint.is_openai else "max_tokens"
        settings = {longest: self.options.max_tokens, "seed": self.options.seed}
        body = {
            "model": self.name,
            "messages": [_sendable(message) for message in messages],
            **self.sampling(**settings),
        }
        if tools:
            body["tools"] = list(tools)
        return {**body, **self.options.extra_body}


def _sendable(message: Message) -> dict[str, object]:
    """Keep to the keys that endpoints know."""
    if message["role"] == "tool":
        return {
            "role": "tool",
            "tool_call_id": message["tool_call_id"],
            "content": whole_text(message["content"]),
        }
    if message["role"] != "assistant":
        return {"role": message["role"], "content": whole_text(message["content"])}
    content, calls = message["content"], message.get("tool_calls")
    sent: dict[str, object] = {
        "role": "assistant",
        # Without calls no content at all is refused.
        "content": None if content is None and calls else whole_text(content or ""),
    }
    if calls:
        sent["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {
                    "name": sendable_name(call["function"]["name"]),
                    "arguments": sendable_arguments(call["function"]["arguments"]),
                },
            }
            for call in calls
        ]
    if refusal := message.get("refusal"):
        sent["refusal"] = whole_text(refusal)
    if reasoning := message.get("reasoning_content"):
        sent["reasoning_content"] = whole_text(reasoning)
    return sent


def _read(answer: dict[str, object], history: Sequence[Message]) -> Generation:
    choices = objects(answer.get("choices"), "the choices")
    if not choices:
        raise unreadable("the answer has no choices")
    choice = choices[0]
    if isinstance(error := choice.get("error"), dict):
        raise BadAnswerError(Fault.reported(None, error))
    said = choice.get("message")
    if not isinstance(said, dict):
        raise unreadable("the answer has no message")
    message: AssistantMessage = {"role": "assistant", "content": _content(said.get("content"))}
    asked = [
        (call.get("id"), function.get("name"), function.get("arguments"))
        for call in objects(said.get("tool_calls"), "the tool calls")
        # Calls of other kinds name no tool of ours; some servers leave the kind out.
        if call.get("type") in {"function", "", None}
        and isinstance(function := call.get("function"), dict)
    ]
    if asked:
        message["tool_calls"] = tool_calls(asked, history)
    if refusal := text_of(said.get("refusal")):
        message["refusal"] = refusal
    if reasoning := text_of(said.get("reasoning_content")) or text_of(said.get("reasoning")):
        message["reasoning_content"] = reasoning
    return Generation(
        message,
        finish_reason="length" if len(asked) > MOST_CALLS else text_of(choice.get("finish_reason")),
        tokens_in=count(answer.get("usage"), "prompt_tokens"),
        tokens_out=count(answer.get("usage"), "completion_tokens"),
        logprobs=logprobs_of(choice.get("logprobs")),
        token_ids=token_ids(choice.get("token_ids")),
        prompt_token_ids=token_ids(answer.get("prompt_token_ids")),
    )


def _content(value: object) -> str | None:
    """Return the text; some endpoints give it in parts."""
    if value is None or isinstance(value, str):
        return value
    parts = objects(value, "the parts of the content")
    return "".join(text_of(part.get("text")) for part in parts if part.get("type") == "text")
