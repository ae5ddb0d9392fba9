"""A policy over the Responses API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_cwsandbox.rollouts.endpoint import EndpointPolicy
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
    tool_calls,
    whole_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openai import AsyncOpenAI

    from pytest_cwsandbox.rollouts.endpoint import RawAnswer
    from pytest_cwsandbox.rollouts.messages import AssistantMessage, Message, ToolDefinition

CUT_SHORT = {"max_output_tokens": "length", "content_filter": "content_filter"}


class ResponsesPolicy(EndpointPolicy):
    """Speaks the Responses API, without leaving anything at the endpoint."""

    api = "responses"

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition]
    ) -> Generation:
        async def send(client: AsyncOpenAI) -> RawAnswer:
            # `extra_body` replaces the rest of the body and is sent as it is. No variable holds it:
            # a traceback with local variables would show what is secret in it.
            return await client.responses.with_raw_response.create(
                model=self.name, extra_body=self._request(messages, tools)
            )

        return await self.endpoint.ask(send, lambda answer: _read(answer, messages))

    def _request(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition]
    ) -> dict[str, object]:
        body = {
            "model": self.name,
            "store": False,
            "input": [item for message in messages for item in self._items(message)],
            **self.sampling(max_output_tokens=self.options.max_tokens),
        }
        if tools:
            body["tools"] = [{"type": "function", **tool["function"]} for tool in tools]
        # Asked of a model that does not reason, or of another server, it is an error.
        reasons = any(message.get("reasoning_items") for message in messages)
        if self.endpoint.is_openai and reasons:
            body["include"] = ["reasoning.encrypted_content"]
        return {**body, **self.options.extra_body}

    def _items(self, message: Message) -> Iterator[dict[str, object]]:
        if message["role"] == "tool":
            yield {
                "type": "function_call_output",
                "call_id": message["tool_call_id"],
                "output": whole_text(message["content"]),
            }
            return
        if message["role"] != "assistant":
            text = whole_text(message["content"])
            yield {"type": "message", "role": message["role"], "content": text}
            return
        for item in message.get("reasoning_items", ()):
            # OpenAI has not kept what it cannot decrypt, and would look for it in vain.
            if item.get("encrypted_content") or not self.endpoint.is_openai:
                yield {name: value for name, value in item.items() if value is not None}
        parts: list[dict[str, object]] = []
        if content := message["content"]:
            parts.append({"type": "output_text", "text": whole_text(content)})
        if refusal := message.get("refusal"):
            parts.append({"type": "refusal", "refusal": whole_text(refusal)})
        if parts:
            yield {"type": "message", "role": "assistant", "content": parts}
        for call in message.get("tool_calls", ()):
            yield {
                "type": "function_call",
                "call_id": call["id"],
                "name": sendable_name(call["function"]["name"]),
                "arguments": sendable_arguments(call["function"]["arguments"]),
            }


def _read(answer: dict[str, object], history: Sequence[Message]) -> Generation:
    status = text_of(answer.get("status"))
    if status in {"failed", "cancelled", "queued", "in_progress"}:
        raise BadAnswerError(Fault.reported(None, f"the answer is {status}"))
    items = objects(answer.get("output"), "the items")
    if not items and status not in {"completed", "incomplete"}:
        raise unreadable("the answer has no output")
    parts = [
        part
        for item in items
        if item.get("type") == "message"
        for part in objects(item.get("content"), "the parts of the content")
    ]
    texts = [part for part in parts if part.get("type") == "output_text"]
    content = "".join(text_of(part.get("text")) for part in texts)
    message: AssistantMessage = {"role": "assistant", "content": content if texts else None}
    asked = [
        (item.get("call_id") or item.get("id"), item.get("name"), item.get("arguments"))
        for item in items
        if item.get("type") == "function_call"
    ]
    if asked:
        message["tool_calls"] = tool_calls(asked, history)
    if refusal := "".join(text_of(part.get("refusal")) for part in parts):
        message["refusal"] = refusal
    if reasoning := [item for item in items if item.get("type") == "reasoning"]:
        message["reasoning_items"] = reasoning
        thoughts = [
            text_of(part.get("text"))
            for item in reasoning
            for part in objects(item.get("content") or item.get("summary"), "the thoughts")
        ]
        if thought := "\n".join(filter(None, thoughts)):
            message["reasoning_content"] = thought
    logprobs = [row for part in texts for row in objects(part.get("logprobs"), "the logprobs")]
    return Generation(
        message,
        finish_reason=_finish_reason(answer, calls=len(asked)),
        tokens_in=count(answer.get("usage"), "input_tokens"),
        tokens_out=count(answer.get("usage"), "output_tokens"),
        logprobs=logprobs_of({"content": logprobs}) if logprobs else None,
    )


def _finish_reason(answer: dict[str, object], *, calls: int) -> str:
    if calls > MOST_CALLS:
        return "length"
    details = answer.get("incomplete_details")
    if isinstance(details, dict) and (reason := text_of(details.get("reason"))):
        return CUT_SHORT.get(reason, reason)
    return "tool_calls" if calls else "stop"
