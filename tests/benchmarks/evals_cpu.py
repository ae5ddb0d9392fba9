"""CPU of the reward evals on 32 at once, beside the command that grades the same programs.

    python -m tests.benchmarks.evals_cpu [--problems 974] [--rounds 1]

Three ways in one run: the programs as bare ``python -I -S`` subprocesses, two at a time; the
command ``pytest-cwsandbox grade`` with 32 at once; and ``pytest evals/test_mbpp_rewards.py -n 32``,
by its settings 2 processes with 16 each. The programs are every problem's reference with all its
asserts, and the three attacks of the evals. CPU is user plus system time of every process of a way:
pytest or the command, the runner, the sandboxes and what is in them.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import runpy
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_cwsandbox.problems import load

from .grade_cpu import become_reaper, program, wait_for_orphans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_cwsandbox.problems import Problem

EVALS = Path(__file__).parents[2] / "evals" / "test_mbpp_rewards.py"
ATTACKS = [
    str(code)
    for name, code in runpy.run_path(str(EVALS)).items()
    if name in {"ALWAYS_EQUAL", "EARLY_EXIT", "EMPTY"}
]
AT_ONCE = 32
CORES = 2


def programs(problems: Sequence[Problem]) -> list[tuple[Problem, str]]:
    """Problem and code of everything that the evals grade."""
    references = [
        (replace(each, test_list=(*each.test_list, *each.challenge_test_list)), "")
        for each in problems
    ]
    attacks = [
        (each, attack.format(name=each.entry_point)) for each in problems for attack in ATTACKS
    ]
    return [(each, code or each.reference_solution) for each, code in (*references, *attacks)]


def bare(folder: Path, source: str, count: int) -> None:
    """Run every program with ``python -I -S`` and nothing around it."""
    files = []
    for number, (problem, code) in enumerate(programs(load(source)[:count])):
        files.append(folder / f"{number}.py")
        files[-1].write_text(program(replace(problem, reference_solution=code)))
    with ThreadPoolExecutor(CORES) as pool:
        list(pool.map(_run_bare, files))


def _run_bare(file: Path) -> None:
    command = [sys.executable, "-I", "-S", str(file)]
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def command(folder: Path, source: str, count: int) -> None:
    """Grade them with the command line tool."""
    rows = [
        {
            "id": str(number),
            "solution": code,
            "test_list": problem.test_list,
            "test_imports": problem.test_imports,
            "test_setup_code": problem.test_setup_code,
            "entry_point": problem.entry_point,
        }
        for number, (problem, code) in enumerate(programs(load(source)[:count]))
    ]
    file, graded = folder / "rows.jsonl", folder / "graded.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    subprocess.run(
        [
            *(sys.executable, "-m", "pytest_cwsandbox", "grade", str(file), "-o", str(graded)),
            *("--backend", "local", "--concurrency", str(AT_ONCE)),
        ],
        check=True,
    )
    rewards = [json.loads(line)["reward"] for line in graded.read_text().splitlines()]
    right = [number < count for number in range(4 * count)]
    assert rewards == list(map(float, right)), "a reward is wrong"


def evals(folder: Path, source: str, count: int) -> None:
    """Grade them as the evals do."""
    few = folder / "problems.jsonl"
    few.write_text("".join(Path(source).read_text().splitlines(keepends=True)[:count]))
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", str(EVALS), f"-n{AT_ONCE}"),
            *(f"--cwsandbox-processes={CORES}", f"--cwsandbox-problems={few}"),
            f"--cwsandbox-report-dir={folder / 'runs'}",  # not the project's own
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"{4 * count} passed" in ended.stdout, ended.stdout + ended.stderr


WAYS = {"bare": bare, "command": command, "evals": evals}


def measure(way: str, source: str, count: int) -> tuple[float, float]:
    """CPU and wall seconds of a way, in a process of its own."""
    code = f"from tests.benchmarks import evals_cpu as e; e.run({way!r}, {source!r}, {count})"
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.monotonic() - start


def run(way: str, source: str, count: int) -> None:
    """One way, and wait for every process that it left, so that its usage is counted."""
    become_reaper()
    # Where Python keeps no bytecode, as in containers, each process would compile anew.
    for name in [*os.environ]:
        if name.startswith(("CWSANDBOX_", "PYTEST_", "GITHUB_", "PYTHONDONTWRITEBYTECODE")):
            del os.environ[name]
    with tempfile.TemporaryDirectory() as folder:
        WAYS[way](Path(folder), source, count)
    wait_for_orphans()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--problems", type=int, default=974)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--source", default="../shared/data/mbpp/mbpp.jsonl")
    options = parser.parse_args()
    source = str(Path(options.source).resolve())
    for _ in range(options.rounds):
        cpu = {}
        for way in WAYS:
            cpu[way], wall = measure(way, source, options.problems)
            print(f"{way:8} {cpu[way]:7.1f} s CPU {wall:7.1f} s wall", flush=True)  # noqa: T201 - its output
        print(  # noqa: T201 - its output
            f"command / bare {cpu['command'] / cpu['bare']:.2f} (bar 3)   "
            f"evals / command {cpu['evals'] / cpu['command']:.2f} (bar 1.5)"
        )


if __name__ == "__main__":
    main()
