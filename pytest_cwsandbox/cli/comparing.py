"""`baseline` and `compare`: what a run is measured against, and how two runs differ."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_cwsandbox.cli.shared import OneLine, colored, say, users_mistakes, warn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_cwsandbox.outcome import SampleRecord
    from pytest_cwsandbox.problems import Problem
    from pytest_cwsandbox.runs.comparison import Comparison

INCONCLUSIVE = 75


@click.command()
@click.argument("run")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    metavar="PATH",
    help="The file to write, such as evals/baseline.json.",
)
def baseline(run: str, output: Path) -> None:
    """Write the rewards of RUN to a small file, to be committed and compared with.

    RUN is a run's folder, its id under .cwsandbox/runs, "latest", or a file of samples. Then
    `pytest --cwsandbox-baseline=PATH` fails when a run is significantly worse.
    """
    from pytest_cwsandbox.runs import baseline as baselines
    from pytest_cwsandbox.runs import journal, plan
    from pytest_cwsandbox.runs.location import locate

    with users_mistakes():
        place = locate(run)
        records = [entry.record for entry in journal.read(place, warn).values()]
        folder = place if place.is_dir() else place.parent
        written = baselines.Baseline.of(records, _origin(folder, records))
        if not written.records:
            raise OneLine(f"{place}: no sample of it has a reward: a baseline would hold nothing")
        baselines.write(output, written)
        unrun = len(plan.read(folder, warn).keys() - {record.id for record in records})
    lost = len(records) - len(written.records)
    if unrun:
        warn(f"{unrun} samples of the run were planned and not run: the baseline lacks them")
    click.echo(
        f"{output}: wrote the rewards of {len(written.records)} samples"
        + (f"; left out: {lost} lost to infrastructure" if lost else "")
    )


@click.command()
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@click.option(
    "-o",
    "--output",
    "--html",
    "output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="PATH",
    help="Write the comparison as an HTML page too.",
)
@click.option(
    "--alpha",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.05,
    show_default=True,
    help="Significance level.",
)
@click.option(
    "--fail-on-regression", is_flag=True, help="Exit with 1 when B is significantly worse."
)
def compare(
    before: str,
    after: str,
    output: Path | None,
    alpha: float,
    fail_on_regression: bool,  # noqa: FBT001 - click passes it by name
) -> None:
    """Compare run B with the earlier run A, sample by sample.

    Each is a run's folder, its id under .cwsandbox/runs, "latest", a file of samples, or a file of
    `pytest-cwsandbox baseline`. Exit code 0, and 2 for unreadable input; with
    --fail-on-regression also 1 for a significant regression or no sample in common, and 75 when
    the infrastructure lost what there was to compare.
    """
    from pytest_cwsandbox.reports import comparison as report
    from pytest_cwsandbox.runs.comparison import compare as paired

    with users_mistakes():
        earlier, later = _open(before), _open(after)
    found = paired(earlier.records, later.records, names=(earlier.name, later.name))
    width, color = shutil.get_terminal_size().columns, colored()
    for line in report.counts(found, width=width):
        say(line)
    click.echo(report.table(found, width=width, color=color), color=color)
    for line in report.flips("regressed", found.regressed, width=width):
        say(line, fg="red", color=color)
    for line in report.flips("improved", found.improved, width=width):
        say(line)
    if output is not None:
        _write_html(output, found, earlier, later, alpha)
        click.echo(f"report: {output}")
    line, regressed = report.verdict(found, alpha)
    say(line, fg="red" if regressed or not found.pooled.pairs else "green", color=color)
    if fail_on_regression:
        nothing = 0 if found.pooled.pairs else INCONCLUSIVE if found.lost else 1
        sys.exit(1 if regressed else nothing)


@dataclass(frozen=True, slots=True)
class _Side:
    """One of the two that are compared; ``report`` is where its page would be."""

    name: str
    records: tuple[SampleRecord, ...]
    problems: Mapping[str, Problem]
    report: Path | None = None


def _open(name: str) -> _Side:
    """A run or a baseline file; raises ``UserError`` for what is neither."""
    from pytest_cwsandbox.reports.html import REPORT
    from pytest_cwsandbox.runs import baseline as baselines
    from pytest_cwsandbox.runs import journal, plan
    from pytest_cwsandbox.runs.location import locate

    place = locate(name)
    if place.is_file() and place.suffix != ".jsonl":
        return _Side(name, baselines.read(place).records, {})
    records = tuple(entry.record for entry in journal.read(place, warn).values())
    folder = place if place.is_dir() else place.parent
    shown = place.name if name == "latest" else name
    return _Side(shown, records, plan.read_problems(folder, warn), folder / REPORT)


def _write_html(
    output: Path, found: Comparison, earlier: _Side, later: _Side, alpha: float
) -> None:
    from pytest_cwsandbox.reports.html.comparison import write_comparison

    try:
        write_comparison(
            output,
            found,
            earlier.records,
            later.records,
            problems={**earlier.problems, **later.problems},
            reports=(earlier.report, later.report),
            alpha=alpha,
        )
    except OSError as error:
        raise OneLine(f"{output}: cannot be written: {error.strerror}") from error


def _origin(folder: Path, records: list[SampleRecord]) -> dict[str, str]:
    """Which run a baseline is of, with what model, and when; as far as that is known."""
    from pytest_cwsandbox.runs import provenance

    known = provenance.read(folder)
    models = {record.metadata["model"] for record in records if "model" in record.metadata}
    about = {
        "run": folder.resolve().name,
        "model": ", ".join(sorted(models)),
        "date": known.started if known else "",
    }
    return {name: value for name, value in about.items() if value}
