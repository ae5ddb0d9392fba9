"""The flat table as `datasets` reads it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.export import export_run
from pytest_cwsandbox.rollouts.recorded import read_run
from tests.export.trajectories import mixed_run

if TYPE_CHECKING:
    from pathlib import Path


def test_every_sample_has_a_row_with_its_metrics(tmp_path: Path) -> None:
    import datasets

    run, file = mixed_run(tmp_path), tmp_path / "out.parquet"
    export_run(str(run), "parquet", file, warn=pytest.fail)
    rows = datasets.load_dataset(
        "parquet", data_files=str(file), split="train", cache_dir=str(tmp_path / "cache")
    )
    samples = read_run(run)
    assert [row["id"] for row in rows] == [sample.id for sample in samples]
    assert [row["reward"] for row in rows] == [1.0, 0.0, None, 1.0, 1.0, 0.0, 0.0]
    row, trajectory = rows[2], samples[2].trajectory
    assert {name: row[name] for name in row if not name.startswith("metric_")} == {
        "id": samples[2].id,
        "group": "bundled/test_agent",
        "problem": "task/1",
        "sample": 2,
        "reward": None,
        "verdict": "",
        "stop_reason": "infrastructure_error",
        "detail": "the sandbox was taken away",
        "model": "scripted",
        "task_id": "task/1",
        "source": None,
        "split": "train",
        "messages": row["messages"],
        "tools": row["tools"],
        "choices": row["choices"],
        "metadata": row["metadata"],
    }
    assert (row["metric_tool_calls"], row["metric_turns"]) == (4.0, 3.0)
    assert json.loads(row["messages"]) == list(trajectory.messages)
    assert json.loads(row["tools"]) == list(trajectory.tools)
    assert json.loads(row["metadata"]) == trajectory.metadata
