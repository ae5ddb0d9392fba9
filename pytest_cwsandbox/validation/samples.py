"""The samples that a preflight looks at: rewards per problem, each knowing where it stands."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_cwsandbox.errors import ProblemFileError
from pytest_cwsandbox.problems.rows import read_rows

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pytest_cwsandbox.outcome import SampleRecord
    from pytest_cwsandbox.problems.rows import Row

LARGEST = 1e100
"""Rewards whose squares still add up; no reward is larger on purpose."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One reward; None means that the infrastructure failed. ``where`` names file and line."""

    where: str
    reward: float | None


@dataclass(slots=True)
class ProblemSamples:
    """The samples of one problem, in file order."""

    task_id: str
    samples: list[Sample] = field(default_factory=list)

    @property
    def rewards(self) -> list[float]:
        """The finite rewards: everything that an estimate may use."""
        return [s.reward for s in self.samples if s.reward is not None and math.isfinite(s.reward)]

    @property
    def infrastructure(self) -> int:
        return sum(sample.reward is None for sample in self.samples)


@dataclass(frozen=True, slots=True)
class SampleFile:
    """What a file holds: problems in order of appearance, and what needs to be said about it."""

    problems: list[ProblemSamples]
    notes: list[str]


def read_samples(path: Path, group: str = "") -> SampleFile:
    """Samples of a file of rows ``{"task_id", "reward"}``, or of a run (its folder or its file).

    ``group`` takes one group of a run. Raises ``ProblemFileError``, naming file, line and field.
    """
    rows = read_rows(path / "samples.jsonl" if path.is_dir() else path)
    _refuse_repeated_ids(rows)
    groups = dict.fromkeys(_group(row) for row in rows)
    if group:
        rows = [row for row in rows if _group(row) == group]
        if not rows:
            known = ", ".join(name for name in groups if name) or "none"
            raise ProblemFileError(f'{path}: has no group "{group}"; its groups are: {known}')
    problems: dict[str, ProblemSamples] = {}
    strays = 0
    for row in rows:
        reward = _reward(row)
        if _is_record(row) and row.fields["problem"] == "":
            strays += 1
            continue
        task_id = row.key("problem" if _is_record(row) else "task_id")
        problem = problems.setdefault(task_id, ProblemSamples(task_id))
        problem.samples.append(Sample(row.where, reward))
    notes = []
    if len(groups) > 1 and not group:
        notes.append(f"{len(groups)} groups are pooled; --group takes one: {', '.join(groups)}")
    if strays:
        notes.append(f"samples of no problem, left out: {strays}")
    return SampleFile(list(problems.values()), notes)


def of_records(records: Iterable[SampleRecord]) -> SampleFile:
    """The samples of a run's records; of those without a problem none."""
    problems: dict[str, ProblemSamples] = {}
    for record in records:
        if record.problem:
            problem = problems.setdefault(record.problem, ProblemSamples(record.problem))
            problem.samples.append(Sample(record.id, record.reward))
    return SampleFile(list(problems.values()), [])


def _is_record(row: Row) -> bool:
    """Whether the row is a run's own (``outcome.SampleRecord``)."""
    return "problem" in row and "task_id" not in row


def _group(row: Row) -> str:
    return row.text("group", "") if _is_record(row) else ""


def _refuse_repeated_ids(rows: list[Row]) -> None:
    """A run records each sample once: a repeated id is a file that was put together wrongly."""
    seen: dict[str, str] = {}
    for row in rows:
        if _is_record(row):
            sample_id = row.text("id")
            first = seen.setdefault(sample_id, row.where)
            if first != row.where:
                row.fail(f'field "id" repeats "{sample_id}" of {first}')


def _reward(row: Row) -> float | None:
    if "reward" not in row:
        row.fail('missing field "reward"')
    value = row.fields["reward"]
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        row.fail(f'field "reward" must be a number or null, got {type(value).__name__}')
    if LARGEST < abs(value) < math.inf:
        row.fail(f'field "reward" is beyond {LARGEST:g}, too large to compute with')
    return float(value)
