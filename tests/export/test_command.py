"""`pytest-cwsandbox export`: what it says, what it refuses, and what it leaves behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_cwsandbox.errors import UserError
from pytest_cwsandbox.export import export_run
from tests.export.trajectories import lost, mixed_run, prompt, recorded, run_of


def export(*arguments: str | Path, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "pytest_cwsandbox", "export", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )


def exported(*arguments: str | Path) -> list[dict[str, object]]:
    """The rows of the JSONL file that the command wrote; its path is the last argument."""
    done = export(*arguments)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in Path(arguments[-1]).read_text().split("\n") if line]


@pytest.mark.parametrize(
    ("to", "name", "report"),
    [
        (
            "trl",
            "out.parquet",
            (
                "5 rows (trl); left out: 1 without a reward (the endpoint or the infrastructure "
                "failed), 1 without an answer of the model"
            ),
        ),
        (
            "trl-preference",
            "out.jsonl",
            (
                "2 pairs (trl-preference); left out: 1 without a reward (the endpoint or the "
                "infrastructure failed), 1 without an answer of the model, 1 without a counterpart"
            ),
        ),
        ("art", "out.jsonl", "2 groups of 6 trajectories and 1 exceptions (art)"),
        (
            "openai",
            "out.jsonl",
            (
                "3 rows (openai); left out: 3 with a reward below 1, 1 without a reward (the "
                "endpoint or the infrastructure failed)"
            ),
        ),
        ("parquet", "out.parquet", "7 rows (parquet)"),
    ],
)
def test_a_line_says_what_was_written_and_what_was_left_out(
    tmp_path: Path, to: str, name: str, report: str
) -> None:
    out = tmp_path / name
    done = export(mixed_run(tmp_path), "--to", to, "-o", out)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{out}: wrote {report}\n"


def test_the_file_is_there_alone_and_replaces_the_old_one(tmp_path: Path) -> None:
    run, folder = mixed_run(tmp_path), tmp_path / "out"
    folder.mkdir()
    for _ in range(2):
        assert len(exported(run, "--to", "trl", "-o", folder / "out.jsonl")) == 5
    assert [path.name for path in folder.iterdir()] == ["out.jsonl"]
    assert (folder / "out.jsonl").stat().st_mode == (run / "trajectories-gw0.jsonl").stat().st_mode


def test_a_failed_export_leaves_the_old_file_as_it_was(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("precious")
    broken = recorded(logprobs={"content": [{"token": "a", "logprob": float("-inf")}]})
    done = export(run_of(tmp_path, broken), "--to", "art", "-o", out)
    assert done.returncode == 2
    assert "a recorded number is not finite" in done.stderr
    assert out.read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl", "run"]


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    run, taken = mixed_run(tmp_path), tmp_path / "out.jsonl"
    taken.mkdir()
    with pytest.raises(UserError, match=r"out.jsonl: cannot be written: Is a directory"):
        export_run(str(run), "trl", taken, warn=pytest.fail)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl", "run"]


@pytest.mark.parametrize(
    ("to", "name", "said"),
    [
        ("art", "out.parquet", "art writes .jsonl"),
        ("parquet", "out.csv", "parquet writes .parquet"),
        ("trl", "out", "trl writes .parquet or .jsonl"),
        ("trl", "absent/out.jsonl", "cannot be written: No such file or directory"),
    ],
)
def test_a_path_that_does_not_fit_is_one_line(
    tmp_path: Path, to: str, name: str, said: str
) -> None:
    done = export(mixed_run(tmp_path), "--to", to, "-o", tmp_path / name)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert said in done.stderr


def test_a_run_of_which_nothing_fits_writes_no_file(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    done = export(run_of(tmp_path, lost("a", 0)), "--to", "openai", "-o", out)
    assert done.returncode == 2
    assert "nothing of" in done.stderr
    assert "1 without a reward" in done.stderr
    assert not out.exists()


def test_a_run_is_found_by_path_by_id_and_as_the_latest(tmp_path: Path) -> None:
    runs = tmp_path / ".cwsandbox" / "runs"
    for name, samples in (("20260101-000000-ffffff", 1), ("20260102-000000-000000", 2)):
        run_of(tmp_path, *(recorded(sample=sample) for sample in range(samples)))
        runs.mkdir(parents=True, exist_ok=True)
        (tmp_path / "run").rename(runs / name)
    for run, rows in (
        ("latest", 2),
        ("20260101-000000-ffffff", 1),
        (".cwsandbox/runs/20260102-000000-000000", 2),
        (".cwsandbox/runs/20260102-000000-000000/trajectories-gw0.jsonl", 1),
    ):
        done = export(run, "--to", "trl", "-o", "out.jsonl", folder=tmp_path)
        assert f"wrote {rows} rows" in done.stdout, done.stderr
    done = export("nowhere", "--to", "trl", "-o", "out.jsonl", folder=tmp_path)
    assert done.returncode == 2
    assert "no such file or folder" in done.stderr


def test_latest_without_runs_says_so(tmp_path: Path) -> None:
    done = export("latest", "--to", "trl", "-o", "out.jsonl", folder=tmp_path)
    assert done.returncode == 2
    assert "no runs here" in done.stderr


@pytest.mark.parametrize("to", ["trl", "art", "openai"])
def test_training_data_from_another_split_than_train_warns(tmp_path: Path, to: str) -> None:
    run = run_of(tmp_path, recorded("a", 0, split="test"), recorded("b", 0, split=""))
    done = export(run, "--to", to, "-o", tmp_path / "out.jsonl")
    assert done.returncode == 0
    assert done.stderr.startswith("warning: trajectories outside the train split: 1 of test;")


def test_a_table_of_another_split_does_not_warn(tmp_path: Path) -> None:
    run = run_of(tmp_path, recorded(split="test"))
    assert export(run, "--to", "parquet", "-o", tmp_path / "out.parquet").stderr == ""


def test_a_cut_off_line_warns(tmp_path: Path) -> None:
    run = run_of(tmp_path, recorded())
    with (run / "trajectories-gw0.jsonl").open("a") as file:
        file.write("{")
    done = export(run, "--to", "trl", "-o", tmp_path / "out.jsonl")
    assert done.returncode == 0
    assert "warning: " in done.stderr
    assert "cut off" in done.stderr


def test_min_reward_says_what_passed_means(tmp_path: Path) -> None:
    run = run_of(tmp_path, *(recorded("a", n, reward) for n, reward in enumerate((0.0, 0.5, 1.0))))
    out = tmp_path / "out.jsonl"
    assert len(exported(run, "--to", "openai", "--min-reward", "0.5", "-o", out)) == 2
    [pair] = exported(run, "--to", "trl-preference", "--min-reward", "0.5", "-o", out)
    assert str(pair["chosen_id"]).endswith("[a-1]")
    done = export(run, "--to", "trl", "--min-reward", "0.5", "-o", out)
    assert done.returncode == 2
    assert "--min-reward does not apply to trl" in done.stderr


def test_samples_of_other_prompts_are_no_pair(tmp_path: Path) -> None:
    run = run_of(
        tmp_path,
        recorded("a", 0, 1.0),
        recorded(
            "a", 1, 0.0, messages=[*prompt("another"), *recorded("a").trajectory.messages[2:]]
        ),
    )
    done = export(run, "--to", "trl-preference", "-o", tmp_path / "out.jsonl")
    assert done.returncode == 2
    assert "2 without a counterpart" in done.stderr


def test_help_names_every_format() -> None:
    shown = export("--help").stdout
    assert "--to [trl|trl-preference|art|openai|parquet]" in shown
