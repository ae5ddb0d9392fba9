"""A model without an account: fixed scripts behind a real OpenAI-compatible server on loopback.

``python -m pytest_cwsandbox.rollouts.scripted`` serves. Importing this package costs next to
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_cwsandbox.embedded import Embedded

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["CANNOT", "NOT_A_MODEL", "SCRIPTED", "Endpoint", "is_scripted", "join_or_start", "stop"]

SCRIPTED = "scripted"
CANNOT = (
    "I am a script and no model: I can solve only the bundled problems and tasks. "
    "A real model is chosen with --cwsandbox-model."
)
NOT_A_MODEL = "scripted answers to the bundled problems and tasks, no language model"
SERVER = Embedded(
    file="scripted",
    module="pytest_cwsandbox.rollouts.scripted",
    title="the scripted model",
    remedy="choose another model with --cwsandbox-model",
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the scripted model answers; ``address`` is the base URL, ``token`` the API key."""

    address: str
    token: str


def is_scripted(model: str) -> bool:
    """Whether this model's name is one of the scripts'."""
    return model == SCRIPTED or model.startswith(f"{SCRIPTED}-")


def join_or_start(folder: Path, *, lifeline: int, latency: float = 0.0) -> Endpoint:
    """The scripted model of the run whose folder this is, started if it is not there yet.

    ``lifeline`` is the process id with which it ends. ``latency`` is the seconds before each
    answer of one that is started. Raises ``BackendError``.
    """
    row = SERVER.join_or_start(folder, lifeline=lifeline, arguments=["--latency", str(latency)])
    return Endpoint(str(row["address"]), str(row["token"]))


def stop(folder: Path) -> None:
    """End the run's scripted model, if it has one."""
    SERVER.stop(folder)
