"""The art file as the real ART reads it, with its own reader and with ours."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

import pytest

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # art's import asks the network else
art = pytest.importorskip("art", reason="needs openpipe-art, which has an environment of its own")

from pytest_cwsandbox.export import export_run  # noqa: E402 - after the import that may skip
from pytest_cwsandbox.export.art import read_groups  # noqa: E402 - likewise
from tests.export.trajectories import (  # noqa: E402 - likewise
    ENCRYPTED,
    TOOLS,
    lost,
    mixed_run,
    prompt,
    recorded,
    run_of,
)

if TYPE_CHECKING:
    from pathlib import Path

LOGPROBS: dict[str, object] = {
    "content": [
        {"token": "token_id:7", "bytes": [97], "logprob": -0.25, "top_logprobs": []},
    ],
    "refusal": None,
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    out = tmp_path / "out.jsonl"
    export_run(str(mixed_run(tmp_path)), "art", out, warn=pytest.fail)
    return out


def test_arts_own_reader_takes_the_file(file: Path) -> None:
    from art.utils.trajectory_migration import deserialize_trajectory_groups
    from openai.types.chat.chat_completion import Choice

    first, second = deserialize_trajectory_groups(file.read_text())
    assert [trajectory.reward for trajectory in first] == [1.0, 0.0, 1.0]
    assert [trajectory.reward for trajectory in second] == [1.0, 0.0, 0.0]
    said = first.trajectories[0].messages_and_choices
    assert [isinstance(message, Choice) for message in said] == [
        *(False, False, True, False, False, True, False, True, False)
    ]
    choice = said[2]
    assert (choice.finish_reason, choice.index, choice.logprobs) == ("tool_calls", 0, None)
    assert [call.function.name for call in choice.message.tool_calls] == [
        "execute_code",
        "write_file",
    ]
    assert second.trajectories[0].messages_and_choices[-1].finish_reason == "stop"


def test_a_group_holds_what_its_problem_earned_and_lost(file: Path) -> None:
    first, second = read_groups(file)
    assert first.metadata == {"group": "bundled/test_agent", "problem": "task/1"}
    assert [trajectory.reward for trajectory in first] == [1.0, 0.0, 1.0]
    [exception] = first.exceptions
    assert exception.type == "<class 'pytest_cwsandbox.errors.InfrastructureError'>"
    assert exception.message == "the sandbox was taken away"
    assert second.exceptions == []
    trajectory = first.trajectories[1]
    assert trajectory.tools == list(TOOLS)
    assert trajectory.metrics == {"tool_calls": 4.0, "turns": 3.0, "seconds": 1.5}
    assert trajectory.metadata["sample"] == 1
    assert trajectory.metadata["tags"] == '["a", "b"]'
    assert trajectory.metadata["stop_reason"] == "submitted"
    assert second.trajectories[0].tools is None


def test_messages_come_back_as_they_were_said(file: Path) -> None:
    [trajectory, *_], *_ = read_groups(file)
    messages = trajectory.messages()
    assert messages[:2] == prompt("task/1")
    assert [message["role"] for message in messages] == [
        *("system", "user", "assistant", "tool", "tool", "assistant", "tool", "assistant", "tool")
    ]
    assert messages[5]["tool_calls"][0]["function"]["arguments"] == '{"code": "unfinished'
    assert ENCRYPTED not in file.read_text()


def test_logprobs_reach_the_choice(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    export_run(str(run_of(tmp_path, recorded(logprobs=LOGPROBS))), "art", out, warn=pytest.fail)
    [[trajectory]] = read_groups(out)
    for message in trajectory.messages_and_choices:
        if not isinstance(message, dict):
            assert message.logprobs.to_dict() == LOGPROBS


def test_a_problem_of_which_everything_was_lost_is_a_group_of_exceptions(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    export_run(str(run_of(tmp_path, lost("a", 0), lost("a", 1))), "art", out, warn=pytest.fail)
    [group] = read_groups(out)
    assert (len(group), len(group.exceptions)) == (0, 2)


def test_no_reward_is_ever_invented(file: Path) -> None:
    rewards = [trajectory.reward for group in read_groups(file) for trajectory in group]
    assert len(rewards) == 6
    assert all(math.isfinite(reward) for reward in rewards)
