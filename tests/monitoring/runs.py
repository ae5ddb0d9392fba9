"""What tests of monitoring share: policies with fixed answers, and a stand-in for wandb."""

from __future__ import annotations

import json
from types import ModuleType
from typing import TYPE_CHECKING

from pytest_cwsandbox.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_cwsandbox.rollouts.messages import AssistantMessage, Message, ToolCall
    from pytest_cwsandbox.rollouts.policy import PolicyFunction
    from pytest_cwsandbox.rollouts.trajectory import Trajectory

DOUBLE = Problem(
    task_id="1",
    prompt="Write a function `double(n)` that returns twice n.",
    test_list=("assert double(1) == 2",),
    entry_point="double",
    source="own",
)
RIGHT = "def double(n):\n    return 2 * n\n"
WRONG = "def double(n):\n    return n\n"


class StandInRun:
    """Keeps what is logged to it, as wandb does: values of one step are one row."""

    name = "stand-in"

    def __init__(self) -> None:
        self.rows: dict[int | None, dict[str, float]] = {}
        self.alerts: list[tuple[str, str]] = []

    def log(self, data: Mapping[str, float], *, step: int | None = None) -> None:
        self.rows.setdefault(step, {}).update(data)

    def alert(self, title: str, text: str, level: str) -> None:
        assert level == "WARN"
        self.alerts.append((title, text))


class StandInWandb(ModuleType):
    """wandb, imported by somebody else, with a run or without one."""

    def __init__(self, run: StandInRun | None = None) -> None:
        super().__init__("wandb")
        self.run = run


def plays(*codes: str, submits: str | None = None) -> PolicyFunction:
    """Runs these programs, one per turn, then submits or stops."""

    def answer(messages: Sequence[Message], _: object) -> AssistantMessage | str:
        turn = sum(message["role"] == "assistant" for message in messages)
        if turn < len(codes):
            return _call("execute_code", codes[turn])
        return "I give up." if submits is None else _call("submit_solution", submits)

    return answer


def _call(tool: str, code: str) -> AssistantMessage:
    call: ToolCall = {
        "id": f"call_{tool}",
        "type": "function",
        "function": {"name": tool, "arguments": json.dumps({"code": code})},
    }
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def sandboxes_of(trajectory: Trajectory) -> list[str]:
    """The ids of the sandboxes that an episode used."""
    ids = trajectory.metadata["sandbox_ids"]
    assert isinstance(ids, list)
    return ids
