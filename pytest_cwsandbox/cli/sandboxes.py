"""`ps` and `cleanup`: sandboxes by tag, on either backend."""

from __future__ import annotations

import json
import re
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.cli.shared import service_options, users_mistakes
from pytest_cwsandbox.errors import InfrastructureError
from pytest_cwsandbox.reports.columns import printable
from pytest_cwsandbox.runs.gate import INCONCLUSIVE

if TYPE_CHECKING:
    from collections.abc import Callable

    from cwsandbox import Sandbox

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def _duration(_: click.Context, __: click.Parameter, value: str | None) -> timedelta | None:
    if value is None:
        return None
    match = re.fullmatch(r"(\d{1,6}(?:\.\d+)?)([smhd])", value)
    if match is None:
        raise click.BadParameter(f'must be a number and s, m, h or d, such as 2h, got "{value}"')
    return timedelta(seconds=float(match[1]) * SECONDS[match[2]])


def _no_empty(_: click.Context, __: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    if not all(each.strip() for each in value):
        raise click.BadParameter("must not be empty: all sandboxes are --all")
    return value


def _which_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option(
            "--report-dir",
            type=click.Path(path_type=Path),
            default=Path(".cwsandbox/runs"),
            show_default=True,
            help="Folder of test runs; those under way have a local runner each.",
        ),
        click.option(
            "--older-than",
            metavar="AGE",
            callback=_duration,
            help="Only those created longer ago, such as 90s, 30m, 2h or 1d.",
        ),
        click.option(
            "--tag",
            "wanted",
            multiple=True,
            metavar="TAG",
            callback=_no_empty,
            help="Only those with this tag, such as training-run:ID; repeated, with all of them.",
        ),
    ):
        command = option(command)
    return service_options(command)


@click.command()
@_which_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def ps(
    wanted: tuple[str, ...],
    older_than: timedelta | None,
    report_dir: Path,
    backend: str,
    auth: str | None,
    base_url: str,
    as_json: bool,  # noqa: FBT001 - click passes it by name
) -> None:
    """List live sandboxes, oldest first.

    They are those of the hosted service, else those of the local runner that the environment leads
    to (`pytest-cwsandbox serve`), else those of the test runs under way in --report-dir and of your
    training jobs on this machine. Exit code 75 when a service does not answer, 2 when there is
    none.
    """
    from pytest_cwsandbox.monitoring.sandboxes import age

    options = BackendOptions(backend, auth or "", base_url)
    found, complete = _find(options, report_dir, wanted, older_than)
    if as_json:
        rows = [
            {
                "id": sandbox.sandbox_id,
                "status": _status(sandbox),
                "created_at": sandbox.created_at.isoformat() if sandbox.created_at else None,
                "age_seconds": (
                    None if (old := age(sandbox)) is None else round(old.total_seconds(), 3)
                ),
                "tags": list(sandbox.tags),
            }
            for sandbox in found
        ]
        click.echo(json.dumps(rows))
    elif found:
        _show(found)
    else:
        click.echo("no sandboxes")
    sys.exit(0 if complete else INCONCLUSIVE)


@click.command()
@_which_options
@click.option("--all", "everything", is_flag=True, help="Also without a tag.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
def cleanup(
    wanted: tuple[str, ...],
    older_than: timedelta | None,
    report_dir: Path,
    backend: str,
    auth: str | None,
    base_url: str,
    everything: bool,  # noqa: FBT001 - click passes it by name
    dry_run: bool,  # noqa: FBT001 - click passes it by name
) -> None:
    """Remove live sandboxes that carry every --tag.

    It looks where `ps` does. Exit code 1 when some could not be removed, 75 when a service does not
    answer, 2 when there is none.
    """
    from pytest_cwsandbox.monitoring.sandboxes import remove

    if not wanted and not everything:
        raise click.UsageError("give a --tag, such as training-run:ID, or --all")
    options = BackendOptions(backend, auth or "", base_url)
    found, complete = _find(options, report_dir, wanted, older_than)
    failures = {} if dry_run else remove(found)
    for sandbox in found:
        name = str(sandbox.sandbox_id)
        if name in failures:
            click.echo(f"{name} is still there: {failures[name]}", err=True)
        else:
            click.echo(f"{'would remove' if dry_run else 'removed'} {name}")
    gone = len(found) - len(failures)
    click.echo(
        f"{gone} {'would be removed' if dry_run else 'removed'}"
        + (f", {len(failures)} could not be" if failures else "")
    )
    sys.exit(1 if failures else 0 if complete else INCONCLUSIVE)


def _find(
    options: BackendOptions,
    report_dir: Path,
    wanted: tuple[str, ...],
    older_than: timedelta | None,
) -> tuple[list[Sandbox], bool]:
    """The sandboxes, and whether every service answered; what did not is said."""
    from pytest_cwsandbox.monitoring.sandboxes import find, services

    sandboxes: list[Sandbox] = []
    complete = True
    with users_mistakes():
        for service in services(options, report_dir):
            try:
                sandboxes += find(service, wanted, older_than=older_than)
            except InfrastructureError as error:
                click.echo(f"Error: {error}", err=True)
                complete = False
    return sandboxes, complete


def _show(sandboxes: list[Sandbox]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from pytest_cwsandbox.monitoring.sandboxes import age

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("sandbox", no_wrap=True)
    table.add_column("status", no_wrap=True)
    table.add_column("age", justify="right", no_wrap=True)
    table.add_column("tags", overflow="fold", ratio=1)
    for sandbox in sandboxes:
        table.add_row(
            str(sandbox.sandbox_id),
            _status(sandbox),
            _in_words(age(sandbox)),
            Text("\n".join(map(printable, sandbox.tags))),
        )
    Console(highlight=False).print(table)


def _status(sandbox: Sandbox) -> str:
    return sandbox.status.value if sandbox.status else "unknown"


def _in_words(age: timedelta | None) -> str:
    """Its largest unit, such as 3h."""
    if age is None:
        return "-"
    seconds = max(0, int(age.total_seconds()))
    name, unit = next(
        ((name, unit) for name, unit in reversed(SECONDS.items()) if seconds >= unit), ("s", 1)
    )
    return f"{seconds // unit}{name}"
