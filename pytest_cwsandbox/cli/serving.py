"""`serve`: the local runner for other programs."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from pytest_cwsandbox import runner
from pytest_cwsandbox.cli.shared import OneLine, users_mistakes

if TYPE_CHECKING:
    from collections.abc import Iterator


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
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
        with users_mistakes():
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
