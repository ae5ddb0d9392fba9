"""``python -m pytest_cwsandbox.trainers.art``: what it prints, needs, and refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from pytest_cwsandbox.trainers.art.command import main

if TYPE_CHECKING:
    from pathlib import Path

NEEDS_ART = pytest.mark.skipif(
    find_spec("art") is None, reason="needs openpipe-art, which has an environment of its own"
)
FLAGS = {
    "--backend": "local",
    "--model": "gpt-5.1-codex-mini",
    "--base-model": "Qwen/Qwen3-8B",
    "--num-problems": "10",
    "--num-steps": "5",
    "--trajectories-per-problem": "2",
    "--base-url": "",
    "--project": "cwsandbox-mbpp",
    "--run-name": "train-001",
    "--learning-rate": "1e-05",
    "--dry-run": "False",
}
KEYS = ("KEY", "TOKEN", "WANDB", "OPENAI", "CWSANDBOX_")


def run(folder: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process without keys, at home in an empty folder."""
    clean = {
        name: value for name, value in os.environ.items() if not any(key in name for key in KEYS)
    }
    return subprocess.run(
        [sys.executable, "-m", "pytest_cwsandbox.trainers.art", *arguments],
        cwd=folder,
        env={**clean, "HOME": str(folder), **settings},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_flag_has_the_default_of_the_guide() -> None:
    context = click.Context(main)
    defaults = {
        option: str(parameter.get_default(context))
        for parameter in main.params
        for option in parameter.opts
        if option in FLAGS
    }
    assert defaults == FLAGS


def test_the_trained_model_and_another_cannot_both_answer() -> None:
    result = CliRunner().invoke(main, ["--on-policy", "--model", "gpt-5.1-codex-mini"])
    assert result.exit_code == 2
    assert "leave --model and --base-url out" in result.output


@pytest.mark.skipif(find_spec("art") is not None, reason="openpipe-art is installed here")
def test_a_missing_art_is_named_with_its_remedy(tmp_path: Path) -> None:
    result = run(tmp_path, "--dry-run")
    assert result.returncode == 2
    assert result.stderr == "Error: ART is not installed: pip install 'pytest-cwsandbox[art]'\n"


@NEEDS_ART
def test_a_dry_run_gathers_groups_without_any_key(tmp_path: Path) -> None:
    result = run(tmp_path, "--dry-run", "--num-problems", "2", "--run-name", "mine")
    assert result.returncode == 0, result.stderr
    assert (
        result.stdout
        == """\
ART Training with CWSandbox
========================================
Backend: none (dry run)
Model: scripted
Base model: Qwen/Qwen3-8B
Problems: 2
Steps: 5
Trajectories per problem: 2
Project: cwsandbox-mbpp
Run name: mine

Loading bundled problems...
Loaded 2 problems

=== Step 1 ===
Collecting trajectories for 2 problems...
Collected 4 trajectories, avg reward: 1.00
Dry run complete: nothing was trained
"""
    )
    assert "4/4" in result.stderr
    assert list(tmp_path.glob("**/model.json")) == []


@NEEDS_ART
def test_a_dry_run_says_when_everything_was_lost(tmp_path: Path) -> None:
    result = run(tmp_path, "--dry-run", "--model", "scripted-fails", "--num-problems", "1")
    assert result.returncode == 75
    assert "inconclusive: step 1 gave no trajectory to train on" in result.stderr
    assert "reward" not in result.stdout


@NEEDS_ART
def test_a_model_that_does_not_exist_is_one_line(tmp_path: Path) -> None:
    result = run(tmp_path, "--dry-run", "--model", "scripted-nobody", "--num-problems", "1")
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert "scripted-nobody" in result.stderr.splitlines()[-1]


@NEEDS_ART
@pytest.mark.skipif(find_spec("tinker") is not None, reason="tinker is installed here")
def test_all_that_is_missing_is_named_in_one_line_before_any_work(tmp_path: Path) -> None:
    result = run(tmp_path, "--backend", "tinker")
    assert result.returncode == 2
    assert result.stdout == ""
    [line] = result.stderr.splitlines()
    assert line.startswith("Error: missing for --backend tinker: ")
    for name in ("tinker_cookbook", "ART_TINKER_API_KEY", "OPENAI_API_KEY for gpt-5.1-codex-mini"):
        assert name in line


@NEEDS_ART
def test_keys_take_the_names_that_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_cwsandbox.trainers.art.checks import prepare_environment

    for name in ("WANDB_API_KEY", "TINKER_API_KEY"):
        monkeypatch.setenv(name, "")  # so that it is put back
    monkeypatch.setenv("FORGE_API_KEY", "forge")
    monkeypatch.setenv("ART_TINKER_API_KEY", "tinker")
    prepare_environment()
    assert os.environ["WANDB_API_KEY"] == "forge"
    assert os.environ["TINKER_API_KEY"] == "tinker"
    monkeypatch.setenv("FORGE_API_KEY", "another")
    prepare_environment()
    assert os.environ["WANDB_API_KEY"] == "forge"
