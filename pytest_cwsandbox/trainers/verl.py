"""verl's reward function: ``custom_reward_function.path`` is this file, its name the default.

verl knows no missing reward: NaN would spoil a whole group, 0.0 be a lie. An infrastructure
failure is raised, which ends the run under verl's managers ``naive`` (the default) and ``dapo``.
Its managers ``prime`` and ``rate_limited`` turn every exception into 0.0: do not use those.
"""

from __future__ import annotations

from pytest_cwsandbox.rewards import CodeReward
from pytest_cwsandbox.trainers.end_tokens import without_end_tokens
from pytest_cwsandbox.trainers.ground_truth import columns_of

_reward = CodeReward(on_infrastructure="raise")


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: object,
    extra_info: object = None,
    **_: object,
) -> float:
    """1.0 for a response whose code passes the tests of ``ground_truth``, else 0.0.

    ``ground_truth`` is the problem's row or its list of asserts, either also as JSON text. Raises
    ``InfrastructureError`` where the sandboxes failed.
    """
    del data_source, extra_info
    answer = without_end_tokens(solution_str)
    [outcome] = _reward.outcomes([answer], **columns_of([ground_truth]))
    assert outcome.reward is not None  # noqa: S101 - it would have been raised
    return outcome.reward
