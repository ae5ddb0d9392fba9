"""Trajectories survive the way through JSON."""

from __future__ import annotations

import json

import pytest

from pytest_cwsandbox.rollouts import StopReason, Trajectory
from pytest_cwsandbox.rollouts.trajectory import Choice

TRAJECTORY = Trajectory(
    messages=(
        {"role": "system", "content": "You are."},
        {"role": "user", "content": "Go \u2713 \N{SNOWMAN}"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{bad"}}
            ],
            "reasoning_items": [{"type": "reasoning", "id": "r"}],
        },
        {"role": "tool", "tool_call_id": "1", "content": "<script>"},
    ),
    tools=(
        {
            "type": "function",
            "function": {"name": "f", "description": "", "parameters": {}, "strict": True},
        },
    ),
    stop_reason=StopReason.MAX_TURNS,
    reward=0.0,
    choices=(Choice("tool_calls", 3, 4, {"content": []}, (1, 2), (0,)), Choice()),
    metrics={"turns": 1, "seconds": 0.25},
    metadata={"task_id": "7", "tags": ["a:b"], "sample": 3},
)


@pytest.mark.parametrize("reward", [1.0, 0.0, None])
def test_a_trajectory_survives_json(reward: float | None) -> None:
    whole = Trajectory(
        TRAJECTORY.messages,
        TRAJECTORY.tools,
        StopReason.MODEL_ERROR,
        reward,
        "",
        "why",
        TRAJECTORY.choices,
        TRAJECTORY.metrics,
        TRAJECTORY.metadata,
    )
    for trajectory in (TRAJECTORY, whole):
        assert Trajectory.from_json(json.loads(json.dumps(trajectory.to_json()))) == trajectory


@pytest.mark.parametrize(
    "change",
    [{"stop_reason": "bored"}, {"messages": "text"}, {"new": 1}, {"choices": [{"odd": 1}]}],
)
def test_what_is_no_trajectory_is_refused(change: dict[str, object]) -> None:
    with pytest.raises((TypeError, ValueError)):
        Trajectory.from_json({**TRAJECTORY.to_json(), **change})


def test_only_failures_of_others_lose_an_episode() -> None:
    lost = {reason for reason in StopReason if reason.lost}
    assert lost == {StopReason.MODEL_ERROR, StopReason.INFRASTRUCTURE_ERROR}
