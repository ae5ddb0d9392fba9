"""Sessions on a local runner that all tests of monitoring share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.connections import connected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cwsandbox import SandboxDefaults


@pytest.fixture(scope="package")
def defaults() -> Iterator[SandboxDefaults]:
    """Of sandboxes on a local runner, to which the environment leads while it is there."""
    with connected(BackendOptions("local"), sandbox_tags=("test:monitoring",)) as defaults:
        yield defaults
