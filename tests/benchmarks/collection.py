"""What 10,000 samples cost pytest, against a plain parametrize of the same size and ids.

CPU seconds of whole processes, run alternately; the ratio of the least of each. Run as
``python -m tests.benchmarks.collection``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PROBLEMS = 1000
SAMPLES = 10
ROUNDS = 5
OURS = """
import pytest

@pytest.mark.problems("many.jsonl", samples=10)
def test_sample(problem, sample, record_reward):
    record_reward(1.0)
"""
PLAIN = """
import json, pathlib
import pytest

ROWS = [json.loads(line) for line in pathlib.Path("many.jsonl").read_text().splitlines()]

@pytest.mark.parametrize(
    ("problem", "sample"),
    [
        pytest.param(row, sample, id=f"many-{row['task_id']}-s{sample}")
        for row in ROWS
        for sample in range(10)
    ],
)
def test_sample(problem, sample):
    pass
"""


def write(folder: Path) -> None:
    """The problems, and the two ways to make items of them."""
    rows = (
        {
            "task_id": number,
            "prompt": f"Write a function add_{number} that adds {number} to its argument.",
            "test_list": [f"assert add_{number}({n}) == {n + number}" for n in range(3)],
            "reference_solution": f"def add_{number}(n):\n    return n + {number}\n",
        }
        for number in range(PROBLEMS)
    )
    (folder / "many.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "test_ours.py").write_text(OURS)
    (folder / "test_plain.py").write_text(PLAIN)
    (folder / "pytest.ini").write_text("[pytest]\n")


def cpu_seconds(folder: Path, *arguments: str) -> float:
    """Of one pytest run with its children; it must have seen all the items."""
    keep = {name: value for name, value in os.environ.items() if not name.startswith("CWSANDBOX_")}
    keep.pop("PYTEST_XDIST_WORKER", None)
    before = os.times()
    command = [sys.executable, "-m", "pytest", "-q", "-n0", *arguments]
    done = subprocess.run(command, cwd=folder, env=keep, capture_output=True, text=True, check=True)
    after = os.times()
    if str(PROBLEMS * SAMPLES) not in done.stdout.splitlines()[-1]:
        raise AssertionError(done.stdout[-1000:])
    before_seconds = before.children_user + before.children_system
    return after.children_user + after.children_system - before_seconds


def compare(folder: Path, what: str, *arguments: str) -> None:
    """Print both sides of ``what``, and how they compare."""
    plain, ours = [], []
    for _ in range(ROUNDS):
        plain.append(cpu_seconds(folder, *arguments, "test_plain.py"))
        ours.append(cpu_seconds(folder, *arguments, "test_ours.py"))
    print(  # noqa: T201 - it is what this is for
        f"{what}: plain {min(plain):.2f} s, ours {min(ours):.2f} s, "
        f"ratio {min(ours) / min(plain):.2f}"
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder)
        compare(folder, "collection only", "--collect-only")
        compare(folder, "run of empty samples")


if __name__ == "__main__":
    main()
