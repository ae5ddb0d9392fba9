"""The commands `baseline` and `compare`, on runs as the journal holds them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.errors import ProblemFileError
from pytest_cwsandbox.outcome import SampleRecord
from pytest_cwsandbox.runs import baseline, journal
from pytest_cwsandbox.runs.journal import Entry

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def command(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("CWSANDBOX_")}
    return subprocess.run(
        [sys.executable, "-m", "pytest_cwsandbox", *args],
        cwd=folder,
        env={**env, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=False,
    )


def record_run(folder: Path, name: str, rewards: Sequence[float | None]) -> None:
    """A run of single samples of the problems toy-0, toy-1, ..."""
    for number, reward in enumerate(rewards):
        record = SampleRecord(
            id=f"evals/test_a.py::test_agent[toy-{number}]",
            group="toy/test_agent",
            problem=f"toy-{number}",
            sample=0,
            reward=reward,
            metadata={"model": "tiny"},
        )
        entry = Entry(record, "lost" if reward is None else "ended")
        journal.append(folder / ".cwsandbox/runs" / name, "main", entry)


def test_a_baseline_has_a_line_per_sample_in_natural_order(tmp_path: Path) -> None:
    record_run(tmp_path, "20260101-000000-a", [1.0, 0.0, None, *[1.0] * 8])
    made = command(tmp_path, "baseline", "latest", "-o", "evals/baseline.json")
    assert made.returncode == 0
    left_out = "left out: 1 lost to infrastructure"
    assert made.stdout == f"evals/baseline.json: wrote the rewards of 10 samples; {left_out}\n"
    text = (tmp_path / "evals/baseline.json").read_text()
    assert text.splitlines()[:8] == [
        "{",
        '  "kind": "pytest-cwsandbox baseline",',
        '  "schema": 1,',
        '  "run": "20260101-000000-a",',
        '  "model": "tiny",',
        '  "groups": {',
        '    "toy/test_agent": {',
        '      "evals/test_a.py::test_agent[toy-0]": {"problem": "toy-0", "reward": 1.0},',
    ]
    [samples] = json.loads(text)["groups"].values()
    assert list(samples)[-2:] == [f"evals/test_a.py::test_agent[toy-{n}]" for n in (9, 10)]
    command(tmp_path, "baseline", "20260101-000000-a", "--output=again.json")
    assert (tmp_path / "again.json").read_text() == text


def test_a_baseline_of_nothing_is_refused(tmp_path: Path) -> None:
    record_run(tmp_path, "lost", [None])
    made = command(tmp_path, "baseline", "lost", "-o", "baseline.json")
    assert made.returncode == 2
    assert "no sample of it has a reward" in made.stderr
    assert not (tmp_path / "baseline.json").exists()


@pytest.mark.parametrize("name", ["report", "preflight", "baseline"])
def test_what_reads_runs_knows_a_baseline_when_it_sees_one(tmp_path: Path, name: str) -> None:
    record_run(tmp_path, "20260101-000000-a", [1.0, 0.0])
    command(tmp_path, "baseline", "latest", "-o", "baseline.json")
    output = ["-o", "other.json"] if name == "baseline" else []
    done = command(tmp_path, name, "baseline.json", *output)
    assert done.returncode == 2
    assert "baseline.json: is a baseline" in " ".join(done.stderr.split())


def test_a_run_is_no_baseline(tmp_path: Path) -> None:
    record_run(tmp_path, "run", [1.0])
    with pytest.raises(ProblemFileError, match="is a run's folder and no baseline; write one"):
        baseline.read(tmp_path / ".cwsandbox/runs/run")


def test_runs_and_baselines_are_compared_alike(tmp_path: Path) -> None:
    record_run(tmp_path, "first", [1.0] * 12)
    record_run(tmp_path, "second", [0.0] * 6 + [1.0] * 5 + [None, 1.0])
    command(tmp_path, "baseline", "first", "-o", "first.json")
    command(tmp_path, "baseline", "second", "-o", "second.json")
    shown = command(tmp_path, "compare", "first", "second")
    assert shown.returncode == 0
    assert shown.stdout.splitlines() == [
        "compared with: first",
        "compared: 11 samples in both; 1 lost to infrastructure, 1 new",
        "group           pairs  before  after  change  p worse",
        "toy/test_agent     11  100.0%  45.5%   -54.5    0.016",
        *[f"regressed: toy/test_agent toy-{n}: 1/1 -> 0/1" for n in range(6)],
        "11 of 11 passed before, 5 after (exact McNemar test): REGRESSED",
    ]
    files = command(tmp_path, "compare", "first.json", "second.json")
    assert files.stdout.splitlines()[2:] == shown.stdout.splitlines()[2:]
    back = command(tmp_path, "compare", "second", "first.json", "--fail-on-regression")
    assert back.returncode == 0
    assert "improved: toy/test_agent toy-0: 0/1 -> 1/1" in back.stdout


@pytest.mark.parametrize(
    ("after", "alpha", "code"),
    [
        ([0.0] * 6, "0.05", 1),
        ([0.0] * 6, "0.01", 0),  # p is 1 in 64
        ([1.0] * 6, "0.05", 0),
        ([None] * 6, "0.05", 75),
    ],
    ids=["worse", "not so sure", "same", "lost"],
)
def test_compare_fails_on_a_regression_where_asked_to(
    tmp_path: Path, after: list[float | None], alpha: str, code: int
) -> None:
    record_run(tmp_path, "before", [1.0] * 6)
    record_run(tmp_path, "after", after)
    compared = command(
        tmp_path, "compare", "before", "after", "--fail-on-regression", f"--alpha={alpha}"
    )
    assert compared.returncode == code
    assert compared.stdout.endswith("REGRESSED\n") == (code == 1)
    assert command(tmp_path, "compare", "before", "after").returncode == 0


def test_runs_of_two_suites_are_not_excused_by_a_sample_that_was_lost(tmp_path: Path) -> None:
    record_run(tmp_path, "before", [1.0])
    record = SampleRecord("evals/test_b.py::test_other", "other", "", 0, None)
    journal.append(tmp_path / ".cwsandbox/runs/after", "main", Entry(record, "lost"))
    assert command(tmp_path, "compare", "before", "after", "--fail-on-regression").returncode == 1


def test_compare_writes_a_page(tmp_path: Path) -> None:
    record_run(tmp_path, "before", [1.0, 1.0])
    record_run(tmp_path, "after", [0.0, 1.0])
    assert command(tmp_path, "compare", "before", "after", "--html=out.html").returncode == 0
    assert "toy-0" in (tmp_path / "out.html").read_text()


ROW = '{"problem": "p", "reward": 1}'


@pytest.mark.parametrize(
    ("schema", "groups", "message"),
    [
        ("1", '{"g": {"x": ROW, "x": ROW}}', 'no baseline, "x" is there twice'),
        ("1", '{"g": {"x": ROW}, "g": {"y": ROW}}', 'no baseline, "g" is there twice'),
        ("1", '{"g": {"x": ROW}, "h": {"x": ROW}}', 'sample "x" is in two groups'),
        ("1", '{"g": {"x": {"problem": "p", "reward": HUGE}}}', 'sample "x" must have'),
        ("1", '{"g": {"x": {"problem": "p", "reward": -HUGE}}}', 'sample "x" must have'),
        ("true", "{}", "schema True, and"),
        ("1.0", "{}", "schema 1.0, and"),
        ("HUGE", "{}", "schema inf, and"),
    ],
)
def test_a_baseline_that_contradicts_itself_is_refused(
    tmp_path: Path, schema: str, groups: str, message: str
) -> None:
    file = tmp_path / "baseline.json"
    text = f'{{"kind": "pytest-cwsandbox baseline", "schema": {schema}, "groups": {groups}}}'
    file.write_text(text.replace("ROW", ROW).replace("HUGE", "9" * 400))
    with pytest.raises(ProblemFileError) as refused:
        baseline.read(file)
    assert str(refused.value).startswith(f"{file}: {message}")


def test_compare_refuses_a_baseline_that_names_a_sample_twice(tmp_path: Path) -> None:
    record_run(tmp_path, "run", [1.0])
    text = (
        f'{{"kind": "{baseline.KIND}", "schema": 1, "groups": {{"g": {{"x": {ROW}, "x": {ROW}}}}}}}'
    )
    (tmp_path / "twice.json").write_text(text)
    compared = command(tmp_path, "compare", "run", "twice.json")
    assert compared.returncode == 2
    assert 'twice.json: no baseline, "x" is there twice' in compared.stderr
    assert len(compared.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [("nowhere", "nowhere: no such file or folder"), ("foreign.json", "no baseline, it has no")],
)
def test_what_cannot_be_read_is_one_line(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "foreign.json").write_text("{}")
    record_run(tmp_path, "run", [1.0])
    compared = command(tmp_path, "compare", "run", name)
    assert compared.returncode == 2
    assert message in compared.stderr
    assert len(compared.stderr.splitlines()) == 1
