"""The samples that a preflight looks at: rewards per problem, each knowing where it stands."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_cwsandbox.errors import ProblemFileError
from pytest_cwsandbox.problems.rows import read_rows
from pytest_cwsandbox.rollouts.scripted import NOT_A_MODEL, is_scripted
from pytest_cwsandbox.runs import baseline, journal, plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from pytest_cwsandbox.outcome import SampleRecord
    from pytest_cwsandbox.problems.rows import Row

LARGEST = 1e100
"""Rewards whose squares still add up; no reward is larger on purpose."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One reward; None means that the infrastructure failed.

    ``where`` names file and line, or the sample of a run.
    """

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
    """What a file holds: problems in order of appearance, and what needs to be said about it.

    ``groups`` are those of the run that the problems are of.
    """

    problems: list[ProblemSamples]
    notes: list[str]
    groups: tuple[str, ...] = ()


def read_samples(path: Path, group: str = "", *, warn: Callable[[str], None]) -> SampleFile:
    """Samples of a file of rows ``{"task_id", "reward"}``, or of a run: its folder or a file of it.

    A run's folder may be that of a run that crashed. ``group`` takes one group of a run. Raises
    ``UserError``, naming file, line and field.
    """
    if baseline.is_one(path):
        return _of_run(path, group, warn)  # which says what it is
    rows = [] if path.is_dir() else read_rows(path)
    if path.is_dir() or "schema" in rows[0]:
        return _of_run(path, group, warn)
    if group:
        raise ProblemFileError(f'{path}: has no group "{group}": its rows are of no run')
    problems: dict[str, ProblemSamples] = {}
    for row in rows:
        reward = _reward(row)
        task_id = row.key("task_id")
        problem = problems.setdefault(task_id, ProblemSamples(task_id))
        problem.samples.append(Sample(row.where, reward))
    return SampleFile(list(problems.values()), [])


def _of_run(path: Path, group: str, warn: Callable[[str], None]) -> SampleFile:
    records = [entry.record for entry in journal.read(path, warn).values()]
    for record in records:
        if record.reward is not None and abs(record.reward) > LARGEST:
            raise ProblemFileError(
                f'{path}: the reward of "{record.id}" is beyond {LARGEST:g}, too large to compute '
                "with"
            )
    missing = plan.read(path).keys() - {record.id for record in records} if path.is_dir() else ()
    if group:
        groups = dict.fromkeys(record.group for record in records)
        records = [record for record in records if record.group == group]
        if not records:
            known = ", ".join(groups) or "none"
            raise ProblemFileError(f'{path}: has no group "{group}"; its groups are: {known}')
    file = of_records(records)
    if missing:
        file.notes.append(f"samples that were planned and have no result: {len(missing)}")
    return file


def of_records(records: Iterable[SampleRecord]) -> SampleFile:
    """The samples of a run's records; of those without a problem none.

    Groups stay apart: what two of them earn for a problem are no draws of one policy. Where some
    sample a problem more than once, those that sample none again say nothing and are left out.
    """
    records = list(records)
    of_problems = [record for record in records if record.problem]
    groups = tuple(dict.fromkeys(record.group for record in of_problems))
    rewarded = Counter((r.group, r.problem) for r in of_problems if r.reward is not None)
    again = {group for (group, _), samples in rewarded.items() if samples > 1}
    counted = tuple(group for group in groups if group in again) or groups
    problems: dict[str, ProblemSamples] = {}
    for record in of_problems:
        if record.group in counted:
            name = f"{record.group} {record.problem}" if len(counted) > 1 else record.problem
            problem = problems.setdefault(name, ProblemSamples(name))
            problem.samples.append(Sample(record.id, record.reward))
    return SampleFile(list(problems.values()), [*_notes(records, groups, counted)], counted)


def _notes(
    records: list[SampleRecord], groups: tuple[str, ...], counted: tuple[str, ...]
) -> Iterator[str]:
    if len(counted) > 1:
        yield f"{len(counted)} groups are kept apart; --group takes one: {', '.join(counted)}"
    if left_out := [group for group in groups if group not in counted]:
        yield f"groups that sample no problem more than once, left out: {', '.join(left_out)}"
    if strays := sum(not record.problem for record in records):
        yield f"samples of no problem, left out: {strays}"
    models = {r.metadata["model"] for r in records if r.group in counted and "model" in r.metadata}
    if scripts := sorted(filter(is_scripted, models)):
        yield f"model {', '.join(scripts)}: {NOT_A_MODEL}"


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
