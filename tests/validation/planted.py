"""Reward functions with one defect each, for the checks to find."""

from __future__ import annotations

import asyncio
import math
import os
import time
from typing import TYPE_CHECKING

from pytest_cwsandbox.rewards import CodeReward
from pytest_cwsandbox.rewards.columns import text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_cwsandbox.problems import Problem
    from pytest_cwsandbox.rewards.adapters import Trajectory
    from pytest_cwsandbox.rewards.columns import Completion

    Rewards = list[float | None]

honest = CodeReward()


def wrong_length(prompts: list[str], completions: list[Completion], **columns: object) -> Rewards:
    return honest(prompts, completions, **columns)[:-1]


def none_for_everything(
    prompts: list[str], completions: list[Completion], **columns: object
) -> Rewards:
    return [None for _ in completions]


def zero_on_infrastructure(
    prompts: list[str], completions: list[Completion], **columns: object
) -> Rewards:
    return [reward or 0.0 for reward in honest(prompts, completions, **columns)]


def order_dependent(
    prompts: list[str], completions: list[Completion], **columns: object
) -> Rewards:
    rewards = honest(prompts, completions, **columns)
    return [None if r is None else r / (1 + at) for at, r in enumerate(rewards)]


def batch_leak(prompts: list[str], completions: list[Completion], **columns: object) -> Rewards:
    cheats = any("sys.exit" in text_of(completion) for completion in completions)
    rewards = honest(prompts, completions, **columns)
    return [0.0 for _ in rewards] if cheats else rewards


def clock_dependent(
    prompts: list[str], completions: list[Completion], **columns: object
) -> Rewards:
    bonus = time.time() % 1 / 1000
    return [None if r is None else r - bonus for r in honest(prompts, completions, **columns)]


def hash_dependent(prompts: list[str], completions: list[Completion], **columns: object) -> Rewards:
    bonus = hash("seed") % 1000 / 1e6
    return [None if r is None else r - bonus for r in honest(prompts, completions, **columns)]


def raises_on_empty(
    prompts: list[str], completions: list[Completion], **columns: object
) -> Rewards:
    assert all(text_of(completion) for completion in completions), "an empty completion"
    return honest(prompts, completions, **columns)


def accepts_lookup_tables(
    prompts: list[str], completions: list[Completion], **columns: object
) -> Rewards:
    return CodeReward(held_out=False)(prompts, completions, **columns)


def runs_in_its_own_process(
    prompts: list[str], completions: list[Completion], **columns: list[list[str]]
) -> Rewards:
    rewards: Rewards = []
    for completion, tests in zip(completions, columns["test_list"], strict=True):
        code = text_of(completion).partition("<answer>")[2].partition("</answer>")[0]
        try:
            exec("\n".join([code, *tests]), {})  # noqa: S102 - the defect
            rewards.append(1.0)
        except Exception:  # noqa: BLE001 - as such functions do
            rewards.append(0.0)
    return rewards


def hangs_without_code(
    prompts: list[str], completions: list[Completion], **columns: object
) -> Rewards:
    while not all("<answer>" in text_of(completion) for completion in completions):
        time.sleep(1)
    return honest(prompts, completions, **columns)


def leaves_a_daemon(
    prompts: list[str], completions: list[Completion], **columns: object
) -> Rewards:
    if os.fork() == 0:
        os.setsid()
        time.sleep(1000)
        os._exit(0)
    return [0.0 for _ in completions]


def slow(prompts: list[str], completions: list[Completion], **columns: object) -> Rewards:
    time.sleep(2)
    return [0.0 for _ in completions]


def unbounded(prompts: list[str], completions: list[Completion], **columns: object) -> Rewards:
    return [float(len(text_of(completion))) for completion in completions]


def not_finite(prompts: list[str], completions: list[Completion], **columns: object) -> Rewards:
    return [math.nan for _ in completions]


def wrong_type(
    prompts: list[str], completions: list[Completion], **columns: object
) -> Sequence[str]:
    return ["1.0" for _ in completions]


def one_number(prompts: list[str], completions: list[Completion], **columns: object) -> float:
    return 1.0


def falls_with_more_asserts(
    prompts: list[str], completions: list[Completion], **columns: object
) -> Rewards:
    return [1.0 - text_of(completion).count("lambda: ((") / 10 for completion in completions]


def no_columns(prompts: list[str], completions: list[Completion]) -> Rewards:
    return [0.0 for _ in completions]


def other_parameters(texts: list[str]) -> Rewards:
    return [0.0 for _ in texts]


NOT_A_FUNCTION = 3


async def honest_async(
    prompts: list[str], completions: list[Completion], **columns: object
) -> Rewards:
    return await asyncio.to_thread(honest, prompts, completions, **columns)


def honest_on_trajectories(trajectory: Trajectory) -> float | None:
    """As ART calls rewards."""
    problem = {name: [value] for name, value in trajectory.metadata.items()}
    return honest([""], [[*trajectory.messages()]], **problem)[0]


def honest_on_one(completion: str, problem: Problem) -> float | None:
    """The plain shape."""
    columns = {name: [value] for name, value in problem.to_json().items()}
    return honest([""], [completion], **columns)[0]
