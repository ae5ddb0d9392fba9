"""Messages and tool definitions in the format of Chat Completions, whatever API a model speaks."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict


class FunctionCall(TypedDict):
    """What the model asks for; ``arguments`` is the text that it wrote, JSON or not."""

    name: str
    arguments: str


class ToolCall(TypedDict):
    id: str
    type: Literal["function"]
    function: FunctionCall


class SystemMessage(TypedDict):
    role: Literal["system"]
    content: str


class UserMessage(TypedDict):
    role: Literal["user"]
    content: str


class AssistantMessage(TypedDict):
    """What the model said.

    ``tool_calls`` is absent rather than empty. ``reasoning_content`` is the thinking that some
    endpoints show; ``reasoning_items`` are the Responses API's own, passed back to it as they are.
    """

    role: Literal["assistant"]
    content: str | None
    tool_calls: NotRequired[list[ToolCall]]
    refusal: NotRequired[str]
    reasoning_content: NotRequired[str]
    reasoning_items: NotRequired[list[dict[str, object]]]


class ToolMessage(TypedDict):
    role: Literal["tool"]
    tool_call_id: str
    content: str


Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage


class FunctionDefinition(TypedDict):
    """``parameters`` is a strict JSON schema: every property required, no others allowed."""

    name: str
    description: str
    parameters: dict[str, object]
    strict: bool


class ToolDefinition(TypedDict):
    type: Literal["function"]
    function: FunctionDefinition
