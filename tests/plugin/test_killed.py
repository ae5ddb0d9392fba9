"""A run that is killed, whenever and however, and then resumed, is the run that it would have been.

Rewards depend on problem and sample alone, so that every run must come to the same summary.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from .conftest import DISTRIBUTIONS
from .test_fixtures import wait_for

if TYPE_CHECKING:
    from pathlib import Path

SAMPLES = """
import os
import signal
import time
import zlib

import pytest

DIES = os.environ.get("DIES")  # the item that kills its process
WAITS = os.environ.get("WAITS")  # the last item is to be killed

@pytest.mark.parametrize("problem", range(50))
@pytest.mark.parametrize("sample", range(4))
def test_solves(request, problem, sample, record_reward):
    time.sleep(0.004)
    reward = zlib.crc32(f"{problem}/{sample}".encode()) % 4 / 3
    record_reward(reward, metadata={"kind": "even" if problem % 2 == 0 else "odd"})
    if request.node.name == DIES:
        os.kill(os.getpid(), signal.SIGKILL)
    assert reward == 1.0

def test_last():
    time.sleep(300 if WAITS else 0)
"""
COUNT = 200
GATED = ("--cwsandbox-min-pass-rate=0.1", "--cwsandbox-group-by=kind", "--cwsandbox-pass-k=1,2")
INCONCLUSIVE = 75


def command(*args: str) -> list[str]:
    # Of no use here, and each of two dozen runs would pay for it.
    quiet = ("-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "no:anyio", "-o", "addopts=")
    return [sys.executable, "-m", "pytest", *quiet, *args, *GATED]


def environment(**more: str) -> dict[str, str]:
    """Without what the run of this test itself has set."""
    ours = ("CWSANDBOX_", "PYTEST_")
    return {k: v for k, v in os.environ.items() if not k.startswith(ours)} | more


def finish(folder: Path, *args: str, **more: str) -> int:
    return subprocess.run(
        command(*args), cwd=folder, env=environment(**more), stdout=subprocess.DEVNULL, check=False
    ).returncode


def result(folder: Path) -> tuple[object, list[object]]:
    """The summary and the samples of the folder's only run, without what differs by nature."""
    [run] = (folder / ".cwsandbox" / "runs").iterdir()
    summary = json.loads((run / "summary.json").read_text())
    del summary["run"]
    for group in (*summary["groups"], *summary["by"]["groups"], summary["all"]):
        del group["p50_seconds"], group["p95_seconds"]
    rows = map(json.loads, (run / "samples.jsonl").read_text().splitlines())
    return summary, [(row["id"], row["reward"], row["state"], row["ending"]) for row in rows]


def ended(folder: Path) -> int:
    """How many samples the journals say to be finished."""
    files = folder.glob(".cwsandbox/runs/*/samples-*.jsonl")
    return sum(file.read_bytes().count(b'"state": "ended"') for file in files)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[object, list[object]]:
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "test_killed_run.py").write_text(SAMPLES)
    assert finish(folder, "-n0") == 0
    return result(folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "test_killed_run.py").write_text(SAMPLES)
    return tmp_path


@pytest.mark.parametrize("seed", range(10))
def test_a_killed_run_that_is_resumed_is_the_undisturbed_run(
    folder: Path, undisturbed: tuple[object, list[object]], seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - which point it is is no secret
    args = chance.choice(list(DISTRIBUTIONS.values()))
    point = chance.randrange(1, COUNT)
    with subprocess.Popen(
        command(*args),
        cwd=folder,
        env=environment(WAITS="yes"),
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    ) as controller:
        wait_for(lambda: ended(folder) >= point or controller.poll() is not None, 240)
        assert controller.poll() is None, "the run ended by itself"
        if seed % 2:
            os.kill(controller.pid, signal.SIGKILL)
        else:  # all that it started too
            os.killpg(controller.pid, signal.SIGKILL)
    assert finish(folder, *args, "--cwsandbox-resume=latest") == 0
    assert result(folder) == undisturbed


def test_a_run_that_lost_a_worker_is_resumed_for_the_item_that_it_lost(
    folder: Path, undisturbed: tuple[object, list[object]]
) -> None:
    assert finish(folder, "-n4", DIES="test_solves[2-31]") == INCONCLUSIVE
    _, samples = result(folder)
    assert len(samples) == COUNT
    lost = ("test_killed_run.py::test_solves[2-31]", None, "lost", "")
    assert [sample for sample in samples if sample not in undisturbed[1]] == [lost]
    assert finish(folder, "-n4", "--cwsandbox-resume=latest") == 0
    assert result(folder) == undisturbed
