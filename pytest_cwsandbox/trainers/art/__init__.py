"""OpenPipe ART: rollouts as its trajectories, and the training loop over them.

``python -m pytest_cwsandbox.trainers.art`` trains. Importing this package imports neither ART nor
the SDK; the names below are loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_cwsandbox.trainers.art.episodes import (
        collect_trajectory_group,
        on_policy,
        open_environment,
        rollout,
    )
    from pytest_cwsandbox.trainers.art.loop import train

__all__ = ["collect_trajectory_group", "on_policy", "open_environment", "rollout", "train"]

_HOMES = {
    "collect_trajectory_group": "episodes",
    "on_policy": "episodes",
    "open_environment": "episodes",
    "rollout": "episodes",
    "train": "loop",
}


def __getattr__(name: str) -> object:
    """Load a public name's module (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
