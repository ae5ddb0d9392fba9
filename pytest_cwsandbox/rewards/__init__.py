"""Reward functions with TRL's signature, `(prompts, completions, **columns) -> list`."""

from __future__ import annotations

from pytest_cwsandbox.rewards.code import CodeReward, code_reward
from pytest_cwsandbox.rewards.exit_code import exit_code_reward

__all__ = ["CodeReward", "code_reward", "exit_code_reward"]
