"""The numbers of one training step, and their way to W&B."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from pytest_cwsandbox.outcome import Outcome, SampleRecord, Verdict
from pytest_cwsandbox.rollouts.trajectory import StopReason, Trajectory
from pytest_cwsandbox.runs.statistics import summarise
from pytest_cwsandbox.telemetry import active_run

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cwsandbox import Session

    from pytest_cwsandbox.telemetry import WandbRun


def step_metrics(
    results: Iterable[Trajectory | Outcome], *, prefix: str = "rollout"
) -> dict[str, float]:
    """Metrics of the trajectories or outcomes of a step, by name, such as ``rollout/pass_rate``.

    ``pass_rate`` with the ends of its 95 % Wilson interval, ``pass_rate_low`` and
    ``pass_rate_high``; ``mean_reward``; ``infra_rate``, the share of all that has no reward;
    ``samples``, those with one; ``verdict/NAME`` counts; ``seconds_p50`` and ``seconds_p95`` of
    those with a reward. Of trajectories also ``stop_reason/NAME`` counts, ``tool_calls`` per
    rollout and ``max_tool_calls``, ``tokens_in``, ``tokens_out`` and ``cost`` in sum, lost ones
    included.

    What has no reward enters no rate and no mean, and a number that cannot be told is left out:
    the pass rate without samples, the cost without prices. All values are finite.
    """
    results = list(results)
    summary = summarise("", [_record(result) for result in results])
    low, high = summary.interval or (None, None)
    found: dict[str, float | None] = {
        "samples": summary.samples,
        "pass_rate": summary.pass_rate,
        "pass_rate_low": low,
        "pass_rate_high": high,
        "mean_reward": summary.mean_reward,
        "infra_rate": summary.infrastructure_errors / len(results) if results else None,
        "seconds_p50": summary.p50_seconds,
        "seconds_p95": summary.p95_seconds,
        **{f"verdict/{verdict}": summary.verdicts.get(verdict, 0) for verdict in Verdict},
        **_of_trajectories([result for result in results if isinstance(result, Trajectory)]),
    }
    return {
        f"{prefix}/{name}": float(value)
        for name, value in found.items()
        if value is not None and math.isfinite(value)
    }


def log_step(
    session: Session,
    results: Iterable[Trajectory | Outcome],
    *,
    step: int,
    reset: bool = True,
    run: WandbRun | None = None,
) -> bool:
    """Log ``step_metrics(results)`` and the session's own metrics to W&B at a training step.

    To ``run``, else to the active one; False, and nothing happens, without either. The session's
    counters begin anew unless ``reset`` is False.
    """
    metrics = step_metrics(results)
    if run is not None:
        from pytest_cwsandbox.sessions import attach

        attach(session, run)
    else:
        run = active_run()
    if run is None:
        return False
    session.log_metrics(step=step, reset=reset)
    run.log(metrics, step=step)
    return True


def _record(result: Trajectory | Outcome) -> SampleRecord:
    seconds = result.seconds if isinstance(result, Outcome) else result.metrics.get("seconds", 0.0)
    return SampleRecord("", "", "", 0, result.reward, str(result.verdict), seconds=seconds)


def _of_trajectories(trajectories: Sequence[Trajectory]) -> dict[str, float | None]:
    if not trajectories:
        return {}
    reasons = Counter(trajectory.stop_reason for trajectory in trajectories)
    tool_calls = _values("tool_calls", trajectories)
    costs = _values("cost", trajectories)
    return {
        **{f"stop_reason/{reason}": reasons[reason] for reason in StopReason},
        "tool_calls": sum(tool_calls) / len(tool_calls) if tool_calls else None,
        "max_tool_calls": max(tool_calls, default=None),
        "tokens_in": sum(_values("tokens_in", trajectories)),
        "tokens_out": sum(_values("tokens_out", trajectories)),
        "cost": sum(costs) if costs else None,
    }


def _values(name: str, trajectories: Sequence[Trajectory]) -> list[float]:
    return [each.metrics[name] for each in trajectories if name in each.metrics]
