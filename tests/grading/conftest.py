"""Graders on a local runner, one per test process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.connections import grading_session
from pytest_cwsandbox.grading import Grader, base
from pytest_cwsandbox.grading.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cwsandbox import Session

# Enough for any program here on a loaded machine, and little enough to wait for.
LIMITS = Limits(cpu_seconds=5, wall_seconds=30)


@pytest.fixture(scope="session")
def session() -> Iterator[Session]:
    with grading_session(BackendOptions("local")) as session:
        yield session


@pytest.fixture(params=["one-shot", "executed"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How programs run: as on the local runner, or as on the hosted service."""
    way: str = request.param
    monkeypatch.setattr(base, "runs_one_shot", lambda _: way == "one-shot")
    return way


@pytest.fixture(scope="session", params=["one-shot", "executed"])
def grader(request: pytest.FixtureRequest, session: Session) -> Iterator[Grader]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "runs_one_shot", lambda _: request.param == "one-shot")
        grader = Grader(session, limits=LIMITS, concurrency=4)
    yield grader
    grader.close()
