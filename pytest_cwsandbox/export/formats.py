"""The formats by their names on the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_cwsandbox.export import art, fine_tuning, flat, trl

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_cwsandbox.export.table import Table
    from pytest_cwsandbox.rollouts.recorded import RecordedTrajectory


@dataclass(frozen=True, slots=True)
class Format:
    """``build`` takes the trajectories and a minimal reward; ``suffixes`` are those of its files.

    ``trains`` says whether a model is trained on the file, ``selects`` whether the minimal reward
    means something.
    """

    build: Callable[[Sequence[RecordedTrajectory], float], Table]
    suffixes: tuple[str, ...]
    trains: bool = True
    selects: bool = False


FORMATS = {
    "trl": Format(trl.prompt_completion, (".parquet", ".jsonl")),
    "trl-preference": Format(trl.preference, (".parquet", ".jsonl"), selects=True),
    "art": Format(art.trajectory_groups, (".jsonl",)),
    "openai": Format(fine_tuning.conversations, (".jsonl",), selects=True),
    "parquet": Format(flat.flat, (".parquet",), trains=False),
}
