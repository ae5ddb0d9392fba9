"""Two runs side by side as one HTML file: rates, what flipped and why, what one run only has."""

from __future__ import annotations

import os
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import quote

from pytest_cwsandbox.reports.html import document
from pytest_cwsandbox.reports.html.charts import RateBar, flips_chart, rates_chart
from pytest_cwsandbox.runs.lines import natural
from pytest_cwsandbox.runs.statistics import by_group, summarise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from markupsafe import Markup

    from pytest_cwsandbox.outcome import SampleRecord
    from pytest_cwsandbox.problems import Problem
    from pytest_cwsandbox.runs.comparison import Comparison, Flip

ALL = "all"
LISTED = 500  # ids that only one run has
LONGEST = 20_000  # characters of a text; the run's files hold all


@dataclass(frozen=True, slots=True)
class Change:
    """A sample in both runs; ``before`` and ``after`` had different results."""

    before: SampleRecord
    after: SampleRecord


@dataclass(frozen=True, slots=True)
class Flipped:
    """A problem that flipped, as the page shows it."""

    flip: Flip
    prompt: str
    changes: tuple[Change, ...]


def write_comparison(
    output: Path,
    found: Comparison,
    before: Sequence[SampleRecord],
    after: Sequence[SampleRecord],
    *,
    problems: Mapping[str, Problem] = MappingProxyType({}),
    reports: tuple[Path | None, Path | None] = (None, None),
    alpha: float = 0.05,
) -> Path:
    """Write the page of ``found``, the comparison of these samples.

    ``problems`` by id give the prompts where they are known; ``reports`` are the pages of both
    runs, which are linked where they exist. A sample of a baseline file has no
    completion; the page then shows what it has.
    """
    earlier = {record.id: record for record in before}
    later = {record.id: record for record in after}
    document.write(
        output,
        "compare.html.j2",
        {
            "found": found,
            "alpha": alpha,
            "links": [_link(report, output) for report in reports],
            "problems": len(_compared(earlier, later)),
            "rates": _rates(before, after),
            "flips": _flips_chart(found, earlier, later),
            "changed": [
                (title, [_flipped(flip, earlier, later, problems) for flip in flips])
                for title, flips in (("Regressed", found.regressed), ("Improved", found.improved))
            ],
            "only": [
                (title, len(ids), sorted(ids, key=natural)[:LISTED])
                for title, ids in (
                    (f"Not run in {found.after}", earlier.keys() - later.keys()),
                    (f"Lost to infrastructure in {found.after}", _lost(earlier, later)),
                    (f"Only in {found.after}", later.keys() - earlier.keys()),
                )
                if ids
            ],
            "cut": _cut,
        },
        styles=("compare.css",),
    )
    return output


def _rates(before: Sequence[SampleRecord], after: Sequence[SampleRecord]) -> Markup:
    """All samples of both runs by group, also those that only one of them has."""
    earlier = {group.group: group for group in by_group(before)}
    later = {group.group: group for group in by_group(after)}
    names = sorted(earlier.keys() | later.keys())
    if len(names) > 1:
        earlier[ALL], later[ALL] = summarise(ALL, before), summarise(ALL, after)
        names.append(ALL)
    rows = []
    for name in names:
        then = RateBar.of(earlier[name]) if name in earlier else RateBar(name, None)
        now = RateBar.of(later[name]) if name in later else RateBar(name, None)
        rows.append(RateBar(name, now.rate, now.interval, now.passed, now.samples, then))
    return rates_chart(rows, label="Pass rates with 95% interval, the earlier run above the later")


def _flips_chart(
    found: Comparison, earlier: Mapping[str, SampleRecord], later: Mapping[str, SampleRecord]
) -> Markup:
    regressed, improved = len(found.regressed), len(found.improved)
    unchanged = len(_compared(earlier, later)) - regressed - improved
    return flips_chart(regressed, improved, unchanged)


def _compared(
    earlier: Mapping[str, SampleRecord], later: Mapping[str, SampleRecord]
) -> set[tuple[str, str]]:
    """The problems that both runs have a reward of, each in its group."""
    return {
        (of.group, of.problem or name)
        for name, of in later.items()
        if of.reward is not None and name in earlier and earlier[name].reward is not None
    }


def _link(report: Path | None, output: Path) -> str:
    """The address of a run's page as seen from this one; empty where there is none."""
    if report is None or not report.is_file():
        return ""
    return quote(os.path.relpath(report.resolve(), output.resolve().parent))


def _flipped(
    flip: Flip,
    earlier: Mapping[str, SampleRecord],
    later: Mapping[str, SampleRecord],
    problems: Mapping[str, Problem],
) -> Flipped:
    changes = tuple(Change(earlier[name], later[name]) for name in flip.samples)
    problem = problems.get(flip.problem)
    return Flipped(flip, problem.prompt if problem else "", changes)


def _lost(earlier: Mapping[str, SampleRecord], later: Mapping[str, SampleRecord]) -> set[str]:
    return {
        name
        for name, record in earlier.items()
        if record.reward is not None and name in later and later[name].reward is None
    }


def _cut(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}\n... {len(text) - LONGEST:,} more characters are in the run's files"
