"""CPU and wall of 320 samples that wait 0.5 s, 32 at once: run ahead, and by `-n 32` alone.

    python -m tests.benchmarks.run_ahead [--rounds 3]

Side by side in one run: plain parametrized tests with pytest-asyncio on 32 processes, without this
plugin and with it loaded; the same tests as samples of ours in one process with 32 in flight, and
on 2 processes with 16 each, the second time by the scheduler of xdist's that ours stands in for.
Parts are of the first. CPU is user plus system time of every process of a run. The ideal wall time
is 320 x 0.5 s / 32 = 5 s; to it comes what pytest needs for itself, the wall time of a run of one
empty test.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from .grade_cpu import become_reaper, wait_for_orphans

SAMPLES, WAIT, AT_ONCE = 320, 0.5, 32
IDEAL = SAMPLES * WAIT / AT_ONCE

PLAIN = f"""
import asyncio
import pytest

@pytest.mark.asyncio
@pytest.mark.parametrize("number", range({SAMPLES}))
async def test_waits(number):
    await asyncio.sleep({WAIT})
"""
OURS = f"""
import asyncio
import pytest

@pytest.mark.problems("one.jsonl", samples={SAMPLES})
async def test_waits(problem, record_reward):
    await asyncio.sleep({WAIT})
    record_reward(1.0)
"""
SHALLOW = """
from xdist.scheduler import LoadScheduling

def pytest_xdist_make_scheduler(config, log):
    return LoadScheduling(config, log)
"""
EMPTY = """
def test_nothing():
    pass
"""
PROBLEM = '{"task_id": "one", "prompt": "Add.", "test_list": ["assert add(1, 1) == 2"]}\n'


@dataclass(frozen=True, slots=True)
class Way:
    """A way to run; ``bar`` is the largest allowed part of the CPU of plain ``-n 32``."""

    name: str
    text: str
    tests: int
    args: tuple[str, ...]
    bar: float | None = None
    conftest: str = ""


TWO = (f"-n{AT_ONCE}", "--cwsandbox-processes=2")
START = Way("an empty test", EMPTY, 1, ("-n0",))
WAYS = (
    Way("plain -n 32", PLAIN, SAMPLES, ("-p", "no:cwsandbox", "-n32")),
    Way("the same, plugin loaded", PLAIN, SAMPLES, ("-n32", "--cwsandbox-concurrency=1")),
    Way("-n0, 32 in flight", OURS, SAMPLES, ("-n0", f"--cwsandbox-concurrency={AT_ONCE}"), 1 / 15),
    Way("2 processes x 16", OURS, SAMPLES, TWO, 1 / 7),
    Way("by xdist's scheduler", OURS, SAMPLES, TWO, conftest=SHALLOW),
)


def measure(way: Way) -> tuple[float, float]:
    """CPU and wall seconds of one run."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "pytest.ini").write_text("[pytest]\n")
        Path(folder, "one.jsonl").write_text(PROBLEM)
        Path(folder, "test_waits.py").write_text(way.text)
        Path(folder, "conftest.py").write_text(way.conftest)
        # Where Python keeps no bytecode, as in containers, each run would compile the plugin anew.
        dropped = ("CWSANDBOX_", "PYTEST_", "GITHUB_", "PYTHONDONTWRITEBYTECODE")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *way.args],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        wall = time.monotonic() - start
        assert f"{way.tests} passed" in ended.stdout, ended.stdout + ended.stderr
        wait_for_orphans()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    become_reaper()
    runs = [{way: measure(way) for way in (START, *WAYS)} for _ in range(options.rounds)]
    start = statistics.median(run[START][1] for run in runs)
    lines = [f"{START.name}: {start:.1f} s wall; the ideal is {IDEAL:g} s", ""]
    lines.append(f"{'':24} {'CPU s':>7} {'part of plain':>13} {'bar':>6} {'wall s':>7} {'bar':>6}")
    for way in WAYS:
        cpu = statistics.median(run[way][0] for run in runs)
        part = statistics.median(run[way][0] / run[WAYS[0]][0] for run in runs)
        wall = statistics.median(run[way][1] for run in runs)
        bars = (f"{way.bar:.4f}", f"{1.5 * IDEAL + start:.1f}") if way.bar else ("", "")
        lines.append(f"{way.name:24} {cpu:7.1f} {part:13.4f} {bars[0]:>6} {wall:7.1f} {bars[1]:>6}")
    print("\n".join(lines))  # noqa: T201 - its output


if __name__ == "__main__":
    main()
