"""OpenRLHF's reward function: ``--remote_rm_url`` is this file, ``--label_key`` the problems.

OpenRLHF catches what a reward function raises, logs it, and leaves the sample without a reward: an
infrastructure failure is never a number. What it does with such a sample later differs from
release to release; see the page on training.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_cwsandbox.errors import ConfigurationError
from pytest_cwsandbox.rewards import CodeReward
from pytest_cwsandbox.trainers.end_tokens import without_end_tokens
from pytest_cwsandbox.trainers.ground_truth import columns_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

_reward = CodeReward(on_infrastructure="raise")


def reward_func(
    queries: Sequence[str], prompts: Sequence[str], labels: Sequence[object], **_: object
) -> dict[str, torch.Tensor | dict[str, torch.Tensor]]:
    """Rewards of ``queries``, each a prompt and its answer, by the problems in ``labels``.

    A label is the problem's row or its list of asserts, either also as JSON text. Raises
    ``InfrastructureError`` where the sandboxes failed.
    """
    import torch

    rewards = torch.tensor(scores(queries, prompts, labels))
    return {"rewards": rewards, "scores": rewards, "extra_logs": {"pass_rate": rewards}}


def scores(
    queries: Sequence[str], prompts: Sequence[str], labels: Sequence[object]
) -> list[float | None]:
    """The rewards of ``reward_func`` as plain numbers."""
    answers = [_answer(query, prompt) for query, prompt in zip(queries, prompts, strict=True)]
    return [outcome.reward for outcome in _reward.outcomes(answers, **columns_of(labels))]


def _answer(query: str, prompt: str) -> str:
    start = query.find(prompt)
    if start < 0:  # what remained would hold the prompt's own code
        raise ConfigurationError(
            "a query does not hold its prompt: it was truncated, allow longer prompts"
        )
    return without_end_tokens(query[start + len(prompt) :])  # queries are decoded with them
