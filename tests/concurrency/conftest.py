"""Tests of run-ahead write a project into a folder of their own and run pytest on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

# Counts how many tests are under way: `await pause(seconds)` in tests, MOST in what follows them.
PAUSE = """
import asyncio

NOW = MOST = 0

async def pause(seconds=0.0):
    global NOW, MOST
    NOW += 1
    MOST = max(MOST, NOW)
    try:
        await asyncio.sleep(seconds)
    finally:
        NOW -= 1
"""
INI = """
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder with `pause.py`, and no account and no outer pytest in the environment."""
    for name in ("CWSANDBOX_API_KEY", "CWSANDBOX_BASE_URL", "CWSANDBOX_LOCAL_RUNNER"):
        monkeypatch.delenv(name, raising=False)
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)
    pytester.makeini(INI)
    pytester.makepyfile(pause=PAUSE)
    return pytester


@pytest.fixture
def ahead(project: pytest.Pytester) -> Callable[..., pytest.RunResult]:
    """Run pytest in one process, with 8 tests in flight unless the arguments say otherwise."""
    return lambda *args: project.runpytest_subprocess("-n0", "--cwsandbox-concurrency=8", *args)
