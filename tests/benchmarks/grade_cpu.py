"""CPU and wall of grading MBPP references, as ratios to bare subprocesses of the same programs.

    python tests/benchmarks/grade_cpu.py [--problems 200] [--rounds 3]

Both sides run two programs at a time. CPU is user plus system time of every process involved: on
the grading side the SDK's process, the runner, the sandboxes and what is in them; read from a
cgroup where there is one (v1 cpuacct or v2), else from resource usage of the ended children.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.connections import grading_session
from pytest_cwsandbox.grading import Grader
from pytest_cwsandbox.problems import Problem, load

AT_ONCE = 2


def program(problem: Problem) -> str:
    """The program that a naive reward runs: imports, solution, setup and asserts."""
    return "\n".join(
        (
            *problem.test_imports,
            problem.reference_solution,
            problem.test_setup_code,
            *problem.test_list,
        )
    )


def bare(problems: list[Problem]) -> None:
    """Run every program with ``python -I -S`` and nothing around it."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"{number}.py") for number in range(len(problems))]
        for file, problem in zip(files, problems, strict=True):
            file.write_text(program(problem))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(
                pool.map(
                    lambda file: subprocess.run([sys.executable, "-I", "-S", file], check=True),
                    files,
                )
            )


def graded(problems: list[Problem]) -> None:
    """Grade every reference in a fresh sandbox; starting and stopping the runner is included."""
    with grading_session(BackendOptions("local")) as session:
        grader = Grader(session, concurrency=AT_ONCE)
        refs = [grader.grade_code(problem, problem.reference_solution) for problem in problems]
        for problem, ref in zip(problems, refs, strict=True):
            assert ref.result().reward == 1.0, (problem.id, ref.result())
        grader.close()


def measure(side: str, source: str, count: int) -> dict[str, float]:
    """CPU and wall seconds of one side, in a process of its own."""
    code = f"import grade_cpu; grade_cpu.run({side!r}, {source!r}, {count})"
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"cpu": cpu, "wall": time.monotonic() - start}


def run(side: str, source: str, count: int) -> None:
    """One side, and wait for every process that it left, so that its usage is counted."""
    become_reaper()
    problems = [p for p in load(source) if p.task_id != "123"][:count]  # 123 needs seconds itself
    {"bare": bare, "graded": graded}[side](problems)
    wait_for_orphans()


def become_reaper() -> None:
    """Orphans become ours (PR_SET_CHILD_SUBREAPER), so that their usage is counted."""
    import ctypes

    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)


def wait_for_orphans() -> None:
    """Usage is counted of ended children that somebody waited for."""
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--problems", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--source", default="../shared/data/mbpp/mbpp.jsonl")
    options = parser.parse_args()
    source = str(Path(options.source).resolve())
    for _ in range(options.rounds):
        base = measure("bare", source, options.problems)
        ours = measure("graded", source, options.problems)
        ratios = {name: round(ours[name] / base[name], 2) for name in base}
        print(json.dumps({"bare": base, "graded": ours, "ratio": ratios}))  # noqa: T201 - its output


if __name__ == "__main__":
    main()
