"""Run-ahead: coroutine tests start before pytest comes to them; docs/concurrency.md says how.

Tests stay sequential for pytest. While it awaits one, those that follow run too, on one event loop
of the main thread, and each says what it has to say at its turn. Nothing here is imported unless
a process may have more than one test in flight and has collected one that may be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_cwsandbox.concurrency import loop
from pytest_cwsandbox.concurrency.ahead import Ahead
from pytest_cwsandbox.concurrency.live import LiveFixtures

if TYPE_CHECKING:
    import pytest


def start(session: pytest.Session, limit: int) -> None:
    """Let tests of this session run ahead, at most ``limit`` at once; 1: they run in order."""
    config = session.config
    if config.getoption("usepdb", default=False) or config.getoption("trace", default=False):
        limit = 1  # people want to see one test at a time
    if limit == 1 and config.pluginmanager.hasplugin("asyncio"):
        return  # it does as well
    live = LiveFixtures()
    ahead = Ahead(session, limit, live)
    parts = {"loop": loop, "live-fixtures": live, "ahead": ahead, "timeouts": ahead.timeouts}
    for name, part in parts.items():
        config.pluginmanager.register(part, f"cwsandbox-{name}")
