"""From an episode and its grade to a trajectory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_cwsandbox.outcome import Outcome
from pytest_cwsandbox.rollouts.trajectory import Trajectory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_cwsandbox.problems import Problem
    from pytest_cwsandbox.rollouts.episode import Episode
    from pytest_cwsandbox.rollouts.options import RolloutOptions
    from pytest_cwsandbox.rollouts.policy import Policy
    from pytest_cwsandbox.rollouts.tasks import Task
    from pytest_cwsandbox.rollouts.tools import Tool
    from pytest_cwsandbox.rollouts.workplace import Workplace

MILLION = 1_000_000


def judged(
    episode: Episode,
    grade: Outcome | float | None,
    *,
    policy: Policy,
    goal: Problem | Task,
    tools: Sequence[Tool],
    workplace: Workplace,
    grade_seconds: float,
    options: RolloutOptions,
) -> Trajectory:
    """The trajectory. Without a grade the reward is None where the episode is lost, else 0.0.

    Its metric ``retries`` counts failures of sandboxes that were made good, the agent's and those
    of the grade; 0 where the reward is None. Requests that the endpoint was sent again are not in.
    """
    if isinstance(grade, Outcome):
        reward, verdict, detail = grade.reward, grade.verdict.value, grade.detail
    elif grade is not None:
        reward, verdict, detail = float(grade), "", ""
    else:
        reward, verdict, detail = None if episode.stop_reason.lost else 0.0, "", episode.detail
    metrics: dict[str, float] = {
        "turns": len(episode.choices),
        "tool_calls": episode.tool_calls,
        "tokens_in": episode.tokens_in,
        "tokens_out": episode.tokens_out,
        "model_seconds": episode.model_seconds,
        "tool_seconds": episode.tool_seconds,
        "sandbox_start_seconds": workplace.start_seconds,
        "grade_seconds": grade_seconds,
        "seconds": episode.seconds + grade_seconds,
        "retries": _retries(workplace, grade) if reward is not None else 0,
    }
    if options.price is not None:
        price_in, price_out = options.price
        metrics["cost"] = (episode.tokens_in * price_in + episode.tokens_out * price_out) / MILLION
    return Trajectory(
        messages=tuple(episode.messages),
        tools=tuple(tool.definition for tool in tools),
        stop_reason=episode.stop_reason,
        reward=reward,
        verdict=verdict,
        detail=detail,
        choices=tuple(episode.choices),
        metrics={name: round(value, 6) for name, value in metrics.items()},
        metadata={
            "task_id": goal.task_id,
            "source": goal.source,
            "split": goal.split,
            "model": model_name(policy),
            "sandbox_ids": list(workplace.sandbox_ids),
            "submission": episode.submission,
            "held_out": options.held_out,
        },
    )


def _retries(workplace: Workplace, grade: Outcome | float | None) -> int:
    return workplace.retries + (grade.retries if isinstance(grade, Outcome) else 0)


def model_name(policy: Policy) -> str:
    """What the policy calls itself, or its type."""
    name = getattr(policy, "name", None)
    return name if isinstance(name, str) and name else type(policy).__name__
