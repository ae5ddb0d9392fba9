"""`rescore`: grade a run's completions again."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.cli.shared import (
    backend_options,
    concurrency_option,
    retries_option,
    say,
    users_mistakes,
    warn,
)
from pytest_cwsandbox.options import SIZE_WANTED, read_size
from pytest_cwsandbox.runs.gate import INCONCLUSIVE
from pytest_cwsandbox.runs.location import locate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_cwsandbox.rescore import Rescored

LISTED = 10
STOPPED = 130  # as shells have it for Ctrl-C


@click.command()
@click.argument("run")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The new run's folder.  [default: RUN-rescored, beside it]",
)
@concurrency_option
@click.option("--held-out", is_flag=True, help="Use challenge_test_list for every sample.")
@retries_option
@click.option("--cpu-limit", type=click.IntRange(min=1), help="CPU seconds.  [default: the run's]")
@click.option(
    "--wall-limit",
    type=click.FloatRange(min=0, min_open=True),
    help="Wall seconds.  [default: the run's]",
)
@click.option("--memory-limit", metavar="SIZE", help="Such as 1GiB.  [default: the run's]")
@backend_options
def rescore(  # noqa: PLR0913 - one parameter per option
    run: str,
    output: Path | None,
    concurrency: int,
    held_out: bool,  # noqa: FBT001 - click passes it by name
    retries: int,
    cpu_limit: int | None,
    wall_limit: float | None,
    memory_limit: str | None,
    backend: str,
    auth: str | None,
    base_url: str,
    image: str,
) -> None:
    """Grade the recorded completions of RUN again, without the model.

    RUN is a run's folder, its id under .cwsandbox/runs, or "latest". Writes a new run beside it.
    Exit code 0; 75 when a grade was lost to infrastructure (its reward is null); 2 for a run that
    cannot be read or graded; 130 when it was stopped, which leaves nothing.
    """
    from rich.console import Console
    from rich.progress import Progress

    from pytest_cwsandbox.rescore import Rescoring, rescore_run
    from pytest_cwsandbox.runs.redaction import redact_command

    memory = None
    if memory_limit is not None and (memory := read_size(memory_limit)) is None:
        raise click.BadParameter(SIZE_WANTED, param_hint="--memory-limit")
    console = Console(stderr=True)
    with users_mistakes(), _stoppable():
        folder = locate(run)
        how = Rescoring(
            BackendOptions(backend, auth or "", base_url, image),
            held_out=held_out,
            concurrency=concurrency,
            retries=retries,
            cpu_limit=cpu_limit,
            wall_limit=wall_limit,
            memory_limit=memory,
        )
        with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:
            task = progress.add_task("grading", total=None)
            rescored = rescore_run(
                folder,
                output or folder.with_name(f"{folder.resolve().name}-rescored"),
                how,
                command=redact_command(["pytest-cwsandbox", *sys.argv[1:]]),
                warn=warn,
                advance=lambda done, of: progress.update(task, completed=done, total=of),
            )
    _show(rescored)
    sys.exit(INCONCLUSIVE if rescored.lost else 0)


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        click.echo("stopped: nothing was written", err=True)
        sys.exit(STOPPED)


def _show(rescored: Rescored) -> None:
    from pytest_cwsandbox.reports.terminal import losses
    from pytest_cwsandbox.rescore import counted

    changed, lost = rescored.changed, rescored.lost
    click.echo(f"graded again: {len(rescored.graded)}")
    if rescored.kept:
        click.echo(f"kept as they were: {counted(rescored.kept)}")
    click.echo(f"rewards changed: {len(changed)}")
    for old, new in changed[:LISTED]:
        say(f"  {old.id}: {_brief(old.reward, old.verdict)} -> {_brief(new.reward, new.verdict)}")
    if len(changed) > LISTED:
        click.echo(f"  and {len(changed) - LISTED} more")
    if lost:
        click.echo(f"lost to infrastructure: {len(lost)}")
    for line in losses(lost):
        say(f"  {line}")
    click.echo(f"results: {rescored.folder}")


def _brief(reward: float | None, verdict: str) -> str:
    return f"{verdict or 'no verdict'} ({'null' if reward is None else f'{reward:g}'})"
