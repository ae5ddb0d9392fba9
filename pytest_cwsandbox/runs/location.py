"""Where runs are."""

from __future__ import annotations

from pathlib import Path

from pytest_cwsandbox.errors import UserError

RUNS = Path(".cwsandbox/runs")


def locate(run: str, runs: Path = RUNS) -> Path:
    """The folder or file of a run: a path, an id in the folder ``runs``, or "latest"."""
    if run == "latest":
        folders = [path for path in runs.glob("*") if path.is_dir()]
        if not folders:
            raise UserError(f"{runs}: no runs here; give the path of a run's folder")
        return max(folders, key=_begun)
    for path in (Path(run), runs / run):
        if path.exists():
            return path
    raise UserError(f"{run}: no such file or folder, and no run in {runs}")


def _begun(folder: Path) -> tuple[str, float]:
    """A run's id begins with its time, to the second."""
    return folder.name[:15], folder.stat().st_mtime
