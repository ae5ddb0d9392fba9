"""Recorded trajectories in the file formats of trainers."""

from pytest_cwsandbox.export.formats import FORMATS, Format
from pytest_cwsandbox.export.run import export_run

__all__ = ["FORMATS", "Format", "export_run"]
