"""TRL's conversational datasets: prompt and completion with a reward, or preference pairs.

As TRL documents them, a tool call's arguments are an object, a tool's message names the tool, and
``tools`` may be JSON text. Messages differ in their fields, and arguments in theirs: in Parquet
each message is a JSON value, which `datasets` reads back without filling in fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_cwsandbox.export.conversation import (
    NO_ANSWER,
    NO_REWARD,
    called_names,
    parsed_arguments,
    split,
    text,
)
from pytest_cwsandbox.export.table import Table, json_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_cwsandbox.rollouts.messages import Message
    from pytest_cwsandbox.rollouts.recorded import RecordedTrajectory


def prompt_completion(recorded: Sequence[RecordedTrajectory], _: float) -> Table:
    """A row per sample that has a reward."""
    table = Table(
        {
            "id": "text",
            "problem": "text",
            "prompt": "messages",
            "completion": "messages",
            "reward": "number",
            "tools": "text",
        }
    )
    for sample in _usable(recorded, table):
        prompt, completion = _conversation(sample)
        table.rows.append(
            {
                "id": sample.id,
                "problem": sample.problem,
                "prompt": prompt,
                "completion": completion,
                "reward": sample.trajectory.reward,
                "tools": _tools(sample),
            }
        )
        table.used.append(sample)
    table.contents = f"{len(table.rows)} rows"
    return table


def preference(recorded: Sequence[RecordedTrajectory], min_reward: float) -> Table:
    """A row per pair of a passed and a failed sample of one problem, asked in the same words.

    The first passed sample goes with the first failed one, and so on, each in one pair at most: a
    problem with p passed and f failed samples gives min(p, f) pairs.
    """
    table = Table(
        {
            "problem": "text",
            "prompt": "messages",
            "chosen": "messages",
            "rejected": "messages",
            "chosen_id": "text",
            "rejected_id": "text",
            "tools": "text",
        }
    )
    problems: dict[str, tuple[list[RecordedTrajectory], list[RecordedTrajectory]]] = {}
    for sample in _usable(recorded, table):
        prompt, _ = _conversation(sample)
        key = json_text([sample.group, sample.problem, prompt, _tools(sample)])
        failed = (sample.trajectory.reward or 0.0) < min_reward
        problems.setdefault(key, ([], []))[failed].append(sample)
    for passed, failed_samples in problems.values():
        pairs = list(zip(passed, failed_samples, strict=False))
        for chosen, rejected in pairs:
            prompt, completion = _conversation(chosen)
            table.rows.append(
                {
                    "problem": chosen.problem,
                    "prompt": prompt,
                    "chosen": completion,
                    "rejected": _conversation(rejected)[1],
                    "chosen_id": chosen.id,
                    "rejected_id": rejected.id,
                    "tools": _tools(chosen),
                }
            )
            table.used += [chosen, rejected]
        alone = len(passed) + len(failed_samples) - 2 * len(pairs)
        if alone:
            table.left_out["without a counterpart"] += alone
    table.contents = f"{len(table.rows)} pairs"
    return table


def _usable(recorded: Sequence[RecordedTrajectory], table: Table) -> Iterator[RecordedTrajectory]:
    for sample in recorded:
        if sample.trajectory.reward is None:
            table.left_out[NO_REWARD] += 1
        elif not split(sample.trajectory.messages)[1]:
            table.left_out[NO_ANSWER] += 1
        else:
            yield sample


def _tools(sample: RecordedTrajectory) -> str | None:
    return json_text(sample.trajectory.tools) if sample.trajectory.tools else None


def _conversation(
    sample: RecordedTrajectory,
) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    names = called_names(sample.trajectory.messages)
    prompt, completion = split(sample.trajectory.messages)
    return [_message(m, names) for m in prompt], [_message(m, names) for m in completion]


def _message(message: Message, names: dict[str, str]) -> dict[str, object]:
    written: dict[str, object] = {"role": message["role"], "content": text(message)}
    if message["role"] == "tool":
        call = message["tool_call_id"]
        return written | {"tool_call_id": call} | ({"name": names[call]} if call in names else {})
    if message["role"] == "assistant":
        if "reasoning_content" in message:
            written["reasoning_content"] = message["reasoning_content"]
        if calls := message.get("tool_calls"):
            written["tool_calls"] = [
                {
                    "id": call["id"],
                    "type": "function",
                    "function": {
                        "name": call["function"]["name"],
                        "arguments": parsed_arguments(call),
                    },
                }
                for call in calls
            ]
    return written
