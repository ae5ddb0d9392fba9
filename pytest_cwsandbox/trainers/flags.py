"""Types of flags that both training commands take."""

from __future__ import annotations

import math

import click


def positive(_: click.Context, __: click.Parameter, value: float) -> float:
    """A callback of click: above zero and finite."""
    if not (math.isfinite(value) and value > 0):
        raise click.BadParameter(f"must be finite and more than 0, not {value}")
    return value


def not_empty(_: click.Context, __: click.Parameter, value: str) -> str:
    """A callback of click: names something."""
    if not value.strip():
        raise click.BadParameter("must not be empty")
    return value
