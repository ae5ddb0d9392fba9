"""`python -m pytest_cwsandbox.trainers.trl` where neither trl nor torch need be."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.rewards import CodeReward, session
from pytest_cwsandbox.trainers.trl.command import main
from pytest_cwsandbox.trainers.trl.problems import TOY, columns, rows
from tests.test_grade_command import without_account

if TYPE_CHECKING:
    from pathlib import Path

WITHOUT_TRL = """
import importlib.util, runpy, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "trl" else find(name, *rest)
sys.modules["trl"] = sys.modules["torch"] = sys.modules["datasets"] = None
sys.argv[0] = "trl"
runpy.run_module("pytest_cwsandbox.trainers.trl", run_name="__main__")
"""


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_TRL, *arguments, "--backend", "local"],
        env=without_account(),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("source", ["toy", "bundled"])
def test_a_dry_run_grades_a_right_and_a_wrong_answer(source: str) -> None:
    done = command("--dry-run", "--problems", source, "--limit", "3", "--max-steps", "7")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("TRL GRPO Integration (job: ")
    assert "[CWSandbox] Reward call 1: 2 sandboxes, 1/2 passed" in lines
    assert lines[-2].endswith("right answer 1.0, wrong answer 0.0")
    assert lines[-1] == (
        f"Would train: Qwen/Qwen2.5-0.5B-Instruct, 7 steps of 2 completions, 3 problems ({source})"
    )


def test_a_reference_that_fails_its_own_tests_ends_the_dry_run(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    row = {
        "task_id": "1",
        "prompt": "p",
        "test_list": ["assert double(2) == 4"],
        "reference_solution": "def double(n): return 5",
    }
    file.write_text(json.dumps(row))
    done = command("--dry-run", "--problems", str(file))
    assert done.returncode == 2
    assert "does not tell a right answer from a wrong one" in done.stderr


def test_a_missing_trl_is_named_with_the_extra() -> None:
    done = command()
    assert done.returncode == 2
    assert 'pip install "pytest-cwsandbox[trl]"' in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_a_batch_that_does_not_fit_the_generations_is_refused() -> None:
    done = command("--dry-run", "--batch", "3", "--num-generations", "2")
    assert done.returncode == 2
    assert "--batch 3 is no multiple of --num-generations 2" in done.stderr


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (("--split", "train"), "the problems toy have no splits"),
        (("--learning-rate", "0"), "must be finite and more than 0"),
        (("--learning-rate", "nan"), "must be finite and more than 0"),
        (("--model", ""), "must not be empty"),
    ],
)
def test_a_flag_that_cannot_be_meant_is_refused(flags: tuple[str, ...], complaint: str) -> None:
    result = CliRunner().invoke(main, ["--dry-run", "--backend", "local", *flags])
    assert result.exit_code == 2
    assert complaint in result.output


def test_help_has_its_short_form() -> None:
    assert CliRunner().invoke(main, ["-h"]).exit_code == 0


def test_an_unknown_source_of_problems_is_refused() -> None:
    done = command("--dry-run", "--problems", "nonsense")
    assert done.returncode == 2
    assert "nonsense" in done.stderr


def test_every_toy_problem_is_solved_by_its_reference_alone() -> None:
    dataset = rows("toy")
    answers = [f"<answer>{problem.reference_solution}</answer>" for problem in TOY]
    reward = CodeReward(backend=BackendOptions("local"))
    assert reward(["p"] * 5, answers, **columns(dataset)) == [1.0] * 5
    others = [*answers[1:], answers[0]]
    assert reward(["p"] * 5, others, **columns(dataset)) == [0.0] * 5
    session.close()


def test_the_prompts_ask_for_answer_tags_and_hold_no_expected_output() -> None:
    for row in rows("toy"):
        system, user = prompt(row)
        assert "<answer>" in system
        assert str(row["expected_output"]) not in user


def test_bundled_problems_show_their_visible_asserts_only() -> None:
    for row in rows("bundled", limit=5):
        _, user = prompt(row)
        assert all(text in user for text in texts(row, "test_list"))
        held_out = texts(row, "challenge_test_list")
        assert held_out
        assert not any(text in user for text in held_out)


def prompt(row: dict[str, object]) -> tuple[str, str]:
    """The system's and the user's message."""
    messages: Any = row["prompt"]
    system, user = messages
    return system["content"], user["content"]


def texts(row: dict[str, object], name: str) -> list[str]:
    found: Any = row[name]
    return list(found)
