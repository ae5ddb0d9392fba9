"""OpenPipe ART's trajectory groups: a JSON line per problem, assistant messages as choices.

ART's own reader (``art.utils.trajectory_migration``) takes the file, but forgets tools, exceptions
and a group's metadata; ``read_groups`` keeps them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from pytest_cwsandbox.errors import InfrastructureError, ModelError
from pytest_cwsandbox.export.table import Table, json_text
from pytest_cwsandbox.rollouts.trajectory import Choice, StopReason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from art import Trajectory as ArtTrajectory
    from art import TrajectoryGroup

    from pytest_cwsandbox.rollouts.messages import AssistantMessage
    from pytest_cwsandbox.rollouts.recorded import RecordedTrajectory
    from pytest_cwsandbox.rollouts.trajectory import Trajectory

FINISH_REASONS = ("stop", "length", "tool_calls", "content_filter", "function_call")


def trajectory_groups(recorded: Sequence[RecordedTrajectory], _: float) -> Table:
    """A row per problem; samples without a reward are its exceptions, never a number."""
    table = Table({})
    groups: dict[tuple[str, str], list[RecordedTrajectory]] = {}
    for sample in recorded:
        groups.setdefault((sample.group, sample.problem), []).append(sample)
    for (group, problem), samples in groups.items():
        earned = [sample for sample in samples if sample.trajectory.reward is not None]
        lost = [sample for sample in samples if sample.trajectory.reward is None]
        table.used += earned
        table.rows.append(
            {
                "trajectories": [_row(sample) for sample in earned],
                "exceptions": [_exception(loss(sample.trajectory)) for sample in lost],
                "metadata": {"group": group, "problem": problem},
                "metrics": {},
                "logs": [],
            }
        )
    table.contents = (
        f"{len(groups)} groups of {len(table.used)} trajectories"
        f" and {len(recorded) - len(table.used)} exceptions"
    )
    return table


def read_groups(path: Path) -> list[TrajectoryGroup]:
    """The groups of an exported file, ready for ``backend.train``."""
    from art import TrajectoryGroup
    from art.trajectories import PydanticException

    groups = []
    for line in path.read_bytes().split(b"\n"):
        if not line:
            continue
        row = json.loads(line)
        group = TrajectoryGroup(
            [art_trajectory(trajectory) for trajectory in row["trajectories"]],
            metadata=row["metadata"],
            metrics=row["metrics"],
            logs=row["logs"],
        )
        # The constructor takes live exceptions only.
        group.exceptions = [PydanticException(**exception) for exception in row["exceptions"]]
        groups.append(group)
    return groups


def _row(sample: RecordedTrajectory) -> dict[str, object]:
    return trajectory_row(
        sample.trajectory,
        id=sample.id,
        group=sample.group,
        problem=sample.problem,
        sample=sample.sample,
    )


def art_trajectory(row: Mapping[str, object], **fields: object) -> ArtTrajectory:
    """ART's own object of a row of ``trajectory_row``; ``fields`` are ART's, beside the row's."""
    from art import Trajectory as ArtTrajectory
    from openai.types.chat.chat_completion import Choice as ChatChoice

    said = [
        ChatChoice(**message) if "message" in message else message
        for message in cast("list[dict[str, Any]]", row["messages_and_choices"])
    ]
    taken: dict[str, Any] = {**row, **fields, "messages_and_choices": said}
    return ArtTrajectory(**taken)


def trajectory_row(trajectory: Trajectory, **metadata: object) -> dict[str, object]:
    """What ART's ``Trajectory`` says, as JSON; assistant messages are choices.

    Of one with a reward: raises what it lost its reward to, ``InfrastructureError`` or
    ``ModelError``.
    """
    if trajectory.reward is None:
        raise loss(trajectory)
    choices = iter(trajectory.choices)
    return {
        "messages_and_choices": [
            _choice(message, next(choices, Choice())) if message["role"] == "assistant" else message
            for message in trajectory.messages
        ],
        "tools": list(trajectory.tools) or None,
        "reward": float(trajectory.reward),
        "metrics": dict(trajectory.metrics),
        "metadata": {
            name: _plain(value)
            for name, value in {
                **trajectory.metadata,
                **metadata,
                "stop_reason": trajectory.stop_reason.value,
                "verdict": trajectory.verdict,
            }.items()
        },
        "logs": [trajectory.detail] if trajectory.detail else [],
        "additional_histories": [],
    }


def loss(trajectory: Trajectory) -> InfrastructureError:
    """What a trajectory without a reward lost it to."""
    by_model = trajectory.stop_reason is StopReason.MODEL_ERROR
    kind = ModelError if by_model else InfrastructureError
    return kind(trajectory.detail or trajectory.stop_reason.value)


def _choice(message: AssistantMessage, said: Choice) -> dict[str, object]:
    calls = message.get("tool_calls")
    finish = said.finish_reason
    if finish not in FINISH_REASONS:
        finish = "tool_calls" if calls else "stop"
    kept = {name: value for name, value in message.items() if name != "reasoning_items"}
    return {"finish_reason": finish, "index": 0, "logprobs": said.logprobs, "message": kept}


def _exception(error: InfrastructureError) -> dict[str, object]:
    # The type as ART writes those of live exceptions.
    return {"type": str(type(error)), "message": str(error), "traceback": ""}


def _plain(value: object) -> float | int | str | bool | None:
    """ART's metadata holds no lists and objects; they go as JSON text."""
    return value if value is None or isinstance(value, float | int | str) else json_text(value)
