"""Where runs are."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_cwsandbox.errors import UserError
from pytest_cwsandbox.runs import plan, provenance

if TYPE_CHECKING:
    from collections.abc import Sequence

RUNS = Path(".cwsandbox/runs")
LATEST = "latest"
RECORDED = ("samples*.jsonl", "trajectories*.jsonl")  # files of a run that recorded something
REPORTED = (*RECORDED, "findings.jsonl")  # a run that validated a reward has a report too
ANYTHING = ("*",)
_MARKS = (*REPORTED, plan.PLAN)  # what tells a run's folder from others


def locate(run: str, runs: Path | None = None, *, holding: Sequence[str] = RECORDED) -> Path:
    """The folder or file of a run: a path, an id in the folder ``runs``, or "latest".

    ``runs`` is the nearest ``.cwsandbox/runs``, where it is not given. "latest" is the latest test
    run there that has one of the files ``holding``; ``PATH/latest`` that in another folder.
    """
    runs = runs or _nearest()
    if run == LATEST:
        return _latest(runs, holding)
    path = Path(run)
    for place in (path, runs / run):
        if place.exists():
            held = 0 if _holds(place, _MARKS) else len(_runs(place, _MARKS))
            if held:
                count = "1 run: give it" if held == 1 else f"{held} runs: give one of them"
                raise UserError(f"{place}: holds {count}, or {place / LATEST}")
            return place
    if path.name == LATEST and path.parent.is_dir():
        return _latest(path.parent, holding)
    raise UserError(f"{run}: no such file or folder, and no run in {runs}")


def check(runs: Path) -> None:
    """Raise ``UserError`` where no folder of a run could be made; leaves nothing."""
    there = next(place for place in (runs, *runs.parents) if os.path.lexists(place))
    try:
        with tempfile.TemporaryDirectory(dir=there):
            pass
    except OSError as error:
        raise UserError(
            f"{runs}: cannot be written: {error.strerror}; choose another folder with "
            "--cwsandbox-report-dir"
        ) from error


def _nearest() -> Path:
    """The folder of runs of where people are, or of what that is a part of."""
    here = Path.cwd()
    for place in (here, *here.parents):
        if (place / RUNS).is_dir():
            return Path(os.path.relpath(place / RUNS))
    return RUNS


def _latest(runs: Path, holding: Sequence[str]) -> Path:
    for folder in sorted(_runs(runs, holding), key=_begun, reverse=True):
        if not _is_rescored(folder):
            return folder
    raise UserError(f"{runs}: no runs here; give the path of a run's folder")


def _runs(folder: Path, holding: Sequence[str]) -> list[Path]:
    return [place for place in folder.glob("*") if _holds(place, holding)]


def _holds(folder: Path, files: Sequence[str]) -> bool:
    return any(next(folder.glob(name), None) for name in files)


def _is_rescored(folder: Path) -> bool:
    """Whether its grades are of ``rescore``, and so of another run's samples."""
    with contextlib.suppress(UserError):  # who reads the run says what is wrong with the file
        about = provenance.read(folder)
        return about is not None and bool(about.rescored_from)
    return False


def _begun(folder: Path) -> tuple[str, float]:
    """A run's id begins with its time, to the second."""
    return folder.name[:15], folder.stat().st_mtime
