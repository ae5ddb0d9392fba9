"""`pytest-cwsandbox serve`: the local runner outside pytest."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.test_grade_command import without_account

SERVE = [sys.executable, "-m", "pytest_cwsandbox", "serve"]
RUN_ONE = """
import cwsandbox, os
with cwsandbox.Sandbox.run() as sandbox:
    print(sandbox.exec(["echo", "from inside"]).result().stdout.strip())
print("marked local:", bool(os.environ["CWSANDBOX_LOCAL_RUNNER"]))
"""


def gone(pid: int, within: float = 10) -> bool:
    """Whether the process ends in time."""
    deadline = time.monotonic() + within
    while Path(f"/proc/{pid}").exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_a_command_runs_with_the_environment_and_ends_with_its_exit_code() -> None:
    done = subprocess.run(
        [*SERVE, "--", sys.executable, "-c", RUN_ONE + "raise SystemExit(7)"],
        capture_output=True,
        text=True,
        check=False,
        env=without_account(),
    )
    assert done.stdout.splitlines() == ["from inside", "marked local: True"], done.stderr
    assert done.returncode == 7


def test_a_command_that_cannot_run_is_one_line() -> None:
    done = subprocess.run(
        [*SERVE, "--", "./no-such-command"],
        capture_output=True,
        text=True,
        check=False,
        env=without_account(),
    )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "Error: cannot run ./no-such-command: No such file or directory"
    ]


def test_export_lines_serve_another_terminal_until_the_end() -> None:
    server = subprocess.Popen(
        SERVE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=without_account()
    )
    assert server.stdout is not None
    assert server.stderr is not None
    server.stderr.readline()  # "serving at ...": every export line is out
    lines = [server.stdout.readline() for _ in range(5)]
    script = "".join(lines) + f'exec {sys.executable} -c "$0"'
    done = subprocess.run(
        ["bash", "-c", script, RUN_ONE],
        capture_output=True,
        text=True,
        check=False,
        env=without_account(),
    )
    assert done.stdout.splitlines() == ["from inside", "marked local: True"], done.stderr
    assert re.match(r"export CWSANDBOX_BASE_URL=http://127\.0\.0\.1:\d+$", lines[0])
    server.send_signal(signal.SIGINT)
    assert server.wait(10) == 0
    server.stdout.close()
    server.stderr.close()


def test_nothing_stays_when_the_server_is_killed() -> None:
    server = subprocess.Popen(
        SERVE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=without_account()
    )
    assert server.stdout is not None
    server.stdout.readline()
    started = descendants(server.pid)
    assert started
    server.kill()
    server.wait()
    server.stdout.close()
    assert all(gone(pid) for pid in started)


def descendants(pid: int) -> set[int]:
    """The processes that this one started, and those that they started."""
    children: set[int] = set()
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        children |= {int(child) for child in task.read_text().split()}
    return children.union(*(descendants(child) for child in children))


def runner_processes() -> set[int]:
    """Processes that serve as local runners."""
    found = set()
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            command = Path(f"/proc/{entry}/cmdline").read_bytes()
        except OSError:
            continue
        if b"pytest_cwsandbox.local" in command:
            found.add(int(entry))
    return found
