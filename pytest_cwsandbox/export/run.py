"""Export a run: find it, read it, write the file, say what was written and what was not."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pytest_cwsandbox.errors import UserError
from pytest_cwsandbox.export.formats import FORMATS
from pytest_cwsandbox.export.table import write
from pytest_cwsandbox.rollouts.recorded import read_run
from pytest_cwsandbox.runs.location import locate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pytest_cwsandbox.rollouts.recorded import RecordedTrajectory

FULL_REWARD = 1.0


def export_run(
    run: str,
    to: str,
    output: Path,
    *,
    warn: Callable[[str], None],
    min_reward: float | None = None,
) -> str:
    """Write a run's trajectories in the format ``to`` and return a line that reports it.

    Raises ``UserError`` for a run or path that cannot be used, and when no row would be written.
    """
    form = FORMATS[to]
    if output.suffix not in form.suffixes:
        wanted = " or ".join(form.suffixes)
        raise UserError(f"{output}: {to} writes {wanted}; end the name of the output in that")
    if min_reward is not None and not form.selects:
        raise UserError(f"--min-reward does not apply to {to}, which keeps every reward")
    recorded = read_run(locate(run), warn)
    table = form.build(recorded, FULL_REWARD if min_reward is None else min_reward)
    left_out = ", ".join(f"{count} {reason}" for reason, count in table.left_out.items())
    if not table.rows:
        raise UserError(f"{output}: not written: nothing of {run} fits {to}; left out: {left_out}")
    write(table, output)
    if form.trains:
        _warn_of_spoiling(table.used, warn)
    return f"{output}: wrote {table.contents} ({to})" + (
        f"; left out: {left_out}" if left_out else ""
    )


def _warn_of_spoiling(used: Sequence[RecordedTrajectory], warn: Callable[[str], None]) -> None:
    splits = Counter(sample.trajectory.metadata.get("split") for sample in used)
    held = {name: count for name, count in splits.items() if name and name != "train"}
    if held:
        counts = ", ".join(f"{count} of {name}" for name, count in sorted(held.items(), key=str))
        warn(
            f"trajectories outside the train split: {counts}; "
            "training on them spoils the benchmark (pytest --cwsandbox-split=train)"
        )
