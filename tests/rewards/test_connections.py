"""Connections outside pytest, and the environment variables that they set."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.connections import connected

if TYPE_CHECKING:
    import pytest

LOCAL = BackendOptions("local")


def test_connections_that_end_in_any_order_leave_the_environment_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CWSANDBOX_BASE_URL", raising=False)
    with contextlib.ExitStack() as first, contextlib.ExitStack() as second:
        first.enter_context(connected(LOCAL, faults=["exec-unavailable@0.5"]))
        address = second.enter_context(connected(LOCAL)).base_url
        first.close()
        assert os.environ["CWSANDBOX_BASE_URL"] == address
        second.close()
    assert "CWSANDBOX_BASE_URL" not in os.environ
