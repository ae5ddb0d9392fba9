"""Rewards in processes that fork, as trainers and their data loaders do."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap

import pytest

HANGS_SECONDS = 60  # far more than any of these takes; a child that hangs hangs for ever
BEGINNING = """
import gc, os, sys
from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.rewards import CodeReward

reward = CodeReward(backend=BackendOptions("local"))

def grade():
    columns = {"test_list": [["assert double(2) == 4"]]}
    return reward(["p"], ["<answer>def double(n): return 2 * n</answer>"], **columns)

def child_says():
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)
"""


def run(program: str) -> list[str]:
    with subprocess.Popen(
        [sys.executable, "-c", BEGINNING + textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            printed, complaints = process.communicate(timeout=HANGS_SECONDS)
        finally:
            with contextlib.suppress(ProcessLookupError):  # all of them have ended
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, complaints
    return printed.splitlines()


@pytest.mark.parametrize("leave", ["sys.exit(7)", "gc.collect(); sys.exit(7)", "os._exit(7)"])
def test_a_child_that_uses_no_sandbox_ends_and_leaves_its_parents_alone(leave: str) -> None:
    lines = run(f"""
        print(grade(), flush=True)
        child = os.fork()
        if child == 0:
            {leave}
        print(child_says(), grade())
    """)
    assert lines == ["[1.0]", "7 [1.0]"]


def test_a_child_forked_after_the_first_reward_is_told_what_to_do() -> None:
    lines = run("""
        from pytest_cwsandbox.errors import BackendError
        grade()
        child = os.fork()
        if child == 0:
            try:
                grade()
            except BackendError as error:
                print(error, flush=True)
            sys.exit(0)
        print(child_says(), grade())
    """)
    assert "cannot use them: start processes by spawn" in lines[0]
    assert lines[1] == "0 [1.0]"


def test_children_forked_before_the_first_reward_grade_each_for_itself() -> None:
    lines = run("""
        child = os.fork()
        if child == 0:
            print("child", grade(), flush=True)
            sys.exit(0)
        print("parent", grade(), flush=True)
        print(child_says())
    """)
    assert sorted(lines) == ["0", "child [1.0]", "parent [1.0]"]
