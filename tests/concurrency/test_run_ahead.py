"""Coroutine tests of problems run at once in one process, and pytest sees them one by one."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., pytest.RunResult]

MANY = """
import pytest
import pause

@pytest.mark.problems("toy", samples={samples})
async def test_waits(problem):
    await pause.pause(0.5)

def test_count():
    print("most:", pause.MOST)
"""


def most(result: pytest.RunResult) -> list[int]:
    """How many tests were under way at once, in each process."""
    return [int(line.split()[1]) for line in result.outlines if line.startswith("most: ")]


@pytest.mark.parametrize("args", [("-n0",), ("-p", "no:xdist"), ("-n0", "--asyncio-mode=strict")])
def test_one_process_has_32_waits_at_once(project: pytest.Pytester, args: tuple[str, ...]) -> None:
    project.makepyfile(MANY.format(samples=8))
    result = project.runpytest_subprocess(*args, "-rP")
    assert most(result) == [32]


def test_without_pytest_asyncio_they_run_at_once_too(project: pytest.Pytester) -> None:
    project.makepyfile(MANY.format(samples=8))
    project.makeini("[pytest]\n")
    result = project.runpytest_subprocess("-n0", "-p", "no:asyncio", "-rP")
    assert most(result) == [32]


def test_processes_share_what_the_run_may_have(project: pytest.Pytester) -> None:
    project.makepyfile(MANY.format(samples=8))
    result = project.runpytest_subprocess("-n2", "--cwsandbox-concurrency=8", "-rP")
    assert 1 < max(most(result)) <= 4


def test_one_at_a_time_imports_nothing_of_it(project: pytest.Pytester) -> None:
    project.makepyfile(
        MANY.format(samples=1)
        + """
    import sys
    assert not [name for name in sys.modules if name.startswith("pytest_cwsandbox.concurrency")]
"""
    )
    result = project.runpytest_subprocess("-n0", "--cwsandbox-concurrency=1", "-rP")
    assert most(result) == [1]
    assert result.ret == 0


def test_a_debugger_sees_one_test_at_a_time(project: pytest.Pytester) -> None:
    project.makepyfile(MANY.format(samples=1))
    assert most(project.runpytest_subprocess("-n0", "--pdb", "-rP")) == [1]


def test_reports_keep_their_order_and_real_durations(project: pytest.Pytester, ahead: Run) -> None:
    project.makepyfile(
        """
        import pytest
        import pause

        @pytest.mark.problems("toy", samples=6)
        async def test_waits(problem, sample):
            await pause.pause(0.6 - 0.1 * sample)
        """
    )
    result = ahead("--cwsandbox-limit=1", "-v", "--junitxml=junit.xml")
    names = [line.split("-s")[-1][0] for line in result.outlines if "PASSED" in line]
    assert names == ["0", "1", "2", "3", "4", "5"]
    cases = ET.parse(project.path / "junit.xml").iter("testcase")  # noqa: S314 - just written
    seconds = [float(case.attrib["time"]) for case in cases]
    assert all(took > 0.55 - 0.1 * sample for sample, took in enumerate(seconds))


def test_what_a_test_says_is_told_at_its_own_turn(project: pytest.Pytester, ahead: Run) -> None:
    project.makepyfile(
        """
        import asyncio, logging, sys, warnings
        import pytest
        import pause

        @pytest.mark.problems("toy", samples=3)
        async def test_talks(problem, sample):
            await pause.pause(0.3 - 0.1 * sample)
            print("out of", sample)
            await asyncio.to_thread(print, "thread of", sample)
            print("err of", sample, file=sys.stderr)
            logging.getLogger("talk").warning("log of %s", sample)
            warnings.warn("the same for all")
            assert sample == "nothing"
        """
    )
    result = ahead("--cwsandbox-limit=1")
    for sample in range(3):
        result.stdout.fnmatch_lines(
            [
                f"*test_talks[[]toy-slow-sum-s{sample}]*",
                f"E*assert {sample} == 'nothing'",
                "*Captured stdout call*",
                f"out of {sample}",
                f"thread of {sample}",
                "*Captured stderr call*",
                f"err of {sample}",
                "*Captured log call*",
                f"*log of {sample}",
            ],
        )
    result.stdout.fnmatch_lines(
        [f"*test_talks[[]toy-slow-sum-s{sample}]" for sample in range(3)]
        + ["*UserWarning: the same for all"]
    )
    assert result.stdout.str().count("out of 1\n") == 1


@pytest.mark.parametrize("end", ["SystemExit(3)", "asyncio.CancelledError()", "ValueError()"])
def test_whatever_a_test_raises_is_its_own(project: pytest.Pytester, ahead: Run, end: str) -> None:
    project.makepyfile(
        f"""
        import asyncio
        import pytest
        import pause

        @pytest.mark.problems("toy", samples=3)
        async def test_ends(problem, sample):
            await pause.pause(0.2 - 0.1 * sample)
            if sample == 1:
                raise {end}
        """
    )
    result = ahead("--cwsandbox-limit=1", "-v")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*-s0] PASSED*", "*-s1] FAILED*", "*-s2] PASSED*"])


def test_a_slow_test_in_between_lets_nobody_time_out(project: pytest.Pytester, ahead: Run) -> None:
    project.makepyfile(
        """
        import asyncio, time
        import pytest
        import pause

        @pytest.mark.problems("toy")
        async def test_first(problem):
            await pause.pause()

        def test_in_between():
            assert pause.NOW == 0
            time.sleep(2)

        @pytest.mark.problems("toy", samples=4)
        async def test_hurries(problem):
            async with asyncio.timeout(1.5):
                await pause.pause(0.3)
                await pause.pause(0.3)
        """
    )
    result = ahead("--cwsandbox-limit=1")
    result.assert_outcomes(passed=6)


def test_first_failure_stops_the_launches(project: pytest.Pytester, ahead: Run) -> None:
    project.makepyfile(
        """
        import pytest
        import pause
        from pathlib import Path

        @pytest.mark.problems("toy", samples=20)
        async def test_fails(problem, sample, record_reward):
            with Path("started").open("a") as file:
                file.write("x")
            await pause.pause(0.1 * sample)
            record_reward(1.0)
            assert sample
        """
    )
    result = ahead("--cwsandbox-limit=1", "-x")
    result.assert_outcomes(failed=1)
    assert len((project.path / "started").read_text()) <= 8
    result.stdout.fnmatch_lines(["toy/test_fails*1/1*"])  # the others had no turn


def test_tasks_that_a_test_leaves_behind_end_with_it(project: pytest.Pytester, ahead: Run) -> None:
    project.makepyfile(
        """
        import asyncio
        import pytest
        import pause

        ENDED = []

        @pytest.mark.problems("toy", samples=2)
        async def test_leaves(problem, sample):
            async def stay():
                try:
                    await asyncio.sleep(60)
                finally:
                    ENDED.append(sample)
            asyncio.create_task(stay())
            await pause.pause()

        def test_ended():
            assert sorted(ENDED) == [0, 1]
        """
    )
    ahead("--cwsandbox-limit=1").assert_outcomes(passed=3)


def test_a_test_that_blocks_all_others_is_named(project: pytest.Pytester, ahead: Run) -> None:
    project.makepyfile(
        """
        import time
        import pytest

        @pytest.mark.problems("toy")
        async def test_blocks(problem):
            time.sleep(1.2)
        """
    )
    result = ahead("--cwsandbox-limit=1")
    result.stdout.fnmatch_lines(["cwsandbox: these block all tests*await*: *::test_blocks"])


def test_more_agents_than_a_test_has_by_itself_have_their_sandboxes_at_once(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(
        """
        import asyncio
        import pytest

        WORKING = []
        ALL = asyncio.Event()

        async def meets(messages, tools):
            if len(messages) > 2:  # has used its sandbox, and keeps it
                WORKING.append(messages)
                if len(WORKING) == 34:
                    ALL.set()
                await asyncio.wait_for(ALL.wait(), 60)
                return "I give up."
            function = {"name": "execute_code", "arguments": '{"code": "print(1)"}'}
            call = {"id": "1", "type": "function", "function": function}
            return {"role": "assistant", "content": None, "tool_calls": [call]}

        @pytest.mark.problems("bundled", samples=34)
        async def test_agent(problem, rollout):
            trajectory = await rollout(problem, policy=meets)
            assert trajectory.stop_reason == "no_tool_call"
        """
    )
    args = ("-n0", "--cwsandbox-limit=1", "--cwsandbox-concurrency=34")
    result = project.runpytest_subprocess(*args)
    result.assert_outcomes(passed=34)
    result.stdout.fnmatch_lines(["sandboxes: 34 started, highest 34 at once*"])
