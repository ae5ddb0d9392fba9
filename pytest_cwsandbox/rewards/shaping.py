"""Small rewards beside the tests: each bounded, in TRL's signature, and combined with care.

TRL adds up the rewards of several functions and takes a missing one for 0.0: a completion whose
sandbox failed would count as wrong as soon as another function has an opinion about it. ``combine``
makes one function of several, in which None stays None.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import re
from numbers import Real
from typing import TYPE_CHECKING, Protocol, cast

from pytest_cwsandbox.errors import ConfigurationError
from pytest_cwsandbox.grading.extract import is_closed
from pytest_cwsandbox.rewards.columns import content_of, listed, messages_of, texts_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from pytest_cwsandbox.rewards.columns import Completion

    Rewards = Sequence[float | None]


class RewardFunction(Protocol):
    """TRL's signature, sync or async."""

    def __call__(
        self, prompts: Sequence[object], completions: Sequence[Completion], **columns: object
    ) -> Rewards | Awaitable[Rewards]: ...


SUCCEEDED = re.compile(r"exit=0(?!\S)|File written successfully")


def format_reward(
    prompts: Sequence[object], completions: Sequence[Completion], **columns: object
) -> list[float]:
    """1.0 where the code that counts stands in a closed ``<answer>`` or code fence, else 0.0."""
    del prompts, columns
    return [float(is_closed(text)) for text in texts_of(completions)]


def tool_use_reward(
    prompts: Sequence[object], completions: Sequence[Completion], **columns: object
) -> list[float]:
    """1.0 where at least one tool call of the conversation succeeded, else 0.0.

    More calls earn no more. A call succeeded if its result begins with ``exit=0``, as of a program
    that ran, or says that a file was written; to submit is no use of a tool.
    """
    del prompts, columns
    return [float(any(map(_succeeded, _tool_results(done)))) for done in listed(completions)]


class LengthPenalty:
    """0.0 up to ``free`` characters, from there down to -1.0 at ``limit`` and beyond.

    Counts all that the model wrote, thinking and every turn included, but no tool results.
    """

    def __init__(self, free: int, limit: int) -> None:
        if not 0 <= free < limit:
            raise ConfigurationError(
                f"LengthPenalty(free={free}, limit={limit}): limit must be above free, free not "
                "below 0"
            )
        self.__name__ = "length_penalty"
        self._free = free
        self._limit = limit

    def __call__(
        self, prompts: Sequence[object], completions: Sequence[Completion], **columns: object
    ) -> list[float]:
        del prompts, columns
        return [self._penalty(_written(completion)) for completion in listed(completions)]

    def _penalty(self, characters: int) -> float:
        over = (characters - self._free) / (self._limit - self._free)
        return -min(max(over, 0.0), 1.0)


def combine(*parts: tuple[RewardFunction, float], name: str = "combined_reward") -> RewardFunction:
    """One reward function: the mean of several, weighted, within -1.0 and 1.0.

    ``combine((code_reward, 1.0), (format_reward, 0.1))``. None where any part is None. Give what
    judges the result more weight than all the rest together: then no shaping is worth more than a
    pass. Asynchronous if any part is. Raises ``ConfigurationError`` for weights that are not above
    0, and at a call for a part that returns anything but a list of rewards in [-1, 1].
    """
    if not parts or not all(map(_is_weighted, parts)):
        raise ConfigurationError(
            "combine() needs pairs of a reward function and a weight above 0, such as "
            "combine((code_reward, 1.0), (format_reward, 0.1))"
        )
    total = sum(weight for _, weight in parts)

    def combined(results: Sequence[object], count: int) -> list[float | None]:
        columns_of_rewards = [
            _checked(function, result, count)
            for (function, _), result in zip(parts, results, strict=True)
        ]
        return [
            _mean(row, [weight / total for _, weight in parts])
            for row in zip(*columns_of_rewards, strict=True)
        ]

    if any(map(_is_async, (function for function, _ in parts))):

        async def reward(
            prompts: Sequence[object], completions: Sequence[Completion], **columns: object
        ) -> list[float | None]:
            async def one(function: RewardFunction) -> object:
                if _is_async(function):
                    result = function(prompts, completions, **columns)
                    return await result if inspect.isawaitable(result) else result
                return await asyncio.to_thread(function, prompts, completions, **columns)

            results = await asyncio.gather(*(one(function) for function, _ in parts))
            return combined(results, len(completions))

    else:

        def reward(  # type: ignore[misc]  # the same but for being a coroutine
            prompts: Sequence[object], completions: Sequence[Completion], **columns: object
        ) -> list[float | None]:
            results = [function(prompts, completions, **columns) for function, _ in parts]
            return combined(results, len(completions))

    reward.__name__ = name
    return reward


def _is_async(function: RewardFunction) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(function.__call__)


def _is_weighted(part: object) -> bool:
    if not isinstance(part, tuple) or len(part) != 2:
        return False
    function, weight = part
    return callable(function) and isinstance(weight, Real) and 0 < float(weight) < math.inf


def _checked(function: RewardFunction, result: object, count: int) -> list[float | None]:
    """What the function returned, if it is a list of rewards; else it is named."""
    name = getattr(function, "__name__", type(function).__name__)
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()  # or Python complains of it too
        raise ConfigurationError(
            f"{name} returned {type(result).__name__} without being an async function: "
            "define it with async def"
        )
    rewards = listed(result, f"what {name} returned", count)
    for reward in rewards:
        if reward is None:
            continue
        if not isinstance(reward, Real):
            raise ConfigurationError(
                f"{name} returned {reward!r:.80}, {type(reward).__name__}: a reward must be a "
                "number or None"
            )
        if not -1.0 <= float(reward) <= 1.0:  # NaN is not either
            raise ConfigurationError(
                f"{name} returned {reward}: parts of combine() must stay within -1 and 1"
            )
    return cast("list[float | None]", rewards)


def _mean(row: Sequence[float | None], weights: Sequence[float]) -> float | None:
    rewards = [reward for reward in row if reward is not None]
    if len(rewards) < len(row):
        return None
    mean = math.fsum(w * reward for w, reward in zip(weights, rewards, strict=True))
    return min(max(mean, -1.0), 1.0)


def _tool_results(completion: object) -> list[str]:
    return [
        content_of(message) for message in messages_of(completion) if message.get("role") == "tool"
    ]


def _succeeded(result: str) -> bool:
    return SUCCEEDED.match(result.strip()) is not None


def _written(completion: object) -> int:
    if isinstance(completion, str):
        return len(completion)
    return sum(
        len(content_of(message))
        + len(str(message.get("reasoning_content") or ""))
        + len(str(message.get("tool_calls") or ""))
        for message in messages_of(completion)
        if message.get("role", "assistant") == "assistant"
    )
