"""Where runs are."""

from __future__ import annotations

from pathlib import Path

from pytest_cwsandbox.errors import UserError

RUNS = Path(".cwsandbox/runs")


def locate(run: str, runs: Path = RUNS) -> Path:
    """The folder or file of a run: a path, an id in the folder ``runs``, or "latest"."""
    if run == "latest":
        # A run's id begins with its time.
        folders = sorted(path for path in runs.glob("*") if path.is_dir())
        if not folders:
            raise UserError(f"{runs}: no runs here; give the path of a run's folder")
        return folders[-1]
    for path in (Path(run), runs / run):
        if path.exists():
            return path
    raise UserError(f"{run}: no such file or folder, and no run in {runs}")
