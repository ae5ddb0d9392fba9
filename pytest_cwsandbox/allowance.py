"""What each process of a run may have of its sandboxes, and what it had of them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, cast

import pytest

from pytest_cwsandbox.admission import LEAST, PROCESS, Reached

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_cwsandbox.settings import Settings
    from pytest_cwsandbox.shares import Share

REACHED = pytest.StashKey[Reached]()
TOLD = "cwsandbox_reached"  # in what a worker sends when it ends


def allow(settings: Settings, share: Share) -> None:
    """Set this process's part of ``--cwsandbox-max-sandboxes``; raises ``pytest.UsageError``.

    Each has its own, which nobody takes over when it dies: its sandboxes live until they are swept.
    """
    most, processes = settings.max_sandboxes, share.processes
    if most is not None and most // processes < LEAST:
        each = f"each of {processes} processes" if processes > 1 else "it"
        raise pytest.UsageError(
            f"--cwsandbox-max-sandboxes={most}: must be at least {LEAST * processes}: {each} needs "
            "one for a test, one for an agent and one for a grade"
            + ("; raise it, or use fewer processes" if processes > 1 else "")
        )
    PROCESS.begin(None if most is None else most // processes)


def tell(config: pytest.Config) -> None:
    """Say what this process had: to the controller, if it is a worker's."""
    reached = PROCESS.reached()
    output: dict[str, object] | None = getattr(config, "workeroutput", None)
    if output is None:
        config.stash[REACHED] = reached
    else:
        output[TOLD] = asdict(reached)


def hear(config: pytest.Config, output: Mapping[str, object]) -> None:
    """Add what a worker had, unless it was killed before it could say so."""
    if TOLD in output:
        told = Reached.from_json(cast("dict[str, float]", output[TOLD]))
        config.stash[REACHED] = config.stash.get(REACHED, Reached()) + told


def said(config: pytest.Config) -> str:
    """What the report says of the run's sandboxes; nothing where there were none."""
    reached = config.stash.get(REACHED, Reached())
    if not reached.started:
        return ""
    again = f" ({reached.again:,} of them again)" if reached.again else ""
    line = (
        f"sandboxes: {reached.started:,} started{again}, highest {reached.highest:,} at once, "
        f"mean {reached.mean:,.1f}"
    )
    if reached.refused:
        line += (
            f"; the service had no room {_times(reached.refused)}, the limit was lowered "
            f"{_times(reached.lowered)}"
        )
    return line


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"
