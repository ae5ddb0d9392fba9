"""Graders on a local runner, one per test process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.connections import grading_session
from pytest_cwsandbox.grading import Grader
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


@pytest.fixture(scope="session")
def grader(session: Session) -> Iterator[Grader]:
    grader = Grader(session, limits=LIMITS, concurrency=4)
    yield grader
    grader.close()
