"""How commands find a run."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_cwsandbox.errors import UserError
from pytest_cwsandbox.runs import provenance
from pytest_cwsandbox.runs.location import ANYTHING, REPORTED, RUNS, locate
from pytest_cwsandbox.runs.provenance import Provenance

ABOUT = Provenance(
    run="x", started="", command=(), cpu_limit=1, wall_limit=1.0, memory_limit=1
)  # fmt: skip


def begin(runs: Path, name: str, file: str = "samples.jsonl") -> Path:
    (runs / name).mkdir(parents=True)
    (runs / name / file).touch()
    return runs / name


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of runs of the project that people are in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / RUNS


def test_the_latest_run_is_the_one_that_began_last(runs: Path) -> None:
    names = ("20260102-000000-aaaaaa", "20260102-000000-000000", "20260101-000000-ffffff")
    for made, name in enumerate(names):
        os.utime(begin(runs, name), (made, made))
    assert locate("latest", runs).name == "20260102-000000-000000"


def test_a_run_is_found_from_a_folder_of_the_project(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = begin(runs, "20260102-000000-aaaaaa")
    assert locate("latest") == RUNS / folder.name
    below = runs.parents[1] / "evals" / "deep"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    for name in ("latest", folder.name):
        assert locate(name) == Path("../..", RUNS, folder.name)
    nearer = begin(below / RUNS, "20260101-000000-aaaaaa")
    assert locate("latest") == RUNS / nearer.name


def test_a_folder_of_runs_has_a_latest_one_and_is_none(runs: Path) -> None:
    other = runs.parent / "other"
    first = begin(other, "20260102-000000-aaaaaa")
    with pytest.raises(UserError, match=rf"{other}: holds 1 run: give it, or {other}/latest$"):
        locate(str(other))
    begin(other, "20260101-000000-aaaaaa", "plan.jsonl")
    message = rf"{other}: holds 2 runs: give one of them, or {other}/latest$"
    with pytest.raises(UserError, match=message):
        locate(str(other))
    assert locate(f"{other}/latest") == first


def test_a_run_without_what_is_asked_for_is_not_the_latest(runs: Path) -> None:
    samples = begin(runs, "20260101-000000-aaaaaa", "samples-gw0.jsonl")
    findings = begin(runs, "20260102-000000-aaaaaa", "findings.jsonl")
    planned = begin(runs, "20260103-000000-aaaaaa", "plan.jsonl")
    (runs / "20260104-000000-aaaaaa").mkdir()
    assert locate("latest", runs) == samples
    assert locate("latest", runs, holding=REPORTED) == findings
    assert locate("latest", runs, holding=ANYTHING) == planned
    begin(runs, "20260102-000001-aaaaaa", "trajectories-main.jsonl")
    assert locate("latest", runs).name == "20260102-000001-aaaaaa"


def test_grades_of_rescore_are_not_the_latest_run(runs: Path) -> None:
    tested = begin(runs, "20260101-000000-aaaaaa")
    provenance.write(tested, ABOUT)
    rescored = begin(runs, "20260101-000000-aaaaaa-rescored")
    provenance.write(rescored, replace(ABOUT, rescored_from=tested.name))
    assert locate("latest", runs) == locate("latest", runs, holding=ANYTHING) == tested
    assert locate(rescored.name, runs) == rescored


def test_a_run_file_that_cannot_be_read_hides_no_run(runs: Path) -> None:
    begin(runs, "20260101-000000-aaaaaa")
    broken = begin(runs, "20260102-000000-aaaaaa")
    (broken / "run.json").write_text(json.dumps([]))
    assert locate("latest", runs) == broken


def test_where_there_is_no_run_that_is_said(runs: Path) -> None:
    with pytest.raises(UserError, match=r"^\.cwsandbox/runs: no runs here; give the path"):
        locate("latest")
    with pytest.raises(UserError, match=r"^missing: no such file or folder, and no run in"):
        locate("missing")
