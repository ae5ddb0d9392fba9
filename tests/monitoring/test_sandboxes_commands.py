"""`pytest-cwsandbox ps` and `cleanup`, on real local runners."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from cwsandbox import Sandbox, Session

from pytest_cwsandbox import runner
from pytest_cwsandbox.cli import main
from pytest_cwsandbox.monitoring import count_active_sandboxes
from pytest_cwsandbox.monitoring.sandboxes import Service
from tests.test_grade_command import without_account

if TYPE_CHECKING:
    from collections.abc import Iterator

    from click.testing import Result
    from cwsandbox import SandboxDefaults

TAG = "training-run:seven"


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def boxes(defaults: SandboxDefaults) -> Iterator[list[str]]:
    """Two sandboxes of one training run and one of another, in the order of their creation."""
    two = ("training-run:seven", "model:Qwen-Qwen3-8B-a82fd547", "rl-training")
    with Session(defaults, report_to=[]) as session:
        yield [
            str(session.sandbox(tags=list(tags)).wait().sandbox_id)
            for tags in (two, two, ("training-run:eight",))
        ]


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def listed(*arguments: str) -> list[str]:
    return [row["id"] for row in json.loads(call("ps", "--json", *arguments).stdout)]


def test_sandboxes_are_listed_by_tag(boxes: list[str]) -> None:
    assert listed("--tag", TAG) == boxes[:2]
    assert listed("--tag", TAG, "--tag", "rl-training") == boxes[:2]
    assert listed("--tag", "rl-training", "--tag", "training-run:eight") == []
    assert set(boxes) <= set(listed())


def test_a_tag_is_found_as_it_was_meant(boxes: list[str]) -> None:
    assert listed("--tag", "model:Qwen/Qwen3-8B") == boxes[:2]


def test_the_table_fits_a_terminal(boxes: list[str]) -> None:
    done = call("ps", "--tag", TAG)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["sandbox", "status", "age", "tags"]
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines if "running" in line] == boxes[:2]
    assert all(tag in done.stdout for tag in (TAG, "model:Qwen-Qwen3-8B-a82fd547"))


def test_the_json_has_all_there_is_to_know(boxes: list[str]) -> None:
    [row] = json.loads(call("ps", "--json", "--tag", "training-run:eight").stdout)
    created = datetime.fromisoformat(row.pop("created_at"))
    age = timedelta(seconds=row.pop("age_seconds"))
    assert abs(datetime.now(UTC) - created - age) < timedelta(seconds=60)
    tags = set(row.pop("tags"))
    assert {"training-run:eight", "test:monitoring"} <= tags
    assert row == {"id": boxes[2], "status": "running"}


def test_nothing_found_is_said(boxes: list[str]) -> None:
    done = call("ps", "--tag", "training-run:none")
    assert (done.exit_code, done.stdout) == (0, "no sandboxes\n")


def test_cleanup_removes_what_has_the_tag(boxes: list[str]) -> None:
    done = call("cleanup", "--tag", TAG)
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [*(f"removed {box}" for box in boxes[:2]), "2 removed"]
    assert listed("--tag", TAG) == []
    assert listed("--tag", "training-run:eight") == boxes[2:]


def test_a_dry_run_removes_nothing(boxes: list[str]) -> None:
    done = call("cleanup", "--tag", TAG, "--dry-run")
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        *(f"would remove {box}" for box in boxes[:2]),
        "2 would be removed",
    ]
    assert listed("--tag", TAG) == boxes[:2]


def test_only_the_old_are_removed(boxes: list[str]) -> None:
    assert call("cleanup", "--tag", TAG, "--older-than", "2h").stdout == "0 removed\n"
    assert listed("--tag", TAG) == boxes[:2]
    time.sleep(0.01)
    assert "2 removed" in call("cleanup", "--tag", TAG, "--older-than", "0.01s").stdout


def test_cleanup_wants_to_know_of_what() -> None:
    done = call("cleanup")
    assert done.exit_code == 2
    assert "give a --tag, such as training-run:ID, or --all" in done.stderr


@pytest.mark.parametrize("age", ["2", "h", "-1h", "2 hours", "1w", "nan"])
def test_an_age_that_is_none_is_a_mistake(age: str) -> None:
    done = call("cleanup", "--all", f"--older-than={age}")
    assert done.exit_code == 2
    assert "must be a number and s, m, h or d, such as 2h" in done.stderr


def test_what_cannot_be_removed_is_said_and_the_rest_is_removed(
    boxes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from cwsandbox import CWSandboxError

    stop = Sandbox.stop

    class Failed:
        def result(self) -> None:
            raise CWSandboxError("the service\nis busy")

    monkeypatch.setattr(
        Sandbox,
        "stop",
        lambda self, **options: Failed() if self.sandbox_id == boxes[0] else stop(self, **options),
    )
    done = call("cleanup", "--tag", TAG)
    monkeypatch.undo()
    assert done.exit_code == 1
    assert done.stderr == f"{boxes[0]} is still there: the service is busy\n"
    assert done.stdout.splitlines() == [f"removed {boxes[1]}", "1 removed, 1 could not be"]
    assert listed("--tag", TAG) == boxes[:1]


def test_active_sandboxes_of_a_training_run_are_counted(boxes: list[str]) -> None:
    assert count_active_sandboxes("seven") == {"running": 2, "pending": 0, "total": 2}
    assert count_active_sandboxes("none") == {"running": 0, "pending": 0, "total": 0}


def test_a_runner_of_a_run_under_way_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in set(os.environ) - set(without_account()):
        monkeypatch.delenv(name)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    runs = tmp_path / "runs"
    try:
        served = [
            runner.join_or_start(runs / name, lifeline=os.getpid()) for name in ("one", "two")
        ]
        made = [_start(each, tmp_path) for each in served]
        assert sorted(listed(f"--report-dir={runs}")) == sorted(made)
        assert count_active_sandboxes("of-a-run", runs=runs)["running"] == 2
        runner.end(served[0].pid)
        assert listed(f"--report-dir={runs}") == made[1:]
        assert "1 removed" in call("cleanup", "--all", f"--report-dir={runs}").stdout
        assert listed(f"--report-dir={runs}") == []
    finally:
        runner.stop(runs / "one")
        runner.stop(runs / "two")
    done = call("ps", f"--report-dir={runs}")
    assert done.exit_code == 2
    [line] = done.stderr.splitlines()
    assert line.startswith(f"Error: no local runner is there: no test run is under way in {runs}")


@pytest.fixture
def temp() -> Iterator[Path]:
    """A folder for temporary files that every user may enter."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        folder = Path(made)
        folder.chmod(0o755)
        yield folder


def test_a_training_job_in_another_terminal_is_found(
    temp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in set(os.environ) - set(without_account()):
        monkeypatch.delenv(name)
    monkeypatch.setattr("tempfile.tempdir", str(temp))
    job = (
        "from pytest_cwsandbox.rewards.session import shared_sessions; "
        "box = shared_sessions(tags=('training-run:mine',)).agents.sandbox().wait(); "
        "print(box.sandbox_id, flush=True); input()"
    )
    of_another = temp / "cwsandbox-grade-other"
    with subprocess.Popen(
        [sys.executable, "-c", job],
        env={**os.environ, "TMPDIR": str(temp)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        box = process.stdout.readline().strip()
        [file] = temp.glob("cwsandbox-grade-*/runner.json")
        of_another.symlink_to(file.parent)
        left_behind = temp / "cwsandbox-grade-dead" / file.name
        left_behind.parent.mkdir()
        left_behind.write_text(file.read_text().replace('"token": "', '"token": "another'))
        assert listed("--tag", "training-run:mine", f"--report-dir={temp / 'runs'}") == [box]
        with monkeypatch.context() as someone_else:
            someone_else.setattr(os, "getuid", lambda: os.geteuid() + 1)
            assert call("ps", f"--report-dir={temp / 'runs'}").exit_code == 2
        process.communicate("\n")


@pytest.mark.parametrize("command", ["ps", "cleanup"])
def test_an_empty_tag_is_not_every_tag(command: str) -> None:
    done = call(command, "--tag", "")
    assert done.exit_code == 2
    assert "must not be empty" in done.stderr


def _start(served: runner.Rendezvous, folder: Path) -> str:
    """A sandbox that stays when its maker has ended."""
    code = (
        "import cwsandbox, os; "
        "box = cwsandbox.Sandbox.run(tags=['training-run:of-a-run']).wait(); "
        "print(box.sandbox_id, flush=True); os._exit(0)"
    )
    environment = {**os.environ, **served.environment(os.environ)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_a_service_that_does_not_answer_is_inconclusive(
    defaults: SandboxDefaults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_cwsandbox.monitoring.sandboxes.REACH_SECONDS", 1)
    monkeypatch.setattr(
        "pytest_cwsandbox.monitoring.sandboxes.services",
        lambda *_: [Service("http://127.0.0.1:9", defaults.auth)],  # type: ignore[arg-type]  # headers
    )
    for command in ("ps", "cleanup"):
        done = call(command, "--tag", TAG)
        assert done.exit_code == 75
        [line] = done.stderr.splitlines()
        assert line.startswith("Error: sandboxes at http://127.0.0.1:9 cannot be listed: ")


def test_credentials_that_are_refused_are_a_mistake(
    defaults: SandboxDefaults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CWSANDBOX_API_KEY", "another")
    done = call("ps")
    assert done.exit_code == 2
    assert "refuses the credentials" in done.stderr
