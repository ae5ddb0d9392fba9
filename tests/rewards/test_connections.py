"""Connections outside pytest, and the environment variables that they set."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from tests.test_grade_command import without_account

if TYPE_CHECKING:
    from pathlib import Path

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


BESIDE_ANOTHER = """
import os, sys
from pathlib import Path
from pytest_cwsandbox import runner
from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.connections import grading_session
from pytest_cwsandbox.grading import Grader
from pytest_cwsandbox.problems import Problem

def check(session, address):
    grader = Grader(session, retries=0)
    problem = Problem("1", "", ("assert double(2) == 4",))
    assert grader.grade_code(problem, "def double(n): return 2 * n").result().reward == 1.0
    grader.close()
    sandbox = session.sandbox().wait()
    assert sandbox._base_url == address

served = runner.join_or_start(Path(sys.argv[1]), lifeline=os.getpid())
os.environ |= {"CWSANDBOX_API_KEY": served.token, "no_proxy": "127.0.0.1"}
hosted = BackendOptions("hosted", base_url=served.address, image=served.images[0])
with grading_session(hosted) as first, grading_session(BackendOptions("local")) as second:
    address = os.environ["CWSANDBOX_BASE_URL"]
    with grading_session(BackendOptions("local"), faults=["create-latency=0.01"]) as third:
        check(first, served.address)
        check(second, address)
        check(third, os.environ["CWSANDBOX_BASE_URL"])
runner.stop(Path(sys.argv[1]))
"""


def test_each_session_stays_with_its_backend(tmp_path: Path) -> None:
    command = [sys.executable, "-c", BESIDE_ANOTHER, str(tmp_path)]
    subprocess.run(command, env=without_account(), check=True)
