"""Fixtures over real sandboxes of the local runner."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., pytest.RunResult]

ORPHAN_SECONDS = 10.0


def test_sandboxes_are_started_tagged_and_removed(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        """
        from cwsandbox import Sandbox

        IDS = []

        def test_started_and_tagged(sandbox, request, pytestconfig):
            assert sandbox.exec(["echo", "hello"]).result().stdout == "hello\\n"
            IDS.append(sandbox.sandbox_id)
            [found] = [
                box for box in Sandbox.list(tags=["rl-training", "env:dev", "mine"]).result()
                if box.sandbox_id == sandbox.sandbox_id
            ]
            assert sandbox.exec(["python", "-c", "print(6 * 7)"]).result().returncode == 0

        def test_the_last_one_is_gone(sandbox_factory):
            assert not [box for box in Sandbox.list(tags=["mine"]).result()
                        if box.sandbox_id in IDS]
            one, two = sandbox_factory(), sandbox_factory()
            assert one.sandbox_id != two.sandbox_id

        def test_a_lifetime_is_set(cwsandbox_defaults):
            assert cwsandbox_defaults.max_lifetime_seconds >= 3600
        """
    )
    result = run("--cwsandbox-tag=mine", "--cwsandbox-backend=local")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        ["cwsandbox: local backend, image python:3.*", "cwsandbox: bubblewrap*"]
    )
    result.stdout.no_fnmatch_line("*left over*")
    assert not (pytester.path / ".cwsandbox").exists() or not list(
        (pytester.path / ".cwsandbox").rglob("*.*")
    )


def test_a_run_passes_whose_warnings_are_errors(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        """
        import gc
        import pytest

        def test_sandbox(sandbox):
            assert sandbox.exec(["true"]).result().returncode == 0

        @pytest.mark.problems()
        def test_rollout(problem, rollout):
            assert rollout(problem).result().reward == 1.0

        def test_rubbish():
            gc.collect()
        """
    )
    run("-W", "error", "-p", "no:asyncio", "--cwsandbox-limit=1").assert_outcomes(passed=3)


def test_all_processes_share_one_runner(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import os
        import pytest

        @pytest.mark.parametrize("number", range(6))
        def test_address(sandbox, number, tmp_path_factory):
            with open("addresses", "a") as file:
                file.write(os.environ["CWSANDBOX_BASE_URL"] + "\\n")
        """
    )
    pytester.runpytest_subprocess("-n3").assert_outcomes(passed=6)
    assert len(set((pytester.path / "addresses").read_text().split())) == 1


def test_defaults_can_be_overridden(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def cwsandbox_defaults(cwsandbox_defaults):
            return cwsandbox_defaults.with_overrides(
                environment_variables={"COLOUR": "blue"},
                tags=(*cwsandbox_defaults.tags, "overridden"),
            )
        """
    )
    pytester.makepyfile(
        """
        from cwsandbox import Sandbox

        def test_override(sandbox):
            assert sandbox.exec(["sh", "-c", "echo $COLOUR"]).result().stdout == "blue\\n"
            assert Sandbox.list(tags=["overridden"]).result()
        """
    )
    run().assert_outcomes(passed=1)


def test_grade_gives_a_reference_that_is_awaited_or_had_by_result(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(
        """
        import pytest
        from pytest_cwsandbox.errors import ConfigurationError
        from pytest_cwsandbox.problems import Problem

        ADD = Problem(
            "1", "", ("assert add(1, 2) == 3",), challenge_test_list=("assert add(5, 5) == 10",)
        )
        TABLE = "def add(a, b): return {(1, 2): 3}[a, b]"

        async def test_await(grade):
            assert (await grade(ADD, "```python\\ndef add(a, b): return a + b\\n```")).reward == 1.0

        def test_result(grade):
            outcome = grade(ADD, "def add(a, b): return a - b").result()
            assert (outcome.reward, outcome.verdict) == (0.0, "wrong_answer")

        def test_held_out(grade):
            assert grade(ADD, TABLE).result().reward == 1.0
            assert grade(ADD, TABLE, held_out=True).result().reward == 0.0

        def test_no_tests(grade):
            with pytest.raises(ConfigurationError):
                grade(Problem("2", "", ()), "x = 1")
        """
    )
    run().assert_outcomes(passed=4)


def test_an_unknown_image_is_a_usage_error_that_lists_what_there_is(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile("def test_plain(): pass")
    result = run("--cwsandbox-image=python:3.2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*image: no image 'python:3.2'*python:3.*"])


def test_an_unreachable_service_is_a_usage_error(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile("def test_plain(): pass")
    pytester._monkeypatch.setenv("CWSANDBOX_API_KEY", "none")
    result = run("--cwsandbox-base-url=http://127.0.0.1:9")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*the hosted backend at http://127.0.0.1:9 cannot be used*--cwsandbox-backend=local"]
    )


def test_a_service_lost_in_mid_run_is_infrastructure(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        """
        import json, os, pathlib, signal

        def test_lost(sandbox_factory, record_reward):
            sandbox_factory()
            record_reward(1.0)
            [file] = pathlib.Path(".cwsandbox/runs").glob("*/runner.json")
            os.kill(json.loads(file.read_text())["pid"], signal.SIGKILL)
            sandbox_factory()
        """
    )
    result = run("--cwsandbox-retries=0")
    result.stdout.fnmatch_lines(["infra: *test_lost: no sandbox started in 1 attempts*"])
    assert result.ret == 75


def test_nothing_stays_when_the_controller_is_killed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import os, pathlib, time

        def test_waits(sandbox):
            sandbox.exec(["sleep", "1000"])
            pathlib.Path("waiting").touch()
            time.sleep(100)
        """
    )
    from tests.test_serve_command import runner_processes

    before = runner_processes()
    controller = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-n1"], stdout=subprocess.DEVNULL, cwd=pytester.path
    )
    wait_for((pytester.path / "waiting").exists, within=60)
    started = [pid for pid in runner_processes() - before if str(pytester.path) in command(pid)]
    assert started
    states = [
        Path(part) for pid in started for part in command(pid).split("\0") if "/cwsandbox-" in part
    ]
    controller.kill()
    controller.wait()
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started))
    wait_for(lambda: not any(state.exists() for state in states))
    wait_for(lambda: not list(pytester.path.rglob("runner.*")))


def test_a_dead_workers_sandboxes_are_swept_at_once_and_said(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import os, time
        from cwsandbox import Sandbox

        def test_dies(sandbox, request):
            with open("lost", "w") as file:
                file.write(sandbox.sandbox_id)
            os._exit(9)

        def test_sees_it_gone(sandbox):
            lost = open("lost").read()
            deadline = time.monotonic() + 10
            while lost in [box.sandbox_id for box in Sandbox.list(tags=["rl-training"]).result()]:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        """
    )
    result = pytester.runpytest_subprocess("-n1")
    result.stdout.fnmatch_lines(["cwsandbox: removed [12] sandboxes that were left over: *"])
    assert result.parseoutcomes() == {"passed": 1, "infra": 1}


def test_ctrl_c_leaves_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pathlib, time

        def test_waits(sandbox):
            sandbox.exec(["sleep", "1000"])
            pathlib.Path("waiting").touch()
            time.sleep(100)
        """
    )
    from tests.test_serve_command import runner_processes

    before = runner_processes()
    controller = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-n2"],
        stdout=subprocess.DEVNULL,
        cwd=pytester.path,
        start_new_session=True,
    )
    wait_for((pytester.path / "waiting").exists, within=60)
    started = [pid for pid in runner_processes() - before if str(pytester.path) in command(pid)]
    os.killpg(controller.pid, signal.SIGINT)
    assert controller.wait(30) == pytest.ExitCode.INTERRUPTED
    assert started
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started))
    assert not list(pytester.path.rglob("runner.*"))


def test_a_runner_served_outside_is_used_and_not_ended(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import os

        def test_address(sandbox):
            with open("addresses", "a") as file:
                file.write(os.environ["CWSANDBOX_BASE_URL"] + "\\n")
        """
    )
    pytest_ = f"{sys.executable} -m pytest -p no:cacheprovider"
    done = subprocess.run(
        [sys.executable, "-m", "pytest_cwsandbox", "serve", "--", "sh", "-c",
         f"echo $CWSANDBOX_BASE_URL > served; {pytest_} && {pytest_} -n1"],
        check=False, cwd=pytester.path, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0
    served = (pytester.path / "served").read_text().strip()
    assert (pytester.path / "addresses").read_text().split() == [served, served]


def test_samples_cross_xdist_and_are_the_same_however_distributed(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        test_many="""
        import pytest

        @pytest.mark.parametrize("number", range(20))
        def test_sample(number, record_reward):
            record_reward(number % 3 / 2, detail=f"sample {number}")
        """
    )
    summaries = []
    for name, args in {"n0": ["-n0"], "n2": ["-n2"], "n8": ["-n8"]}.items():
        pytester.runpytest_subprocess(*args, f"--cwsandbox-report-dir={name}")
        [file] = (pytester.path / name).glob("*/summary.json")
        summary = json.loads(file.read_text())
        for group in (summary["all"], *summary["groups"]):
            del group["p50_seconds"], group["p95_seconds"]
        del summary["run"]
        summaries.append(summary)
    assert summaries[0] == summaries[1] == summaries[2]
    assert summaries[0]["all"]["samples"] == 20


def wait_for(reached: Callable[[], bool], within: float = ORPHAN_SECONDS) -> None:
    """Until it is so; fails when it takes longer."""
    deadline = time.monotonic() + within
    while not reached():
        assert time.monotonic() < deadline, "not within the time"
        time.sleep(0.05)


def command(pid: int) -> str:
    """The process's command line."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""
