"""OpenAI's chat fine-tuning format: conversations to imitate, with their tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_cwsandbox.export.conversation import NO_ANSWER, NO_REWARD, split
from pytest_cwsandbox.export.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_cwsandbox.rollouts.messages import Message
    from pytest_cwsandbox.rollouts.recorded import RecordedTrajectory


def conversations(recorded: Sequence[RecordedTrajectory], min_reward: float) -> Table:
    """A row per sample that earned ``min_reward``; it ends with the model's last message."""
    table = Table({})
    for sample in recorded:
        prompt, completion = split(sample.trajectory.messages)
        reward = sample.trajectory.reward
        if reward is None:
            table.left_out[NO_REWARD] += 1
        elif reward < min_reward:
            table.left_out[f"with a reward below {min_reward:g}"] += 1
        elif not completion:
            table.left_out[NO_ANSWER] += 1
        else:
            row: dict[str, object] = {"messages": [_message(m) for m in prompt + completion]}
            if sample.trajectory.tools:
                # Episodes run with Chat Completions' default: several calls in a turn.
                row |= {"tools": list(sample.trajectory.tools), "parallel_tool_calls": True}
            table.rows.append(row)
            table.used.append(sample)
    table.contents = f"{len(table.rows)} rows"
    return table


def _message(message: Message) -> dict[str, object]:
    """Only what fine-tuning takes: no reasoning, and content may be null beside tool calls only."""
    if message["role"] == "tool":
        return {
            "role": "tool",
            "tool_call_id": message["tool_call_id"],
            "content": message["content"],
        }
    if message["role"] != "assistant":
        return {"role": message["role"], "content": message["content"]}
    kept: dict[str, object] = {"role": "assistant", "content": message["content"]}
    if message.get("refusal"):
        kept["refusal"] = message["refusal"]
    if calls := message.get("tool_calls"):
        kept["tool_calls"] = calls
    elif message["content"] is None and "refusal" not in kept:
        kept["content"] = ""
    return kept
