"""The `pytest-cwsandbox` command. Exit codes: 0 good, 1 bad, 75 inconclusive, 2 usage."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from pytest_cwsandbox import backend, runner
from pytest_cwsandbox.errors import UserError
from pytest_cwsandbox.export import FORMATS, export_run
from pytest_cwsandbox.options import SIZE_WANTED, read_size
from pytest_cwsandbox.runs.gate import INCONCLUSIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BACKENDS = click.Choice(["auto", "local", "hosted"])


class OneLine(click.ClickException):
    """The user's mistake: one line on stderr, exit code 2."""

    exit_code = 2


@contextlib.contextmanager
def _users_mistakes() -> Iterator[None]:
    try:
        yield
    except UserError as error:
        raise OneLine(str(error)) from error


def _backend_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--image", default="", help="Container image of the sandboxes."),
        click.option("--base-url", default="", help="Address of the hosted service."),
        click.option(
            "--auth",
            type=click.Choice(["api-key", "wandb"]),
            default=None,
            help="Credentials for the hosted service: CWSANDBOX_API_KEY, or those of W&B.",
        ),
        click.option(
            "--backend",
            type=BACKENDS,
            default="auto",
            show_default=True,
            help="Where sandboxes run; auto is hosted when there are credentials, else local.",
        ),
    ):
        command = option(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pytest-cwsandbox")
def main() -> None:
    """Evaluate code agents and their reward functions in CoreWeave sandboxes."""


@main.command()
@_backend_options
def doctor(backend: str, auth: str | None, base_url: str, image: str) -> None:
    """Check that sandboxes can run here, and grade one right and one wrong program."""
    from pytest_cwsandbox.diagnosis import diagnose

    healthy = diagnose(_options(backend, auth, base_url, image))
    sys.exit(0 if healthy else 1)


@main.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="KIND[=SECONDS][@SHARE]",
    help="Fail on purpose, such as exec-lost@0.3 or create-latency=3; may be repeated.",
)
@click.option("--fault-seed", type=int, default=0, help="Chooses the calls that a share means.")
def serve(command: tuple[str, ...], faults: tuple[str, ...], fault_seed: int) -> None:
    """Run the local runner until Ctrl-C and print its export lines for other terminals.

    With COMMAND (`serve -- python my_job.py`) run that with the variables set, and end with it and
    its exit code.
    """
    folder = Path(tempfile.mkdtemp(prefix="cwsandbox-serve-"))
    try:
        with _users_mistakes():
            served = runner.join_or_start(
                folder, lifeline=os.getpid(), faults=faults, fault_seed=fault_seed
            )
        environment = served.environment(os.environ)
        if command:
            sys.exit(_run(command, {**os.environ, **environment}))
        for name, value in environment.items():
            click.echo(f"export {name}={shlex.quote(value)}")
        click.echo(f"serving at {served.address} (Ctrl-C ends it)", err=True)
        _wait_for_end(served.pid)
    finally:
        runner.stop(folder)


def _run(command: tuple[str, ...], environment: dict[str, str]) -> int:
    try:
        child = subprocess.Popen(command, env=environment)
    except OSError as error:
        raise OneLine(f"cannot run {command[0]}: {error.strerror}") from error
    with _ignored(signal.SIGINT):  # the terminal sends it to the child as well: it decides
        code = child.wait()
    return 128 - code if code < 0 else code


@contextlib.contextmanager
def _ignored(number: signal.Signals) -> Iterator[None]:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, before)


def _wait_for_end(pid: int) -> None:
    """Return when the user or the system wants the end; fail when the runner died by itself."""

    def ended(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, ended)
    try:
        runner.wait(pid)
    except KeyboardInterrupt:
        return
    raise OneLine("the local runner ended by itself; run `pytest-cwsandbox doctor`")


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Default: standard output.")
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="Sandboxes at once.",
)
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
@click.option(
    "--retries",
    type=click.IntRange(min=0),
    default=2,
    show_default=True,
    help="Fresh sandboxes to try after one failed.",
)
@_backend_options
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
    with _users_mistakes():
        complete = grade_file(
            Path("/dev/stdin") if str(file) == "-" else file,
            output,
            options=_options(backend, auth, base_url, image),
            limits=Limits(cpu_limit, wall_limit, memory),
            retries=retries,
            concurrency=concurrency,
            held_out=held_out,
        )
    sys.exit(0 if complete else INCONCLUSIVE)


def _range(_: click.Context, option: click.Parameter, value: str | None) -> list[float] | None:
    if value is None:
        return None
    try:
        low, high = map(float, value.split(":"))
    except ValueError:
        low, high = 1.0, 0.0
    unit = option.name == "keep"
    if not (0 <= low <= high <= 1 if unit else -math.inf < low < high < math.inf):
        wanted = "LOW:HIGH with 0 <= LOW <= HIGH <= 1" if unit else "LOW:HIGH with LOW < HIGH"
        raise click.BadParameter(f'must be {wanted}, such as 0.2:0.8, got "{value}"')
    return [low, high]


SHARE = click.FloatRange(0, 1)


@main.command()
@click.argument("samples", type=click.Path(path_type=Path))
@click.option("--group-size", type=click.IntRange(min=2), default=8, show_default=True)
@click.option("--keep", metavar="LOW:HIGH", callback=_range, help="Train on these pass rates only.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the kept problems.")
@click.option("--problems", metavar="SOURCE", help="Write their full rows, from this source.")
@click.option("--group", default="", help="Take one group of a run's samples.")
@click.option("--batch", type=click.IntRange(min=1), default=32, show_default=True, help="Groups.")
@click.option("--bounds", metavar="LOW:HIGH", default="0:1", show_default=True, callback=_range)
@click.option("--min-samples", type=click.IntRange(min=1), help="Default: the group size.")
@click.option("--max-zero-variance", type=SHARE, default=0.5, show_default=True)
@click.option("--max-infrastructure", type=SHARE, default=0.05, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as one JSON object.")
def preflight(  # noqa: PLR0913 - one parameter per option
    samples: Path,
    group_size: int,
    keep: list[float] | None,
    output: Path | None,
    problems: str | None,
    group: str,
    batch: int,
    bounds: list[float],
    min_samples: int | None,
    max_zero_variance: float,
    max_infrastructure: float,
    as_json: bool,  # noqa: FBT001 - click passes it by name
) -> None:
    """Say whether GRPO will learn from the problems in SAMPLES, before a GPU is booked.

    SAMPLES is a file with rows {"task_id", "reward"} (null: lost to infrastructure), or a run: its
    folder or its samples.jsonl. Exit code 0 when READY, 1 when NOT READY, 2 for unreadable input.
    """
    from pytest_cwsandbox.validation.keep_list import problem_rows, write_keep_list
    from pytest_cwsandbox.validation.preflight import Plan, preflight
    from pytest_cwsandbox.validation.samples import read_samples
    from pytest_cwsandbox.validation.zero_variance import PassRange

    plan = Plan(
        group_size=group_size,
        keep=PassRange(*keep) if keep else None,
        batch=batch,
        bounds=(bounds[0], bounds[1]),
        min_samples=min_samples,
        max_zero_variance=max_zero_variance,
        max_infrastructure=max_infrastructure,
    )
    with _users_mistakes():
        file = read_samples(samples, group)
        rows = problem_rows(file, problems) if problems else {}
        found = preflight(file, plan)
        if output is not None:
            write_keep_list(output, found.kept, rows)
    if as_json:
        click.echo(json.dumps(found.to_json()))
    else:
        from rich.console import Console

        from pytest_cwsandbox.reports.preflight import show

        show(found, Console(highlight=False))
    sys.exit(0 if found.ready else 1)


@main.command(name="export")
@click.argument("run")
@click.option(
    "--to",
    type=click.Choice(list(FORMATS)),
    required=True,
    help="The format, see above.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    metavar="PATH",
    help="The file to write; replaced when it is there.",
)
@click.option(
    "--min-reward",
    type=float,
    help="What counts as passed, for openai and trl-preference.  [default: 1]",
)
def export_(run: str, to: str, output: Path, min_reward: float | None) -> None:
    """Write the trajectories of RUN as training data or as a table.

    RUN is a run's folder, its id under .cwsandbox/runs, "latest", or a trajectories file.

    \b
    trl             TRL: prompt, completion, reward, tools    .parquet .jsonl
    trl-preference  TRL: prompt, chosen, rejected, tools:     .parquet .jsonl
                    passed and failed samples of a problem
    art             OpenPipe ART: a group per problem                  .jsonl
    openai          chat fine-tuning: the passed samples               .jsonl
    parquet         a flat table of all samples               .parquet

    Samples that the infrastructure lost never become a reward: art lists them as exceptions, the
    other training formats leave them out.
    """  # noqa: D301 - click wants the character, not the backslash
    with _users_mistakes():
        report = export_run(
            run,
            to,
            output,
            warn=lambda text: click.echo(f"warning: {text}", err=True),
            min_reward=min_reward,
        )
    click.echo(report)


def _options(kind: str, auth: str | None, base_url: str, image: str) -> backend.BackendOptions:
    return backend.BackendOptions(kind, auth or "", base_url, image)
