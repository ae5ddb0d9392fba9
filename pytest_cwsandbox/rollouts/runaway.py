"""Alerts about agents that do not stop, while they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_cwsandbox.telemetry import ROLLOUTS, active_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_cwsandbox.problems import Problem
    from pytest_cwsandbox.rollouts.options import RolloutOptions
    from pytest_cwsandbox.rollouts.tasks import Task
    from pytest_cwsandbox.rollouts.workplace import Workplace
    from pytest_cwsandbox.telemetry import WandbRun


class RunawayWarning(UserWarning):
    """A rollout made more tool calls than ``--cwsandbox-alert-tool-calls``."""


def watch(
    goal: Problem | Task, workplace: Workplace, options: RolloutOptions
) -> Callable[[int], None] | None:
    """What an episode tells its count of tool calls; None when nobody wants to be alerted."""
    limit = options.alert_tool_calls
    if limit is None:
        return None

    def count(tool_calls: int) -> None:
        if tool_calls != limit + 1:  # counted one by one: this happens once
            return
        sandboxes = ", ".join(workplace.sandbox_ids) or "none"
        text = (
            f"runaway rollout: {goal.id} makes tool call {tool_calls}, more than {limit}; "
            f"sandboxes: {sandboxes}"
        )
        ROLLOUTS.warning("%s", text)
        if options.on_runaway is not None:
            options.on_runaway(text)
        if (run := active_run()) is not None:
            _alert(run, f"Runaway rollout: {goal.id}", text)

    return count


def _alert(run: WandbRun, title: str, text: str) -> None:
    try:
        run.alert(title, text, "WARN")
    except Exception as error:  # noqa: BLE001 - wandb's own trouble must not end the episode
        ROLLOUTS.warning("the alert did not reach W&B: %s", error)
