"""A trajectory: one finished episode, as it is recorded, exported and trained on."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pytest_cwsandbox.rollouts.messages import Message, ToolDefinition


class StopReason(StrEnum):
    """Why an episode ended; the wire and file form is the value."""

    SUBMITTED = "submitted"
    MAX_TOOL_CALLS = "max_tool_calls"
    MAX_TURNS = "max_turns"
    MAX_TOTAL_TOKENS = "max_total_tokens"
    NO_TOOL_CALL = "no_tool_call"
    CONTEXT_EXCEEDED = "context_exceeded"
    WALL_TIMEOUT = "wall_timeout"
    REFUSAL = "refusal"
    MODEL_ERROR = "model_error"
    INFRASTRUCTURE_ERROR = "infrastructure_error"

    @property
    def lost(self) -> bool:
        """Whether the episode says nothing of the model: its reward is None."""
        return self in {StopReason.MODEL_ERROR, StopReason.INFRASTRUCTURE_ERROR}


@dataclass(frozen=True, slots=True)
class Choice:
    """What an endpoint said about one assistant message, beside the message itself.

    ``logprobs`` has the form of a Chat Completions choice. Token ids are None where the endpoint
    returns none.
    """

    finish_reason: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    logprobs: dict[str, object] | None = None
    token_ids: tuple[int, ...] | None = None
    prompt_token_ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One episode.

    ``messages`` are in the format of Chat Completions and end with the last that was exchanged;
    ``choices`` has one entry per assistant message, in order. ``reward`` is None when the endpoint
    or the infrastructure failed. ``verdict`` is that of the grade, "" when nothing was graded;
    ``detail`` is one line for people. ``metrics`` holds ``tool_calls``, ``turns``, ``tokens_in``,
    ``tokens_out``, and seconds of wall time: ``model_seconds``, ``tool_seconds``,
    ``sandbox_start_seconds``, ``grade_seconds``, ``seconds``; ``cost`` in US dollars when a price
    is given. ``metadata`` holds JSON values, among them ``task_id``, ``source``, ``split``,
    ``model``, ``tags``, ``sandbox_ids``, ``submission`` (code, or None), ``held_out`` and
    ``sample``.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...]
    stop_reason: StopReason
    reward: float | None
    verdict: str = ""
    detail: str = ""
    choices: tuple[Choice, ...] = ()
    metrics: dict[str, float] = field(default_factory=dict)
    metadata: dict[str, object] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Short: a failed assertion shows it."""
        said = f"{self.verdict}: {self.detail}" if self.verdict else self.detail
        words = (f"reward={self.reward}", self.stop_reason.value, said.strip(": "))
        return f"Trajectory({', '.join(filter(None, words))}, {len(self.messages)} messages)"

    def to_json(self) -> dict[str, object]:
        """Plain JSON; ``from_json`` gives an equal trajectory back."""
        return {**asdict(self), "stop_reason": self.stop_reason.value}

    @classmethod
    def from_json(cls, row: dict[str, object]) -> Self:
        """Build from ``to_json``'s form; ``TypeError`` or ``ValueError`` for any other."""
        fields = dict(row)
        for name in ("messages", "tools"):
            fields[name] = tuple(_list(fields, name))
        fields["choices"] = tuple(_choice(choice) for choice in _list(fields, "choices"))
        fields["stop_reason"] = StopReason(str(fields.get("stop_reason")))
        return cls(**fields)  # type: ignore[arg-type]  # the field names are checked by the call itself


def _list(fields: dict[str, object], name: str) -> list[object]:
    value = fields.get(name)
    if not isinstance(value, list | tuple):
        raise TypeError(f"{name} must be a list")
    return list(value)


def _choice(row: object) -> Choice:
    if not isinstance(row, dict):
        raise TypeError("a choice must be an object")
    ids = {
        name: tuple(row[name])
        for name in ("token_ids", "prompt_token_ids")
        if row.get(name) is not None
    }
    return Choice(**{**row, **ids})
