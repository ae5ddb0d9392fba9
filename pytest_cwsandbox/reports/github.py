"""The run's table in the summary of a GitHub Actions step."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_cwsandbox.runs.summary import Summary

VARIABLE = "GITHUB_STEP_SUMMARY"


def step_summary(summary: Summary, environ: Mapping[str, str]) -> None:
    """Append the table as Markdown to the file that ``GITHUB_STEP_SUMMARY`` names, if it does."""
    if environ.get(VARIABLE):
        raise NotImplementedError(summary)
