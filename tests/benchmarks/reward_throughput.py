"""How many completions code_reward keeps in flight, and what one costs beside a bare subprocess.

    python tests/benchmarks/reward_throughput.py [--completions 64] [--rounds 3]

First the overhead: so many trivial completions. Then as many that sleep a second, 32 at once: they
may take two seconds, the overhead, and one second more. CPU is user plus system time of every
process involved, on the reward's side the trainer's, the runner's and the sandboxes'; the bare side
runs the same sleeping programs with ``python -I -S``.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.rewards import CodeReward, session

sys.path.insert(0, str(Path(__file__).parent))  # as a script, and in the processes it starts

import grade_cpu  # type: ignore[import-not-found]  # beside this script

if TYPE_CHECKING:
    from collections.abc import Callable

IN_FLIGHT = 32
TRIVIAL = "def wait():\n    return 1\n"
SLEEPING = "import time\ndef wait():\n    time.sleep(1)\n    return 1\n"
ASSERT = "assert wait() == 1"


def rewarded(code: str, count: int) -> Callable[[], None]:
    """The reward of ``count`` completions, its session already open."""
    reward = CodeReward(backend=BackendOptions("local"), concurrency=IN_FLIGHT)
    columns = {"test_list": [[ASSERT]]}
    reward(["p"], [answer(TRIVIAL)], **columns)  # starts the runner, and tests the grader

    def run() -> None:
        batch = [answer(code)] * count
        rewards = reward(["p"] * count, batch, test_list=[[ASSERT]] * count)
        assert rewards == [1.0] * count

    return run


def answer(code: str) -> str:
    return f"<answer>\n{code}</answer>"


def bare(code: str, count: int) -> Callable[[], None]:
    """The same programs as subprocesses, as many at once."""
    command = [sys.executable, "-I", "-S", "-c", f"{code}{ASSERT}"]

    def run() -> None:
        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            list(pool.map(lambda _: subprocess.run(command, check=True), range(count)))

    return run


def measure(side: str, code: str, count: int) -> tuple[float, float]:
    """Wall seconds of one side, and CPU seconds with all that it starts, in a process of its own.

    The wall begins when the runner serves; the CPU includes its start and every import.
    """
    program = f"import reward_throughput as r; r.alone({side!r}, {code!r}, {count})"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        cwd=Path(__file__).parent,
        stdout=subprocess.PIPE,
    ).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return float(wall), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def alone(side: str, code: str, count: int) -> None:
    """One side, and wait for every process that it left, so that its usage is counted."""
    grade_cpu.become_reaper()
    run = {"bare": bare, "rewarded": rewarded}[side](code, count)
    started = time.monotonic()
    run()
    print(time.monotonic() - started)  # noqa: T201 - read by measure
    session.close()
    grade_cpu.wait_for_orphans()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--completions", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    count = options.completions
    for _ in range(options.rounds):
        overhead, _ = measure("rewarded", TRIVIAL, count)
        walls, cpus = {}, {}
        for side in ("bare", "rewarded"):
            _, start = measure(side, SLEEPING, 0)
            walls[side], cpu = measure(side, SLEEPING, count)
            cpus[side] = (cpu - start) / count
        figures = {
            "overhead_seconds": round(overhead, 2),
            "sleeping_seconds": round(walls["rewarded"], 2),
            "allowed_seconds": round(3 + overhead, 2),
            "bare_sleeping_seconds": round(walls["bare"], 2),
            "cpu_per_completion_ms": round(1000 * cpus["rewarded"], 1),
            "bare_cpu_per_completion_ms": round(1000 * cpus["bare"], 1),
            "cpu_ratio": round(cpus["rewarded"] / cpus["bare"], 2),
        }
        print(json.dumps(figures))  # noqa: T201 - its output


if __name__ == "__main__":
    main()
