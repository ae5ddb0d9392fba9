"""`report`: the report of a run, also of one that is long over or that crashed."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from pytest_cwsandbox.cli.shared import OneLine, colored, say, users_mistakes, warn


def _keys(_: click.Context, _option: click.Parameter, value: str | None) -> list[str]:
    keys = [key.strip() for key in value.split(",")] if value else []
    if not all(keys):
        raise click.BadParameter(f'must be names separated by commas, got "{value}"')
    return keys


def _ks(_: click.Context, _option: click.Parameter, value: str | None) -> list[int]:
    parts = [part.strip() for part in value.split(",")] if value else []
    if not all(part.isdecimal() and int(part) >= 1 for part in parts):
        raise click.BadParameter(
            f'must be whole numbers of at least 1, separated by commas, got "{value}"'
        )
    return sorted({int(part) for part in parts})


@click.command()
@click.argument("run")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="PATH",
    help="The file to write.  [default: report.html in the run's folder, FILE.html for a file]",
)
@click.option(
    "--group-by",
    metavar="KEY[,KEY]",
    callback=_keys,
    help="Rates by these keys of the samples' metadata too.  [default: as the run had it]",
)
@click.option(
    "--pass-k",
    metavar="K[,K]",
    callback=_ks,
    help="pass@k and pass^k for these k.  [default: as the run had it]",
)
def report(run: str, output: Path | None, group_by: list[str], pass_k: list[int]) -> None:
    """Write the HTML report of RUN, and print its table of rates.

    RUN is a run's folder, its id under .cwsandbox/runs, "latest", or a file of samples. A run that
    crashed, or still goes on, is reported as far as it got.
    """
    from pytest_cwsandbox.reports import html, terminal
    from pytest_cwsandbox.reports.html import source
    from pytest_cwsandbox.reports.html.verdict import verdict_of
    from pytest_cwsandbox.runs.location import REPORTED, locate

    with users_mistakes():
        place = locate(run, holding=REPORTED)
        found = source.read(place, keys=group_by, ks=pass_k)
        whole = place / html.REPORT if place.is_dir() else place.with_name(f"{place.name}.html")
        file = output or whole
        try:
            html.write(found, file)
        except OSError as error:
            raise OneLine(f"{file}: cannot be written: {error.strerror}") from error
    if found.entries:
        color = colored()
        width = shutil.get_terminal_size().columns
        for text, style in terminal.tables(found.numbers, found.records, width=width, color=color):
            fg = "yellow" if style == "yellow" else None
            click.secho(text, bold=style == "bold" or None, fg=fg, color=color)
    for line in found.numbers.gates:
        say(line)
    notes = list(found.notes)
    if not found.ended:
        verdict = verdict_of(found)
        notes.append(f"{verdict.word[0].lower()}{verdict.word[1:]}: {'; '.join(verdict.lines)}")
    for note in notes:
        warn(note)
    click.echo(f"report: {file}")
