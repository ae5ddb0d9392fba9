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


RUNNERS = """
import signal
from pathlib import Path

def runners():
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [
        int(child) for child in children
        if b"pytest_cwsandbox.local" in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\\0")
    ]
"""


def run(program: str) -> list[str]:
    with subprocess.Popen(
        [sys.executable, "-c", BEGINNING + textwrap.dedent(program)],
        # A runner of this process's other tests is not one that the program starts.
        env={
            name: value for name, value in os.environ.items() if not name.startswith("CWSANDBOX_")
        },
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


@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM"])
def test_a_local_runner_that_died_is_replaced_at_the_next_reward(how: str) -> None:
    lines = run(f"""
        {textwrap.indent(RUNNERS, " " * 8).strip()}
        other = CodeReward(backend=BackendOptions("local"), tags=("other",))
        def both():
            columns = {{"test_list": [["assert double(2) == 4"]]}}
            said = ["<answer>def double(n): return 2 * n</answer>"]
            return grade() + other(["p"], said, **columns)
        before = dict(os.environ)
        print(both())
        [first] = runners()
        os.kill(first, signal.{how})
        os.waitpid(first, 0)
        print(both())
        [second] = runners()
        print(both(), runners() == [second] != [first])
        from pytest_cwsandbox.rewards import session
        session.close()
        print({{**os.environ}} == before)
    """)
    assert lines == ["[1.0, 1.0]", "[1.0, 1.0]", "[1.0, 1.0] True", "True"]


def test_a_grade_under_way_when_the_runner_died_is_lost_and_not_the_next() -> None:
    lines = run(f"""
        {textwrap.indent(RUNNERS, " " * 8).strip()}
        grade()
        row = {{"test_list": ["assert double(2) == 4"]}}
        under_way = reward.grade("<answer>while True: double = 2</answer>", row)
        [first] = runners()
        os.kill(first, signal.SIGKILL)
        os.waitpid(first, 0)
        print(grade(), under_way.result().verdict.value)
    """)
    assert lines == ["[1.0] infrastructure_error"]


def test_a_child_forked_inside_a_block_is_told_what_to_do_and_ends_nothing() -> None:
    lines = run("""
        from pytest_cwsandbox.connections import connected, grading_session
        from pytest_cwsandbox.errors import BackendError
        LOCAL = BackendOptions("local")
        with grading_session(LOCAL) as session:
            session.sandbox().wait()
            child = os.fork()
            if child == 0:
                for use in (grade, connected(LOCAL).__enter__):
                    try:
                        use()
                    except BackendError as error:
                        print(error, flush=True)
                sys.exit(7)
            print(child_says(), session.sandbox().wait().status.value)
    """)
    assert all("cannot use them: start processes by spawn" in line for line in lines[:2])
    assert lines[2:] == ["7 running"]
