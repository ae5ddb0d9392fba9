"""`pytest-cwsandbox grade`: rows in, rows out; every known case gets its stated reward."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import shared_folder

INCONCLUSIVE = 75
ADD = {"test_list": ["assert add(1, 2) == 3", "assert add(-1, 1) == 0"]}
RIGHT = "def add(a, b):\n    return a + b\n"


def grade(*args: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "pytest_cwsandbox", "grade", *map(str, args)],
        capture_output=True,
        text=True,
        check=False,
        env=without_account() | environment,
    )


def without_account() -> dict[str, str]:
    """This process's environment, without anything that chooses a backend."""
    import os

    chosen = ("CWSANDBOX_API_KEY", "CWSANDBOX_BASE_URL", "CWSANDBOX_LOCAL_RUNNER")
    return {name: value for name, value in os.environ.items() if name not in chosen}


def cases(name: str) -> list[dict[str, object]]:
    """The rows of a shared file of cases, or one stand-in row that skips."""
    path = shared_folder() / "cases" / name
    if not path.is_file():
        return [{"id": "absent"}]
    return [json.loads(line) for line in path.read_text().splitlines()]


@cache
def rewards(path: Path) -> dict[str, object]:
    """The command's reward for each row of a file, by id."""
    done = grade(path, "--concurrency", "4")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {row["id"]: row["reward"] for row in rows}


@pytest.mark.parametrize("case", cases("grading.jsonl"), ids=lambda case: case["id"])
@pytest.mark.xdist_group("grading cases")
def test_a_program_gets_its_stated_reward(case: dict[str, object], shared: Path) -> None:
    assert rewards(shared / "cases" / "grading.jsonl")[str(case["id"])] == case["reward"]


@pytest.mark.parametrize("case", cases("extraction.jsonl"), ids=lambda case: case["id"])
@pytest.mark.xdist_group("extraction cases")
def test_a_completion_gets_its_stated_reward(case: dict[str, object], shared: Path) -> None:
    assert rewards(shared / "cases" / "extraction.jsonl")[str(case["id"])] == case["reward"]


def test_results_come_in_input_order_with_every_field(tmp_path: Path) -> None:
    rows = [
        {"id": "slow", "solution": "import time; time.sleep(1)\n" + RIGHT, **ADD},
        {"solution": "def add(a, b): return 0", **ADD},
        {"id": 7, "completion": f"Sure!\n```python\n{RIGHT}```", **ADD},
        {"id": "none", "completion": "I cannot do that.", **ADD},
    ]
    file, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = grade(file, "--output", out)
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(r["id"], r["reward"], r["verdict"]) for r in results] == [
        ("slow", 1.0, "passed"),
        ("2", 0.0, "wrong_answer"),
        ("7", 1.0, "passed"),
        ("none", 0.0, "no_code"),
    ]
    assert all(list(r) == ["id", "reward", "verdict", "detail", "seconds"] for r in results)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("{}\nnot json\n", "bad.jsonl:2: not valid JSON"),
        ('{"solution": "x", "test_list": []}\n', 'bad.jsonl:1: field "test_list"'),
        ('{"solution": "x", "test_list": ["assert ("]}\n', "test_list"),
        ('{"test_list": ["assert f() == 1"]}\n', "completion"),
    ],
)
def test_unreadable_input_is_one_line_and_exit_code_2(
    tmp_path: Path, content: str, named: str
) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text(content)
    done = grade(file)
    assert done.returncode == 2
    assert named in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    done = grade(tmp_path / "absent.jsonl")
    assert done.returncode == 2
    assert "absent.jsonl" in done.stderr


@pytest.mark.parametrize("output", ["/dev/full", None])
def test_a_full_disk_is_one_line_and_exit_code_2(tmp_path: Path, output: str | None) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({**ADD, "solution": RIGHT}) + "\n")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest_cwsandbox", "grade", str(rows)),
                *(("-o", output) if output else ()),
            ],
            stdout=None if output else full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env=without_account(),
        )
    assert done.returncode == 2
    [line] = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert line == f"Error: {output or '<stdout>'}: cannot be written: No space left on device"
    assert "Traceback" not in done.stderr


def test_a_service_that_fails_gives_null_rewards_and_exit_code_75(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text(json.dumps({"id": "x", "solution": RIGHT, **ADD}) + "\n")
    nowhere = {"CWSANDBOX_BASE_URL": "http://127.0.0.1:9", "CWSANDBOX_API_KEY": "none"}
    done = grade(file, "--retries", "0", **nowhere)
    assert done.returncode == INCONCLUSIVE, done.stderr
    [row] = map(json.loads, done.stdout.splitlines())
    assert (row["reward"], row["verdict"]) == (None, "infrastructure_error")
