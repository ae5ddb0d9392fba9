"""What the commands share: options of the backend, and how they print."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import click

from pytest_cwsandbox.errors import UserError
from pytest_cwsandbox.reports.columns import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class OneLine(click.ClickException):
    """The user's mistake: one line on stderr, exit code 2."""

    exit_code = 2

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


def say(line: str, *, color: bool | None = None, fg: str | None = None) -> None:
    """Print a line of which models and tests wrote a part: as text, whatever it is."""
    click.secho(printable(line), fg=fg, reset=fg is not None, color=color)


def warn(line: str) -> None:
    click.echo(f"warning: {printable(line)}", err=True)


def colored() -> bool:
    """Whether stdout is for colours: as rich has it, by NO_COLOR, FORCE_COLOR and TERM too."""
    from rich.console import Console

    console = Console()
    return console.is_terminal and not (console.no_color or console.is_dumb_terminal)


@contextlib.contextmanager
def users_mistakes() -> Iterator[None]:
    try:
        yield
    except UserError as error:
        raise OneLine(str(error)) from error


def service_options(command: Callable[..., None]) -> Callable[..., None]:
    """Which service a command asks: ``backend``, ``auth`` and ``base_url``."""
    for option in (
        click.option("--base-url", default="", help="Address of the hosted service."),
        click.option(
            "--auth",
            type=click.Choice(["api-key", "wandb"]),
            default=None,
            help="Credentials for the hosted service: CWSANDBOX_API_KEY, or those of W&B.",
        ),
        click.option(
            "--backend",
            type=click.Choice(["auto", "local", "hosted"]),
            default="auto",
            show_default=True,
            help="Where sandboxes run; auto is hosted when there are credentials, else local.",
        ),
    ):
        command = option(command)
    return command


def backend_options(command: Callable[..., None]) -> Callable[..., None]:
    """As ``service_options``, and the ``image`` of sandboxes that the command starts."""
    image = click.option("--image", default="", help="Container image of the sandboxes.")
    return service_options(image(command))


concurrency_option = click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="Sandboxes at once.",
)
retries_option = click.option(
    "--retries",
    type=click.IntRange(min=0),
    default=2,
    show_default=True,
    help="Fresh sandboxes to try after one failed.",
)
