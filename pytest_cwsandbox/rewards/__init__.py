"""Reward functions with TRL's signature, `(prompts, completions, **columns) -> list`."""

from __future__ import annotations

from pytest_cwsandbox.rewards.code import (
    AsyncCodeReward,
    CodeReward,
    FractionReward,
    async_code_reward,
    code_reward,
    fraction_reward,
)
from pytest_cwsandbox.rewards.exit_code import exit_code_reward
from pytest_cwsandbox.rewards.shaping import (
    LengthPenalty,
    combine,
    format_reward,
    tool_use_reward,
)

__all__ = [
    "AsyncCodeReward",
    "CodeReward",
    "FractionReward",
    "LengthPenalty",
    "async_code_reward",
    "code_reward",
    "combine",
    "exit_code_reward",
    "format_reward",
    "fraction_reward",
    "tool_use_reward",
]
