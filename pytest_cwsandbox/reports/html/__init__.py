"""The report of a run as one HTML file that works offline."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

REPORT = "report.html"


def write_report(folder: Path, output: Path | None = None) -> Path:
    """Write the report of the run in ``folder``, into it unless ``output`` says where.

    Raises ``UserError`` for a folder that holds no run, or files that cannot be read.
    """
    from pytest_cwsandbox.reports.html import document, page, source

    file = output or folder / REPORT
    run = source.read(folder)
    document.write(
        file,
        "report.html.j2",
        page.context(run),
        styles=("report.css",),
        scripts=("text.js", "sample.js", "table.js") if run.entries else (),
    )
    return file
