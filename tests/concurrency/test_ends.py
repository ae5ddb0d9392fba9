"""However a run ends that has tests in flight."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.plugin.test_fixtures import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., pytest.RunResult]

STARTS = """
import asyncio
from pathlib import Path
import pytest

@pytest.mark.problems("toy", samples=6)
async def test_waits(problem, sample, record_reward):
    if sample % 2:  # these end before their turn
        record_reward(1.0)
        return
    Path(f"started-{sample}").touch()
    try:
        await asyncio.sleep(FOREVER)
        record_reward(1.0)
    finally:
        Path(f"ended-{sample}").touch()
"""


def start(project: pytest.Pytester) -> subprocess.Popen[bytes]:
    """A run whose even samples wait, and whose odd samples are over."""
    project.makepyfile(STARTS.replace("FOREVER", "600"))
    running = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-n0", "--cwsandbox-limit=1", "-q"],
        cwd=project.path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for(lambda: len(list(project.path.glob("started-*"))) == 3, within=60)
    wait_for(lambda: sum(row["state"] == "ended" for row in journal(project)) == 3, within=60)
    return running


def journal(project: pytest.Pytester) -> list[dict[str, object]]:
    return [
        json.loads(line)
        for file in project.path.glob(".cwsandbox/runs/*/samples-main.jsonl")
        for line in file.read_text().splitlines()
    ]


def test_ctrl_c_ends_all_that_is_in_flight(project: pytest.Pytester) -> None:
    with start(project) as running:
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == pytest.ExitCode.INTERRUPTED
    assert len(list(project.path.glob("ended-*"))) == 3


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_was_ended_loses_only_what_was_in_flight(
    project: pytest.Pytester, signum: signal.Signals
) -> None:
    with start(project) as running:
        os.kill(running.pid, signum)
        running.wait(60)
    project.makepyfile(STARTS.replace("FOREVER", "0"))
    result = project.runpytest_subprocess("-n0", "--cwsandbox-resume=latest", "--cwsandbox-limit=1")
    result.stdout.fnmatch_lines(["toy/test_waits*6/6*", "*3 replayed*"])


def test_a_keyboard_interrupt_of_a_test_ends_the_run_at_its_turn(
    project: pytest.Pytester, ahead: Run
) -> None:
    project.makepyfile(
        """
        import pytest
        import pause

        @pytest.mark.problems("toy", samples=3)
        async def test_ends(problem, sample):
            await pause.pause(0.2 - 0.1 * sample)
            if sample == 1:
                raise KeyboardInterrupt
        """
    )
    result = ahead("--cwsandbox-limit=1")
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.INTERRUPTED


def test_a_test_whose_call_a_hook_prevents_ends_without_it(
    project: pytest.Pytester, ahead: Run
) -> None:
    project.makeconftest(
        """
        import pytest

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_call(item):
            if "s1" in item.name:
                pytest.skip("by a hook")
        """
    )
    project.makepyfile(
        """
        import pytest
        import pause

        @pytest.mark.problems("toy", samples=3)
        async def test_records(problem, sample, record_reward):
            record_reward(1.0)
            await pause.pause(600 * (sample == 1))

        def test_nothing_is_left():
            assert pause.NOW == 0
        """
    )
    result = ahead("--cwsandbox-limit=1")
    result.assert_outcomes(passed=3, skipped=1)
    result.stdout.fnmatch_lines(["toy/test_records*2/2*"])


# pytest-timeout's hooks, as far as others may implement them.
TIMEOUT = """
import pytest

class Spec:
    @pytest.hookspec(firstresult=True)
    def pytest_timeout_set_timer(self, item, settings): ...
    @pytest.hookspec(firstresult=True)
    def pytest_timeout_cancel_timer(self, item): ...

class Settings:
    timeout = 1.0

class Plugin:
    def _get_item_settings(self, item):
        return Settings()

def pytest_addhooks(pluginmanager):
    pluginmanager.add_hookspecs(Spec)
    pluginmanager.register(Plugin(), "timeout")

@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    item.config.hook.pytest_timeout_set_timer(item=item, settings=Settings())
    return (yield)

@pytest.hookimpl(trylast=True)
def pytest_timeout_set_timer(item, settings):
    item.rings = True
    return True

@pytest.hookimpl(trylast=True)
def pytest_timeout_cancel_timer(item):
    item.rings = False
    return True
"""


def test_a_time_limit_ends_the_test_that_is_late_and_no_other(
    project: pytest.Pytester, ahead: Run
) -> None:
    project.makeconftest(TIMEOUT)
    project.makepyfile(
        """
        import pytest
        import pause

        @pytest.mark.problems("toy", samples=4)
        async def test_late(problem, sample):
            await pause.pause((0.01, 60, 1.3, 0.01)[sample])

        def test_has_its_own_alarm(request):
            assert request.node.rings
        """
    )
    result = ahead("--cwsandbox-limit=1", "-v")
    result.stdout.fnmatch_lines(
        [
            f"*-s{sample}] {word}*"
            for sample, word in enumerate(("PASSED", *["FAILED"] * 2, "PASSED"))
        ]
    )
    result.stdout.fnmatch_lines(["*test_has_its_own_alarm PASSED*"])
    result.stdout.fnmatch_lines(["E *Failed: Timeout (>1.0s) from pytest-timeout."])


def test_a_time_limit_ends_the_test_that_blocks_and_not_those_that_it_holds_up(
    project: pytest.Pytester, ahead: Run
) -> None:
    project.makeconftest(TIMEOUT)
    project.makepyfile(
        """
        import time
        import pytest
        import pause

        @pytest.mark.problems("toy", samples=3)
        async def test_waits(problem, sample):
            await pause.pause(0.01)
            if sample == 1:
                time.sleep(60)
            await pause.pause(0.01)
        """
    )
    result = ahead("--cwsandbox-limit=1", "-v")
    result.stdout.fnmatch_lines(["*-s0] PASSED*", "*-s1] FAILED*", "*-s2] PASSED*"])


def test_a_time_limit_ends_the_test_that_is_waited_for_before_its_turn(
    project: pytest.Pytester, ahead: Run
) -> None:
    project.makeconftest(TIMEOUT)
    project.makepyfile(
        """
        import pytest
        import pause

        @pytest.mark.problems("toy")
        async def test_first(problem):
            await pause.pause(0.1)

        def test_has_the_main_thread_to_itself():
            assert pause.NOW == 0

        @pytest.mark.problems("toy", samples=3)
        async def test_waits(problem, sample):
            await pause.pause(600 * (sample == 1))
        """
    )
    result = ahead("--cwsandbox-limit=1", "-v")
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(["*-s1] FAILED*", "E *Failed: Timeout (>1.0s)*"])


def test_a_test_in_time_does_not_fail_because_others_hold_it_up(
    project: pytest.Pytester, ahead: Run
) -> None:
    project.makeconftest(TIMEOUT.replace("1.0", "2.0"))
    project.makepyfile(
        """
        import time
        import pytest
        import pause

        @pytest.mark.problems("toy", samples=8)
        async def test_computes(problem, sample):
            for _ in range(3):
                await pause.pause(0.05)
                time.sleep(0.2)
        """
    )
    ahead("--cwsandbox-limit=1").assert_outcomes(passed=8)


@pytest.mark.parametrize("stop", ["-x", "--sw"])
def test_rollouts_that_are_cut_short_leave_no_sandbox_and_no_noise(
    project: pytest.Pytester, stop: str
) -> None:
    project.makeconftest("import gc; gc.set_threshold(100, 2, 2)")  # what is forgotten shows soon
    project.makepyfile(
        """
        import asyncio
        import pytest

        @pytest.mark.problems("bundled")
        async def test_agent(problem, rollout):
            if problem.id == "bundled-2":
                await asyncio.sleep(0.6)
                raise RuntimeError("stop")
            await rollout(problem)
        """
    )
    args = (stop, "-n0", "--cwsandbox-limit=16", "--tb=no", "-q")
    result = project.runpytest_subprocess(*args)
    result.assert_outcomes(passed=1, failed=1)
    for said in (result.stdout, result.stderr):
        said.no_fnmatch_line("*left over*")
        said.no_fnmatch_line("*never retrieved*")
        said.no_fnmatch_line("*was destroyed*")
