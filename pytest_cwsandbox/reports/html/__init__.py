"""The report of a run as one HTML file that works offline."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_cwsandbox.reports.html.source import Source

REPORT = "report.html"


def write_report(
    folder: Path, output: Path | None = None, *, exit_status: int | None = None
) -> Path:
    """Write the report of the run in ``folder``, into it unless ``output`` says where.

    ``exit_status`` is that of a run whose run.json does not know it yet. Raises ``UserError`` for
    a folder that holds no run, or files that cannot be read.
    """
    from pytest_cwsandbox.reports.html import source

    run = source.read(folder)
    if exit_status is not None:
        run = replace(run, exit_status=exit_status)
    return write(run, output or folder / REPORT)


def write(run: Source, output: Path) -> Path:
    """Write the report of a run that was read."""
    from pytest_cwsandbox.reports.html import document, page

    document.write(
        output,
        "report.html.j2",
        page.context(run),
        styles=("report.css",),
        scripts=("text.js", "sample.js", "table.js") if run.entries else (),
    )
    return output
