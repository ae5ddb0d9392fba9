"""What docs/monitoring.md shows works as it stands there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from pytest_cwsandbox.cli import main
from pytest_cwsandbox.monitoring import step_metrics
from tests.monitoring import wandb_file
from tests.test_grade_command import without_account

if TYPE_CHECKING:
    from cwsandbox import SandboxDefaults

PAGE = (Path(__file__).parents[2] / "docs" / "monitoring.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_its_training_loop_logs_its_steps(tmp_path: Path) -> None:
    pytest.importorskip("wandb", reason="needs the [wandb] extra")
    code = blocks("python")[0]
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=without_account() | {"WANDB_MODE": "offline", "WANDB_SILENT": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = wandb_file.history(tmp_path)
    assert [row["rollout/samples"] for row in rows.values()] == [8, 8, 8]
    assert all(row["cwsandbox/executions"] > 0 for row in rows.values())


def test_its_commands_work(defaults: SandboxDefaults) -> None:
    lines = blocks("bash")[0].splitlines()
    assert len(lines) == 3
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "pytest-cwsandbox"
        assert CliRunner().invoke(main, arguments).exit_code == 0


def test_its_metrics_are_those_that_there_are() -> None:
    names = {name.partition("/")[2] for name in step_metrics([])}
    table = PAGE.split("| metric | |")[1].split("\n\n")[0]
    shown = set(re.findall(r"`(?:rollout/)?([a-z0-9_]+)(?:/NAME)?`", table))
    assert {name.partition("/")[0] for name in names} <= shown


def test_what_it_imports_of_ours_is_there() -> None:
    lines = re.findall(r"^from pytest_cwsandbox.*$", "\n".join(blocks("python")), re.MULTILINE)
    assert lines
    for line in lines:
        exec(line, {})  # noqa: S102 - the page's own text
