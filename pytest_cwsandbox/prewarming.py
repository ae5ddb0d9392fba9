"""What the next items need, begun while the present one runs."""

from __future__ import annotations

import contextlib
import threading
from itertools import islice
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox import allowance, backend
from pytest_cwsandbox.errors import HarnessError
from pytest_cwsandbox.items import is_replayed, runs_tests
from pytest_cwsandbox.runs.identity import RUN
from pytest_cwsandbox.settings import SETTINGS
from pytest_cwsandbox.shares import SHARE
from pytest_cwsandbox.upcoming import Upcoming

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from contextlib import AbstractContextManager

    Starter = Callable[[Sequence[pytest.Item]], None]

AHEAD = 2  # items; one could be a little late where tests take as long as starts
FINISH_SECONDS = 10.0


class Prewarming:
    """Registered in processes that run items with sandboxes."""

    def __init__(self, session: pytest.Session) -> None:
        config = session.config
        self._upcoming = Upcoming(session)
        self._ahead = max(1, min(AHEAD, config.stash[SHARE].in_flight))
        self._starters: list[Starter] = []
        self._next: pytest.Item | None = None
        self._preparation = threading.Thread(
            target=_prepare, args=(config,), name="cwsandbox-preparation", daemon=True
        )
        self._preparation.start()

    @contextlib.contextmanager
    def starting(self, starter: Starter) -> Generator[None]:
        """Let ``starter`` know, again and again, of the item that runs and those that follow."""
        self._starters.append(starter)
        try:
            yield
        finally:
            self._starters.remove(starter)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self,
        item: pytest.Item,  # noqa: ARG002 - pytest names its hooks' arguments
        nextitem: pytest.Item | None,
    ) -> Generator[None, object, object]:
        self._next = nextitem
        return (yield)

    @pytest.hookimpl(tryfirst=True)  # its own fixtures are there, its test function has yet to run
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        following = islice(self._upcoming.after(item, self._next), self._ahead)
        items = [item, *(each for each in following if _gets_to_fixtures(each))]
        for starter in self._starters:
            starter(items)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._preparation.join(FINISH_SECONDS)  # what it starts must not outlive the run
        allowance.tell(session.config)


PREWARMING = pytest.StashKey[Prewarming]()


def begin(session: pytest.Session) -> None:
    """Begin what the first sandbox will need, where one is going to be needed."""
    config = session.config
    if session.testsfailed or not runs_tests(config):
        return
    if any(uses_sandboxes(item) and _gets_to_fixtures(item) for item in session.items):
        config.stash[PREWARMING] = Prewarming(session)
        config.pluginmanager.register(config.stash[PREWARMING], "cwsandbox-prewarming")


def starting(config: pytest.Config, starter: Starter) -> AbstractContextManager[None]:
    """See ``Prewarming.starting``; where nothing was known to need sandboxes nothing is started."""
    if PREWARMING in config.stash:
        return config.stash[PREWARMING].starting(starter)
    return contextlib.nullcontext()


def uses_sandboxes(item: pytest.Item) -> bool:
    """Whether a fixture of the item needs the backend."""
    return "_cwsandbox_backend" in getattr(item, "fixturenames", ())


def _gets_to_fixtures(item: pytest.Item) -> bool:
    """Whether the item is going to run: one that may be skipped gets nothing ahead."""
    if is_replayed(item) or any(item.iter_markers("skip")) or any(item.iter_markers("skipif")):
        return False
    return all(mark.kwargs.get("run", True) for mark in item.iter_markers("xfail"))


def _prepare(config: pytest.Config) -> None:
    run = config.stash[RUN]
    with contextlib.suppress(HarnessError):  # the first fixture that needs it says why
        backend.prepare(config.stash[SETTINGS].backend_options, run.folder, lifeline=run.controller)
