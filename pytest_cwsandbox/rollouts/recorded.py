"""Trajectories on disk: a line per finished rollout, in a file per test process of a run."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from pytest_cwsandbox.errors import ProblemFileError, UserError
from pytest_cwsandbox.rollouts.trajectory import Trajectory
from pytest_cwsandbox.runs import lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class RecordedTrajectory:
    """A trajectory and the item that it belongs to, as ``outcome.SampleRecord`` names it."""

    id: str
    group: str
    problem: str
    sample: int
    trajectory: Trajectory

    def to_json(self) -> dict[str, object]:
        return {
            "id": self.id,
            "group": self.group,
            "problem": self.problem,
            "sample": self.sample,
            "trajectory": self.trajectory.to_json(),
        }

    @classmethod
    def from_json(cls, row: dict[str, object]) -> Self:
        """Build from ``to_json``'s form; ``TypeError`` or ``ValueError`` for any other."""
        fields = dict(row)
        for name in ("id", "group", "problem"):
            if not isinstance(fields.get(name), str):
                raise TypeError(f"{name} must be a string")
        if type(fields.get("sample")) is not int:
            raise TypeError("sample must be an integer")
        recorded = fields.get("trajectory")
        if not isinstance(recorded, dict):
            raise TypeError("trajectory must be an object")
        trajectory = Trajectory.from_json(recorded)
        reward = trajectory.reward
        if reward is not None and (
            isinstance(reward, bool)
            or not isinstance(reward, int | float)
            or not math.isfinite(reward)
        ):
            raise ValueError("reward must be a finite number or null")
        return cls(**(fields | {"trajectory": trajectory}))  # type: ignore[arg-type]  # checked above


def append(folder: Path, worker: str, recorded: RecordedTrajectory) -> None:
    """Add a line to the worker's file in a run's folder, which is made when missing."""
    lines.append(folder / f"trajectories-{worker}.jsonl", recorded.to_json())


def read_run(path: Path, warn: Callable[[str], None] = warnings.warn) -> list[RecordedTrajectory]:
    """Trajectories of a run's folder, or of one of its files, in the order of their ids.

    An id that comes again is a later attempt and replaces the earlier one; xdist numbers the
    workers that replace crashed ones upwards, so files are read in that order. A last line that
    was cut off when its process died is skipped with a warning. Raises ``ProblemFileError`` for
    any other line that is no trajectory, ``UserError`` for a run without any.
    """
    latest = {recorded.id: recorded for recorded in iterate(path, warn)}
    if not latest:
        raise UserError(
            f"{path}: no trajectories; tests record them through the rollout fixture, "
            "as in `pytest evals/test_mbpp_rollouts.py`"
        )
    return sorted(latest.values(), key=lambda recorded: lines.natural(recorded.id))


def iterate(path: Path, warn: Callable[[str], None]) -> Iterator[RecordedTrajectory]:
    """As ``read_run``, one at a time, earlier attempts first; nothing for a run without any."""
    files = (
        sorted(path.glob("trajectories-*.jsonl"), key=lines.natural) if path.is_dir() else [path]
    )
    for file in files:
        yield from _read(file, warn)


def _read(file: Path, warn: Callable[[str], None]) -> Iterator[RecordedTrajectory]:
    for where, row in lines.read(file, warn):
        try:
            yield RecordedTrajectory.from_json(row)
        except (TypeError, ValueError) as error:
            raise ProblemFileError(f"{where}: no recorded trajectory: {error}") from None
