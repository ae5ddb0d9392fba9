"""Continuing a run: samples that are finished are replayed from its journal, the rest runs.

A replayed item goes through pytest as every other does, so that reports, ``-x`` and JUnit know it;
but it sets no fixture up and does not call the test function. docs/runs.md says how it is decided.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox import recording, runner
from pytest_cwsandbox.annotation import STOPPED
from pytest_cwsandbox.errors import UserError
from pytest_cwsandbox.items import REPLAYED
from pytest_cwsandbox.rollouts import scripted
from pytest_cwsandbox.runs import journal, lines, plan
from pytest_cwsandbox.runs.location import ANYTHING, locate
from pytest_cwsandbox.runs.redaction import sample_id
from pytest_cwsandbox.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_cwsandbox.runs.journal import Entry
    from pytest_cwsandbox.runs.lock import FolderLock


class ReplayedAssertionError(AssertionError):
    """The assertion that failed in the run that is continued."""


class ReplayedError(Exception):
    """The error of the test in the run that is continued."""


def reopen(run: str, runs: Path, lock: FolderLock, warn: Callable[[str], None]) -> Path:
    """The folder of a run that is to be continued, locked and fit to be appended to.

    Raises ``UserError`` for what is no run, or none that this version can continue now.
    """
    folder = locate(run, runs, holding=ANYTHING)
    if not folder.is_dir():
        raise UserError(f"{folder}: is a file; give the run's folder")
    if not journal.exists(folder) and not (folder / plan.PLAN).exists():
        raise UserError(
            f"{folder}: holds no run that could be continued: nothing was recorded in it; start "
            "one without --cwsandbox-resume"
        )
    try:
        lock.take(folder)
        _clear(folder)
        for file in [*folder.glob("samples-*.jsonl"), *folder.glob("trajectories-*.jsonl")]:
            lines.mend(file, warn)
    except OSError as error:
        raise UserError(f"{folder}: cannot be written: {error.strerror}") from error
    if journal.exists(folder):
        journal.read(folder, warn)
    plan.read(folder)
    plan.read_problems(folder)
    plan.read_tasks(folder)
    return folder


def _clear(folder: Path) -> None:
    """Remove what a controller that was killed could not; its servers may still be ending."""
    runner.stop(folder)
    scripted.stop(folder)
    (folder / STOPPED).unlink(missing_ok=True)


class Replay:
    """Registered when a run is continued; of use in the processes that collect tests."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @pytest.hookimpl(trylast=True)  # when nothing changes the items any more
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if not journal.exists(self._folder):
            return
        # What there is to say of the journal the controller has said.
        entries = journal.latest(self._folder, lambda _: None)
        for item in items:
            entry = entries.get(sample_id(item.nodeid))
            if entry is None:
                continue
            if entry.finished and not _was_to_run_again(item, entry):
                item.setup = partial(_set_up, item)  # type: ignore[method-assign]  # as below
                item.runtest = partial(_replay, item, entry)  # type: ignore[method-assign]  # too
                item.teardown = _tear_down  # type: ignore[method-assign]  # and this
                item.stash[REPLAYED] = True
            else:
                item.stash[recording.ATTEMPTS] = entry.attempt


def _was_to_run_again(item: pytest.Item, entry: Entry) -> bool:
    """Whether the run was killed before pytest-rerunfailures could run a failed item again.

    If not, it does not do so with the replayed failure either.
    """
    plugin = item.config.pluginmanager.getplugin("rerunfailures")
    if plugin is None or not entry.failed(gated=item.config.stash[SETTINGS].gated):
        return False
    if entry.attempt <= (plugin.get_reruns_count(item) or 0):
        return True
    item.add_marker(pytest.mark.flaky(reruns=0), append=False)
    return False


def _set_up(item: pytest.Item) -> None:
    """Set no fixture up, and start no sandbox. Hooks look here whether there is one."""
    if hasattr(item, "fixturenames"):
        item.fixturenames = []


def _tear_down() -> None:
    """Tear nothing down: a test case of unittest would miss what its setup makes."""


def _replay(item: pytest.Item, entry: Entry) -> None:
    """Record what the journal says, and end as the test function did."""
    recording.replay(item, entry)
    if entry.ending == "skipped":
        pytest.skip(entry.failure)
    if entry.ending == "xfailed":
        pytest.xfail(entry.failure)
    if entry.ending == "failed":
        raise (ReplayedAssertionError if entry.asserted else ReplayedError)(entry.failure)
