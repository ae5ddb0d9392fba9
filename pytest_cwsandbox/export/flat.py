"""A flat table for dataframes and SQL: a row per sample, whatever became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_cwsandbox.export.table import Kind, Table, json_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_cwsandbox.rollouts.recorded import RecordedTrajectory

METADATA = ("model", "task_id", "source", "split")


def flat(recorded: Sequence[RecordedTrajectory], _: float) -> Table:
    """Metrics have a column each, called ``metric_`` and its name; nested values are JSON text."""
    metrics = sorted({name for sample in recorded for name in sample.trajectory.metrics})
    columns: dict[str, Kind] = {
        "id": "text",
        "group": "text",
        "problem": "text",
        "sample": "integer",
        "reward": "number",
        "verdict": "text",
        "stop_reason": "text",
        "detail": "text",
    }
    columns |= dict.fromkeys(METADATA, "text")
    columns |= dict.fromkeys((f"metric_{name}" for name in metrics), "number")
    columns |= dict.fromkeys(("messages", "tools", "choices", "metadata"), "text")
    rows = [_row(sample, metrics) for sample in recorded]
    return Table(columns, rows, list(recorded), contents=f"{len(rows)} rows")


def _row(sample: RecordedTrajectory, metrics: Sequence[str]) -> dict[str, object]:
    trajectory = sample.trajectory
    known = trajectory.to_json()
    row: dict[str, object] = {
        "id": sample.id,
        "group": sample.group,
        "problem": sample.problem,
        "sample": sample.sample,
        "reward": trajectory.reward,
        "verdict": trajectory.verdict,
        "stop_reason": trajectory.stop_reason.value,
        "detail": trajectory.detail,
    }
    for name in METADATA:
        value = trajectory.metadata.get(name)
        row[name] = None if value is None else str(value)
    row |= {f"metric_{name}": trajectory.metrics.get(name) for name in metrics}
    row |= {name: json_text(known[name]) for name in ("messages", "tools", "choices", "metadata")}
    return row
