"""Connections outside pytest, and the environment variables that they set."""

from __future__ import annotations

import subprocess
import sys

from tests.test_grade_command import without_account

IN_ANY_ORDER = """
import contextlib, os
from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.connections import connected

before = dict(os.environ)
with contextlib.ExitStack() as first, contextlib.ExitStack() as second:
    first.enter_context(connected(BackendOptions("local"), faults=["exec-unavailable@0.5"]))
    address = second.enter_context(connected(BackendOptions("local"))).base_url
    first.close()
    assert os.environ["CWSANDBOX_BASE_URL"] == address
    second.close()
assert dict(os.environ) == before
"""


def test_connections_that_end_in_any_order_leave_the_environment_as_it_was() -> None:
    subprocess.run([sys.executable, "-c", IN_ANY_ORDER], env=without_account(), check=True)
