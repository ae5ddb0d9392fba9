"""`report`: the report of a run, also of one that is long over or that crashed."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

from pytest_cwsandbox.cli.shared import OneLine, users_mistakes


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
    help="The file to write.  [default: report.html in the run's folder]",
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
    from pytest_cwsandbox.runs.location import locate

    with users_mistakes():
        found = source.read(locate(run), keys=group_by, ks=pass_k)
        file = output or found.folder / html.REPORT
        try:
            html.write(found, file)
        except OSError as error:
            raise OneLine(f"{file}: cannot be written: {error.strerror}") from error
    if found.entries:
        color = sys.stdout.isatty()
        width = shutil.get_terminal_size().columns
        for text, style in terminal.tables(found.numbers, found.records, width=width, color=color):
            click.secho(text, bold=style == "bold", fg="yellow" if style == "yellow" else None)
    for line in found.numbers.gates:
        click.echo(line)
    notes = list(found.notes)
    if not found.ended:
        of = f" of {found.planned:,}" if found.planned else ""
        notes.append(f"the run did not end: {len(found.entries):,}{of} samples were recorded")
    for note in notes:
        click.echo(f"warning: {note}", err=True)
    click.echo(f"report: {file}")
