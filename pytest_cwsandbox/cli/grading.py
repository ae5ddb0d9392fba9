"""`doctor` and `grade`: is all well here, and what are these completions worth."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.cli.shared import (
    backend_options,
    concurrency_option,
    retries_option,
    users_mistakes,
)
from pytest_cwsandbox.options import SIZE_WANTED, read_size
from pytest_cwsandbox.runs.gate import INCONCLUSIVE


@click.command()
@backend_options
def doctor(backend: str, auth: str | None, base_url: str, image: str) -> None:
    """Check that sandboxes can run here, and grade one right and one wrong program."""
    from pytest_cwsandbox.diagnosis import diagnose

    healthy = diagnose(BackendOptions(backend, auth or "", base_url, image))
    sys.exit(0 if healthy else 1)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Default: standard output.")
@concurrency_option
@click.option("--held-out", is_flag=True, help="Use challenge_test_list as well as test_list.")
@click.option(
    "--cpu-limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="CPU seconds that a program may use.",
)
@click.option(
    "--wall-limit",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="Wall seconds that a program may take.",
)
@click.option(
    "--memory-limit", default="1GiB", show_default=True, help="Memory that a program may use."
)
@retries_option
@backend_options
def grade(  # noqa: PLR0913 - one parameter per option
    file: Path,
    output: Path | None,
    concurrency: int,
    held_out: bool,  # noqa: FBT001 - click passes it by name
    cpu_limit: int,
    wall_limit: float,
    memory_limit: str,
    retries: int,
    backend: str,
    auth: str | None,
    base_url: str,
    image: str,
) -> None:
    """Grade the completions in FILE, a JSON object per line; "-" is standard input.

    A row holds "completion" (as a model wrote it) or "solution" (code), "test_list", and
    optionally "id", "test_imports", "test_setup_code" and "entry_point". Each becomes a row
    {"id", "reward", "verdict", "detail", "seconds"}, in the same order. Exit code 0 when every row
    has a reward, 75 when some reward is null (the infrastructure failed), 2 for unreadable input.
    """
    from pytest_cwsandbox.batch import grade_file
    from pytest_cwsandbox.grading import Limits

    memory = read_size(memory_limit)
    if memory is None:
        raise click.BadParameter(SIZE_WANTED, param_hint="--memory-limit")
    with users_mistakes():
        complete = grade_file(
            Path("/dev/stdin") if str(file) == "-" else file,
            output,
            options=BackendOptions(backend, auth or "", base_url, image),
            limits=Limits(cpu_limit, wall_limit, memory),
            retries=retries,
            concurrency=concurrency,
            held_out=held_out,
        )
    sys.exit(0 if complete else INCONCLUSIVE)
