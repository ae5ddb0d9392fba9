"""Continuing a run: samples that are finished are replayed from its journal, the rest runs.

A replayed item goes through pytest as every other does, so that reports, ``-x`` and JUnit know it;
but it sets no fixture up and does not call the test function.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Self

import pytest

from pytest_cwsandbox import recording
from pytest_cwsandbox.errors import UserError
from pytest_cwsandbox.runs import journal, lines
from pytest_cwsandbox.runs.location import locate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pytest_cwsandbox.runs.journal import Entry


class ReplayedAssertionError(AssertionError):
    """The assertion that failed in the run that is continued."""


class ReplayedError(Exception):
    """The error of the test in the run that is continued."""


def reopen(run: str, runs: Path, warn: Callable[[str], None]) -> Path:
    """The folder of a run that is to be continued, fit to be appended to.

    Raises ``UserError`` for what is no run, or none that this version can continue.
    """
    folder = locate(run, runs)
    if not folder.is_dir():
        raise UserError(f"{folder}: is a file; give the run's folder")
    for file in [*folder.glob("samples-*.jsonl"), *folder.glob("trajectories-*.jsonl")]:
        lines.mend(file, warn)
    journal.read(folder, warn)
    return folder


class Replay:
    """Registered in the processes that run tests, when a run is continued."""

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self._entries = entries

    @classmethod
    def of(cls, folder: Path) -> Self:
        """From the journal of the run's folder, which the controller has looked through."""
        return cls(journal.read(folder, lambda _: None))

    @pytest.hookimpl(trylast=True)  # when nothing changes the items any more
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            entry = self._entries.get(item.nodeid)
            if entry is None:
                continue
            if entry.finished:
                item.setup = _nothing  # type: ignore[method-assign]  # no fixture, no sandbox
                item.runtest = partial(_replay, item, entry)  # type: ignore[method-assign]
            else:
                item.stash[recording.ATTEMPTS] = entry.attempt


def _nothing() -> None:
    """Set nothing up."""


def _replay(item: pytest.Item, entry: Entry) -> None:
    """Record what the journal says, and end as the test function did."""
    recording.replay(item, entry)
    if entry.ending == "skipped":
        pytest.skip(entry.failure)
    if entry.ending == "xfailed":
        pytest.xfail(entry.failure)
    if entry.ending == "failed":
        raise (ReplayedAssertionError if entry.asserted else ReplayedError)(entry.failure)
