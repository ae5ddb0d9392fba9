"""What the commands share: options of the backend, and errors on one line."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import click

from pytest_cwsandbox.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class OneLine(click.ClickException):
    """The user's mistake: one line on stderr, exit code 2."""

    exit_code = 2


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
