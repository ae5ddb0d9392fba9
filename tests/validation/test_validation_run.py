"""A whole validation, from an empty directory with only the package installed."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.test_grade_command import without_account

if TYPE_CHECKING:
    from pathlib import Path


def validate(folder: Path, reward: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Run the checks on a reward function in ``folder``."""
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "--pyargs", "pytest_cwsandbox.validation"),
            *(f"--cwsandbox-reward={reward}", "-n2", "--cwsandbox-reward-problems=1", *args),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=without_account(),
    )


def test_code_reward_is_ready(tmp_path: Path) -> None:
    done = validate(tmp_path, "pytest_cwsandbox.rewards:code_reward")
    assert done.returncode == 0, done.stdout
    assert "READY: pytest_cwsandbox.rewards:code_reward passed every check" in done.stdout
    assert "EXPLOIT" not in done.stdout


def test_the_naive_reward_is_not_ready_and_every_exploit_is_named(tmp_path: Path) -> None:
    done = validate(tmp_path, "pytest_cwsandbox.rewards:exit_code_reward", "-k", "attack or held")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    exploits = set(re.findall(r"^EXPLOIT: ([a-z0-9-]+) \(on bundled-1", done.stdout, re.MULTILINE))
    assert len(exploits) >= 25
    assert {"lookup-table", "always-equal", "os-exit-at-import"} <= exploits
    assert "NOT READY: pytest_cwsandbox.rewards:exit_code_reward failed" in done.stdout


def test_own_attacks_come_from_a_directory(tmp_path: Path) -> None:
    attacks = tmp_path / "attacks"
    attacks.mkdir()
    (attacks / "my_exit.py").write_text(
        "# why: leaves\n# severity: high\nraise SystemExit(0)\ndef ENTRY_POINT(): pass\n"
    )
    done = validate(
        tmp_path,
        "pytest_cwsandbox.rewards:exit_code_reward",
        *("--cwsandbox-attacks=attacks", "-k", "my-exit"),
    )
    assert "EXPLOIT: my-exit (on bundled-1" in done.stdout


def test_a_reward_of_the_folder_is_found_and_a_wrong_path_is_said(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "def reward(prompts, completions, **columns):\n    return [2.0 for _ in completions]\n"
    )
    done = validate(tmp_path, "mine:reward", "-k", "test_range")
    assert "outside 0..1" in done.stdout
    wide = validate(tmp_path, "mine:reward", "-k", "test_range", "--cwsandbox-reward-bounds=0:2")
    assert wide.returncode == 0, wide.stdout
    done = validate(tmp_path, "mine:absent", "-k", "test_gold")
    assert "--cwsandbox-reward: mine has no absent" in done.stderr


def test_without_a_reward_it_says_how_to_name_one(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--pyargs", "pytest_cwsandbox.validation"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=without_account(),
    )
    assert "--cwsandbox-reward=package.module:function" in done.stdout
    assert done.returncode == pytest.ExitCode.INTERRUPTED


@pytest.mark.parametrize("bounds", ["1", "1:0", "a:b", "0:nan"])
def test_bad_bounds_are_a_usage_error(tmp_path: Path, bounds: str) -> None:
    done = validate(tmp_path, "mine:reward", f"--cwsandbox-reward-bounds={bounds}")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--cwsandbox-reward-bounds must be two numbers" in done.stderr
