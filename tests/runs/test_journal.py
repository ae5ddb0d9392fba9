"""Which entry of a sample counts, and what of a journal is said."""

from __future__ import annotations

import resource
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.errors import ProblemFileError, UserError
from pytest_cwsandbox.outcome import SampleRecord
from pytest_cwsandbox.problems import Problem
from pytest_cwsandbox.runs import journal, plan
from pytest_cwsandbox.runs.journal import Entry
from pytest_cwsandbox.runs.lock import FolderLock
from pytest_cwsandbox.runs.plan import Planned

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_cwsandbox.runs.journal import State


def entry(
    state: State = "ended", reward: float | None = 1.0, attempt: int = 1, name: str = "t.py::t"
) -> Entry:
    return Entry(SampleRecord(name, "t/t", "p", 0, reward), state, attempt)


@pytest.fixture
def said() -> list[str]:
    return []


def test_an_entry_survives_json() -> None:
    record = SampleRecord("t.py::t", "t/t", "p", 3, 0.5, "timeout", "late", 1.5, "gw1", {"k": "v"})
    written = Entry(record, "ended", 2, "failed", "assert False", asserted=True)
    assert Entry.from_json(written.to_json()) == written


@pytest.mark.parametrize("name", entry().to_json().keys())
def test_a_line_without_a_field_is_no_entry(name: str) -> None:
    row = entry().to_json()
    del row[name]
    with pytest.raises((TypeError, ValueError), match=name):
        Entry.from_json(row)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("reward", 10**400),
        ("seconds", float("nan")),
        ("seconds", -1),
        ("attempt", 0),
        ("retries", -1),
        ("metadata", {"seed": 1}),
    ],
)
def test_a_line_with_a_value_that_no_run_writes_is_no_entry(field: str, value: object) -> None:
    with pytest.raises(TypeError, match=f'field "{field}"'):
        Entry.from_json({**entry().to_json(), field: value})


@pytest.mark.parametrize(
    ("entries", "reward"),
    [
        ([entry("graded", 0.0), entry("graded", 1.0)], 1.0),
        ([entry("graded", 0.0), entry("ended", 0.5), entry("graded", 1.0)], 0.5),
        ([entry("ended", 1.0), entry("lost", None)], None),
        ([entry("lost", None), entry("graded", 0.25, 2)], 0.25),
        ([entry("ended", 0.5, 2), entry("ended", 0.25)], 0.5),
    ],
)
def test_the_latest_attempt_counts_and_of_it_the_latest_state(
    tmp_path: Path, said: list[str], entries: list[Entry], reward: float | None
) -> None:
    for one in entries:
        journal.append(tmp_path, "gw0", one)
    assert journal.read(tmp_path, said.append)["t.py::t"].record.reward == reward
    assert not said


def test_an_attempt_that_recorded_nothing_takes_the_sample_back(
    tmp_path: Path, said: list[str]
) -> None:
    journal.append(tmp_path, "gw0", entry("lost", None))
    journal.append(tmp_path, "gw1", entry("ended", None, 2))
    assert journal.read(tmp_path, said.append) == {}
    assert journal.latest(tmp_path, said.append)["t.py::t"].attempt == 2


def test_results_of_two_processes_for_one_attempt_are_said(tmp_path: Path, said: list[str]) -> None:
    journal.append(tmp_path, "gw2", entry(reward=0.0))
    journal.append(tmp_path, "gw10", entry(reward=1.0))
    assert journal.read(tmp_path, said.append)["t.py::t"].record.reward == 1.0
    [line] = said
    assert line == (
        f'{tmp_path}/samples-gw10.jsonl:1: sample "t.py::t" is also in '
        f"{tmp_path}/samples-gw2.jsonl:1, with another result of the same attempt: the later is "
        "taken"
    )


def test_many_contradictions_are_counted(tmp_path: Path, said: list[str]) -> None:
    for reward in (0.0, 1.0):
        for number in range(15):
            journal.append(tmp_path, "main", entry(reward=reward, name=f"t.py::t[{number}]"))
    journal.read(tmp_path, said.append)
    assert len(said) == 11
    assert said[-1] == f"{tmp_path}: 5 more samples have two results of one attempt"


def test_merged_samples_are_no_contradiction_of_their_journals(
    tmp_path: Path, said: list[str]
) -> None:
    journal.append(tmp_path, "gw0", entry())
    read = journal.read(tmp_path, said.append)
    told = entry(name="t.py::told")  # which a disk that was full did not take before
    journal.merge(tmp_path, [*read.values(), told])
    assert journal.read(tmp_path, said.append) == {**read, "t.py::told": told}
    assert not said


def test_a_folder_without_samples_is_an_error_that_says_how_to_get_some(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no samples; tests record them through"):
        journal.read(tmp_path, print)


# The plan

PROBLEM = Problem("one", "return it", ("assert f()",), source="src")


def test_a_plan_is_read_as_written(tmp_path: Path) -> None:
    planned = [Planned("b", "g", "src-one", 1), Planned("a", "g", "", 0)]
    plan.write(tmp_path, planned, {"src-one": PROBLEM}, {"task": {"prompt": "do"}})
    assert list(plan.read(tmp_path).values()) == planned
    assert plan.read_problems(tmp_path) == {"src-one": PROBLEM}
    assert plan.read_tasks(tmp_path) == {"task": {"prompt": "do"}}


def test_a_new_plan_keeps_earlier_samples_and_their_problems(tmp_path: Path) -> None:
    plan.write(tmp_path, [Planned("a", "g", "src-one", 0)], {"src-one": PROBLEM}, {})
    other = replace(PROBLEM, task_id="two")
    plan.write(tmp_path, [Planned("b", "g", "src-two", 0)], {"src-two": other}, {})
    assert list(plan.read(tmp_path)) == ["a", "b"]
    assert plan.read_problems(tmp_path) == {"src-one": PROBLEM, "src-two": other}


def test_a_line_that_plans_nothing_is_named(tmp_path: Path) -> None:
    (tmp_path / plan.PLAN).write_text('{"id": "a"}\n')
    with pytest.raises(ProblemFileError, match=r"plan.jsonl:1: no planned sample: .*group"):
        plan.read(tmp_path)


# The folder


def test_a_folder_has_one_holder_at_a_time_and_is_left_clean(tmp_path: Path) -> None:
    first, second = FolderLock(), FolderLock()
    first.take(tmp_path)
    first.take(tmp_path)  # which it holds
    with pytest.raises(UserError, match=r"still going on \(process \d+\): wait for its end"):
        second.take(tmp_path)
    first.release()
    assert list(tmp_path.iterdir()) == []
    second.take(tmp_path)
    second.release()


def test_a_disk_that_takes_no_more_does_not_keep_a_run_from_its_lock(
    tmp_path: Path,
) -> None:
    lock = FolderLock()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))  # no file takes a byte
    try:
        lock.take(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    with pytest.raises(UserError, match=r"still going on \(process unknown\)"):
        FolderLock().take(tmp_path)
    lock.release()
