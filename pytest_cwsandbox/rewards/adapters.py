"""Other shapes of reward functions, seen as TRL's."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pytest_cwsandbox.errors import ConfigurationError
from pytest_cwsandbox.rewards.columns import problems_of, texts_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from pytest_cwsandbox.problems import Problem
    from pytest_cwsandbox.rewards.columns import Completion

    Reward = float | None
    RewardFunction = Callable[..., Sequence[Reward] | Awaitable[Sequence[Reward]]]

Shape = Literal["trl", "art", "plain"]


@dataclass(slots=True)
class Trajectory:
    """What an ART-style reward looks at: the conversation, and the problem in ``metadata``."""

    messages_and_choices: list[dict[str, object]]
    metadata: dict[str, object] = field(default_factory=dict)
    reward: float = 0.0

    def messages(self) -> list[dict[str, object]]:
        return self.messages_and_choices


def shape_of(function: Callable[..., object]) -> Shape:
    """Which shape a function has, by its parameters.

    ``completions`` is TRL's ``(prompts, completions, **columns)``; ``trajectory`` ART's
    ``(trajectory) -> float``; ``completion, problem`` the plain ``(completion, problem) -> float``.
    Raises ``ConfigurationError`` that says what was found.
    """
    signature = inspect.signature(function)
    names = [p.name for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    takes_columns = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    if "completions" in names:
        if not takes_columns:
            raise ConfigurationError(
                f"the reward function takes {signature}: add **kwargs, trainers pass every column "
                "of the dataset"
            )
        return "trl"
    if names[:1] == ["trajectory"]:
        return "art"
    if names[:2] == ["completion", "problem"]:
        return "plain"
    raise ConfigurationError(
        f"the reward function takes {signature}; it must take (prompts, completions, **columns), "
        "(trajectory) or (completion, problem)"
    )


def as_trl(function: Callable[..., object]) -> RewardFunction:
    """The function in TRL's shape; itself if it has it already."""
    shape = shape_of(function)
    if shape == "trl":
        return function  # type: ignore[return-value]  # what it returns is looked at by the caller
    one = _from_trajectory if shape == "art" else _from_completion

    async def reward(
        prompts: Sequence[object], completions: Sequence[Completion], **columns: object
    ) -> Sequence[Reward]:
        texts = texts_of(completions)
        problems = problems_of(columns, len(texts))
        rewards = [
            one(function, prompt, text, problem)
            for prompt, text, problem in zip(prompts, texts, problems, strict=True)
        ]
        return [await r if inspect.isawaitable(r) else r for r in rewards]  # type: ignore[misc]

    return reward


def _from_trajectory(
    function: Callable[..., object], prompt: object, completion: str, problem: Problem
) -> object:
    asked: list[dict[str, object]] = (
        prompt if isinstance(prompt, list) else [{"role": "user", "content": str(prompt)}]
    )
    asked = [*asked, {"role": "assistant", "content": completion}]
    return function(Trajectory(asked, metadata=problem.to_json()))


def _from_completion(
    function: Callable[..., object], prompt: object, completion: str, problem: Problem
) -> object:
    del prompt
    return function(completion, problem)
