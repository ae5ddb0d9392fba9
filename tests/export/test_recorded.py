"""Trajectories on disk: what was appended is read back, whatever the process died of."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.errors import ProblemFileError, UserError
from pytest_cwsandbox.rollouts.recorded import RecordedTrajectory, append, read_run
from tests.export.trajectories import lost, mixed_run, recorded, run_of

if TYPE_CHECKING:
    from pathlib import Path


def test_what_was_appended_is_read_back_in_the_order_of_ids(tmp_path: Path) -> None:
    samples = [recorded("b", 10), lost("b", 9), recorded("a", 2, 0.0)]
    run = run_of(tmp_path, *samples)
    assert read_run(run) == [samples[2], samples[1], samples[0]]


def test_a_file_of_one_worker_is_a_run_too(tmp_path: Path) -> None:
    run = run_of(tmp_path, recorded(sample=0), recorded(sample=1))
    assert [sample.sample for sample in read_run(run / "trajectories-gw1.jsonl")] == [1]


def test_the_last_attempt_of_an_id_wins(tmp_path: Path) -> None:
    for worker in ("gw2", "gw10"):
        append(tmp_path, worker, lost("a", 0))
        append(tmp_path, worker, recorded("a", 0, 0.0 if worker == "gw2" else 1.0))
    assert [sample.trajectory.reward for sample in read_run(tmp_path)] == [1.0]


def test_a_cut_off_last_line_is_skipped_with_a_warning(tmp_path: Path) -> None:
    run = run_of(tmp_path, recorded())
    with (run / "trajectories-gw0.jsonl").open("a") as file:
        file.write('{"id": "evals/test_a')
    with pytest.warns(UserWarning, match=r"trajectories-gw0.jsonl:2: skipped the last line"):
        assert len(read_run(run)) == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{broken", "not valid JSON"),
        ("[]", "must be a JSON object, got list"),
        ('{"id": 7}', "id must be a string"),
        (json.dumps(recorded(reward=float("nan")).to_json()), "reward must be a finite number"),
        (json.dumps(recorded().to_json() | {"colour": "red"}), "colour"),
    ],
)
def test_any_other_broken_line_is_named(tmp_path: Path, line: str, said: str) -> None:
    file = tmp_path / "trajectories-main.jsonl"
    file.write_text(line + "\n" + json.dumps(recorded().to_json()) + "\n")
    with pytest.raises(ProblemFileError, match=rf"trajectories-main.jsonl:1: .*{said}"):
        read_run(tmp_path)


def test_a_run_without_trajectories_says_how_to_record_them(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="rollout fixture"):
        read_run(tmp_path)


def test_every_field_survives_the_file(tmp_path: Path) -> None:
    for sample in read_run(mixed_run(tmp_path)):
        assert RecordedTrajectory.from_json(json.loads(json.dumps(sample.to_json()))) == sample
