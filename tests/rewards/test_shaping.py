"""Rewards beside the tests: bounded, and never worth a lost sandbox."""

from __future__ import annotations

import functools
import inspect
import time
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cwsandbox.errors import ConfigurationError
from pytest_cwsandbox.rewards import LengthPenalty, combine, format_reward, tool_use_reward

if TYPE_CHECKING:
    from collections.abc import Sequence


def said(text: str) -> dict[str, object]:
    return {"role": "assistant", "content": text}


def result(text: object) -> dict[str, object]:
    return {"role": "tool", "name": "execute_code", "content": text}


@pytest.mark.parametrize(
    ("text", "reward"),
    [
        ("<answer>pass</answer>", 1.0),
        ("Here:\n```python\npass\n```", 1.0),
        ("pass", 0.0),
        ("<answer>cut off", 0.0),
        ("```python\ncut off", 0.0),
        ("<answer> </answer>", 0.0),
        ("</answer>pass<answer>", 0.0),
        ("", 0.0),
        ("<ANSWER>x = 1</ANSWER>", 1.0),
        ('<answer lang="python">x = 1</answer>', 1.0),
        ("~~~python\nx = 1\n~~~", 1.0),
        ("<answer>x = 1</answer> and <answer>", 1.0),
        ("<answer>x = 1</answer><answer></answer>", 1.0),
        ("<answer>```python\nx = 1\n```</answer>", 1.0),
        ("<answer>```python\nx = 1</answer>", 1.0),
        ("<think><answer>x = 1</answer></think>", 0.0),
        ("<think>```\nx = 1\n```</think>I do not know", 0.0),
        ("```\n```\nI refuse\n```", 0.0),
        ("see ``` x ``` there", 0.0),
        ("```\nx = 1\n```\nor rather\n```\nx = 2", 0.0),
        ("def f(): pass", 0.0),
    ],
)
def test_the_format_reward_wants_a_closed_answer(text: str, reward: float) -> None:
    assert format_reward(["p"] * 2, [text, [said(text)]]) == [reward, reward]


@pytest.mark.parametrize("text", ["<answer>" * 100_000, "```\n" * 100_001, "</answer>" * 100_000])
def test_the_format_reward_is_quick_with_hostile_text(text: str) -> None:
    started = time.process_time()
    format_reward(["p"], [text])
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("results", "reward"),
    [
        (["exit=0\n42\n"], 1.0),
        (["exit=1\nZeroDivisionError", "exit=0\n"], 1.0),
        (["exit=0\n"] * 50, 1.0),
        (["exit=1\n"], 0.0),
        (["Error: command timed out"], 0.0),
        (["{'error': 'Tool python not found.'}"], 0.0),
        (["exit=0"], 1.0),
        ([" exit=0\n"], 1.0),
        (["File written successfully"], 1.0),
        ([[{"type": "text", "text": "exit=0\n"}]], 1.0),
        ([[{"type": "text", "text": "exit=1\n"}]], 0.0),
        ([[{"type": "text", "text": "Error: x"}]], 0.0),
        (["exit=01\n"], 0.0),
        (["stdout: exit=0\n"], 0.0),
        ([" Error: x"], 0.0),
        (['{"error": "x"}'], 0.0),
        (["Traceback (most recent call last):"], 0.0),
        (["Submitted."], 0.0),
        ([None], 0.0),
        ([""], 0.0),
        ([], 0.0),
    ],
)
def test_one_successful_tool_call_earns_all_that_tool_use_can(
    results: list[object], reward: float
) -> None:
    conversation = [said(""), *(result(text) for text in results), said("done")]
    assert tool_use_reward(["p"], [conversation]) == [reward]


def test_a_text_uses_no_tools() -> None:
    assert tool_use_reward(["p"], ["exit=0\n"]) == [0.0]


def test_length_costs_nothing_at_first_and_never_more_than_one() -> None:
    penalty = LengthPenalty(free=10, limit=20)
    texts = ["x" * 10, "x" * 15, "x" * 20, "x" * 500]
    assert penalty(["p"] * 4, texts) == [0.0, -0.5, -1.0, -1.0]


def test_what_tools_return_is_not_the_models_length() -> None:
    conversation = [said("x" * 5), result("y" * 500), said("x" * 5)]
    assert LengthPenalty(10, 20)(["p"], [conversation]) == [0.0]


@pytest.mark.parametrize(("free", "limit"), [(-1, 5), (5, 5), (6, 5)])
def test_a_length_penalty_without_room_is_refused(free: int, limit: int) -> None:
    with pytest.raises(ConfigurationError, match="limit must be above free"):
        LengthPenalty(free, limit)


def fixed(*rewards: float | None) -> Any:
    def reward(
        prompts: Sequence[object], completions: Sequence[object], **columns: object
    ) -> list[float | None]:
        return list(rewards)

    return reward


def later(*rewards: float | None) -> Any:
    async def reward(
        prompts: Sequence[object], completions: Sequence[object], **columns: object
    ) -> list[float | None]:
        return list(rewards)

    return reward


def test_a_combined_reward_is_the_weighted_mean() -> None:
    reward: Any = combine((fixed(1.0, 0.0), 3.0), (fixed(0.0, 1.0), 1.0), name="both")
    assert reward(["p"] * 2, ["a", "b"]) == [0.75, 0.25]
    assert reward.__name__ == "both"


def test_none_of_a_part_stays_none_whatever_the_others_say() -> None:
    reward = combine((fixed(None, 1.0), 1.0), (fixed(1.0, 1.0), 0.1))
    assert reward(["p"] * 2, ["a", "b"]) == [None, 1.0]


async def test_one_asynchronous_part_makes_the_whole_asynchronous() -> None:
    reward: Any = combine((later(1.0, None), 1.0), (fixed(0.0, 0.0), 1.0))
    assert inspect.iscoroutinefunction(reward)
    assert await reward(["p"] * 2, ["a", "b"]) == [0.5, None]


@pytest.mark.parametrize("bad", [1.5, -2.0, float("nan"), float("inf")])
def test_a_part_out_of_bounds_is_named(bad: float) -> None:
    with pytest.raises(ConfigurationError, match=r"reward returned .*within -1 and 1"):
        combine((fixed(bad), 1.0))(["p"], ["a"])


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf")])
def test_weights_are_above_zero(weight: float) -> None:
    with pytest.raises(ConfigurationError, match="a weight above 0"):
        combine((format_reward, weight))


@pytest.mark.parametrize(
    "part", [format_reward, (format_reward,), (format_reward, "1"), (1.0, format_reward), None]
)
def test_parts_that_are_no_pairs_are_told_what_a_pair_is(part: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"such as combine\(\(code_reward, 1\.0\), "):
        combine((format_reward, 1.0), part)


def returning(value: object) -> Any:
    def mine(prompts: Sequence[object], completions: Sequence[object], **columns: object) -> object:
        return value

    return mine


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (None, "what mine returned must be a list .* got NoneType"),
        (1.0, "what mine returned must be a list .* got float"),
        ([1.0, 0.0], "what mine returned has 2 values for 1 completions"),
        ([], "what mine returned has 0 values for 1 completions"),
        (["1"], "mine returned '1', str: a reward must be a number or None"),
    ],
)
async def test_a_part_that_returns_no_list_of_rewards_is_named(
    value: object, complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        combine((fixed(1.0), 1.0), (returning(value), 1.0))(["p"], ["a"])
    asynchronous: Any = combine((later(1.0), 1.0), (returning(value), 1.0))
    with pytest.raises(ConfigurationError, match=complaint):
        await asynchronous(["p"], ["a"])


async def test_a_part_that_hides_a_coroutine_is_named() -> None:
    def hidden(prompts: Sequence[object], completions: Sequence[object], **columns: object) -> Any:
        return later(1.0)(prompts, completions)

    message = "hidden returned coroutine without being an async function"
    with pytest.raises(ConfigurationError, match=message):
        combine((hidden, 1.0))(["p"], ["a"])
    asynchronous: Any = combine((later(1.0), 1.0), (hidden, 1.0))
    with pytest.raises(ConfigurationError, match=message):
        await asynchronous(["p"], ["a"])


async def test_a_partly_applied_coroutine_function_is_one() -> None:
    reward: Any = combine((functools.partial(later(0.5)), 1.0))
    assert inspect.iscoroutinefunction(reward)
    assert await reward(["p"], ["a"]) == [0.5]
