"""However a run of rollouts is ended, nothing of it stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .test_fixtures import command, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

START_SECONDS = 240.0  # of many sandboxes at once, on a loaded machine
END_SECONDS = 60.0

# Every process always has rollouts at work. It says when they have their sandboxes; on a machine so
# slow that the first ends before the last has one, that is as many as there can be.
SLOW = """
import os
import time
from pathlib import Path
import pytest
from cwsandbox import Sandbox

WORKER = os.environ.get("PYTEST_XDIST_WORKER", "main")

@pytest.mark.problems("bundled", samples=20)
def test_slow(problem, rollout):
    rollouts = [rollout(problem, model="scripted-slow") for _ in range({rollouts})]
    tags = ["model:scripted-slow", f"pytest-worker:{{WORKER}}"]
    ended = f"trajectories-{{WORKER}}.jsonl"
    while len(Sandbox.list(tags=tags).result()) < {rollouts} and not list(Path().rglob(ended)):
        time.sleep(0.5)
    Path(f"in-flight-{{WORKER}}").touch()
    for one in rollouts:
        one.result()
"""


@contextmanager
def in_flight(pytester: pytest.Pytester, *args: str, rollouts: int, workers: int) -> Iterator[int]:
    """A run with that many rollouts at work in each worker; yields its process id.

    When the block ends it must be gone, in time.
    """
    pytester.makepyfile(SLOW.format(rollouts=rollouts))
    environment = dict(os.environ)
    environment.pop("PYTEST_XDIST_WORKER", None)  # of the process that runs this test
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", "--cwsandbox-limit=1", *args],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=pytester.path,
        env=environment,
        start_new_session=True,
    ) as controller:
        try:
            wait_for(
                lambda: (
                    controller.poll() is not None
                    or len(list(pytester.path.glob("in-flight-*"))) == workers
                ),
                START_SECONDS,
            )
            assert controller.poll() is None, "the run has ended by itself"
            yield controller.pid
            controller.wait(END_SECONDS)
        finally:
            controller.kill()


def processes(path: Path) -> set[int]:
    """Those that work in a folder below ``path``, or were told of one; this one is not meant."""
    found = set()
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            working = Path(f"/proc/{entry}/cwd").readlink()
        except OSError:
            continue
        if str(path) in str(working) or str(path) in command(int(entry)):
            found.add(int(entry))
    return found - {os.getpid()}


def serves(pid: int) -> bool:
    """Whether it is a runner, a sandbox, or the scripted model."""
    words = command(pid)
    return "pytest_cwsandbox." in words or "bwrap" in words


def states(path: Path) -> list[Path]:
    """The folders in which the run's runner keeps its sandboxes."""
    parts = (part for pid in processes(path) for part in command(pid).split("\0"))
    return [Path(part) for part in parts if "/cwsandbox-" in part]


def embedded_files(path: Path) -> list[Path]:
    """Those of the runner and the scripted model, which hold their keys."""
    return [file for name in ("runner", "scripted") for file in path.rglob(f"{name}.*")]


DISTRIBUTIONS = pytest.mark.parametrize(
    ("args", "rollouts", "workers"),
    [(("-n4",), 4, 4), (("-n0",), 32, 1)],
    ids=["4 in each of 4 workers", "32 in one process"],
)


@DISTRIBUTIONS
def test_ctrl_c_leaves_nothing(
    pytester: pytest.Pytester, args: tuple[str, ...], rollouts: int, workers: int
) -> None:
    with in_flight(pytester, *args, rollouts=rollouts, workers=workers) as controller:
        kept = states(pytester.path)
        assert kept
        os.killpg(controller, signal.SIGINT)  # as a terminal does
    wait_for(lambda: not processes(pytester.path))
    wait_for(lambda: not any(state.exists() for state in kept))
    assert not embedded_files(pytester.path)


@DISTRIBUTIONS
def test_nothing_stays_when_the_controller_is_killed(
    pytester: pytest.Pytester, args: tuple[str, ...], rollouts: int, workers: int
) -> None:
    with in_flight(pytester, *args, rollouts=rollouts, workers=workers) as controller:
        kept = states(pytester.path)
        os.kill(controller, signal.SIGKILL)
    assert kept
    wait_for(lambda: not any(map(serves, processes(pytester.path))))
    wait_for(lambda: not any(state.exists() for state in kept))
    assert not embedded_files(pytester.path)
    # xdist lets orphaned workers finish what they do, which now fails.
    wait_for(lambda: not processes(pytester.path), END_SECONDS)
