"""``python -m pytest_cwsandbox.trainers.art``: what it prints, needs, and refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import click
import pytest
from click.testing import CliRunner

from pytest_cwsandbox.rollouts import scripted
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


@pytest.mark.parametrize(
    "flags",
    [
        ("--learning-rate", "-1"),
        ("--learning-rate", "inf"),
        ("--trajectories-per-problem", "1"),
        ("--model", ""),
        ("--base-model", " "),
    ],
)
def test_a_flag_that_cannot_be_meant_is_refused(flags: tuple[str, str]) -> None:
    result = CliRunner().invoke(main, flags)
    assert result.exit_code == 2
    assert f"Invalid value for '{flags[0]}'" in result.output


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


class Backend:
    """ART's local backend with the scripted model in the place of the trained one."""

    served: scripted.Endpoint
    steps = 0
    trained: ClassVar[list[Any]] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def register(self, model: Any) -> None:
        pass

    async def _prepare_backend_for_training(self, *_: object) -> tuple[str, str]:
        return self.served.address, self.served.token

    def _model_inference_name(self, *_: object, **__: object) -> str:
        return "scripted"

    async def _get_step(self, _: object) -> int:
        return type(self).steps

    async def train(self, _: object, groups: Any, *, learning_rate: float) -> Any:
        from art import TrainResult

        type(self).steps += 1
        self.trained.append((learning_rate, list(groups)))
        return TrainResult(self.steps, {"loss/train": 0.42})


@NEEDS_ART
def test_a_run_trains_on_policy_and_goes_on_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = ModuleType("art.local")
    local.LocalBackend = Backend  # type: ignore[attr-defined]  # in the place of one with a GPU
    monkeypatch.setitem(sys.modules, "art.local", local)
    monkeypatch.setattr("pytest_cwsandbox.trainers.art.command.check_training", lambda *_, **__: 0)
    monkeypatch.chdir(tmp_path)
    for name in ("WANDB_API_KEY", "FORGE_API_KEY", "CWSANDBOX_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    Backend.served = scripted.join_or_start(tmp_path, lifeline=os.getpid())
    arguments = ["--on-policy", "--problems", "bundled", "--num-problems", "2"]
    try:
        result = CliRunner().invoke(main, [*arguments, "--num-steps", "1"])
        assert result.exit_code == 0, result.output
        again = CliRunner().invoke(main, [*arguments, "--num-steps", "2"])
    finally:
        scripted.stop(tmp_path)
    for line in (
        "Backend: local",
        "Model: train-001 (on-policy)",
        "Creating local backend...",
        "Registering model with backend...",
        "=== Step 1 ===",
        "Collected 4 trajectories, avg reward: 1.00",
        "Training complete: step=1, metrics={'loss/train': 0.42}",
    ):
        assert line in result.stdout.splitlines()
    assert "warning" not in result.stdout
    assert again.exit_code == 0, again.output
    assert "Resuming at step 1 of 2" in again.output
    assert "=== Step 1 ===" not in again.output
    assert [learning_rate for learning_rate, _ in Backend.trained] == [1e-5, 1e-5]
    history = tmp_path / ".art/cwsandbox-mbpp/models/train-001/history.jsonl"
    steps = [json.loads(line) for line in history.read_text().splitlines()]
    assert [row["training_step"] for row in steps] == [1, 2]
    assert [row["train/rollout/pass_rate"] for row in steps] == [1.0, 1.0]
    assert [row["loss/train"] for row in steps] == [0.42, 0.42]
