"""What would set a test that runs ahead apart from one that runs at its turn, and must not."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.concurrency.test_run_ahead import MANY, most

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., pytest.RunResult]


def test_what_pytest_does_between_two_tests_lets_nobody_time_out(
    project: pytest.Pytester, ahead: Run
) -> None:
    project.makeconftest(
        """
        import time
        import pytest

        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_makereport(item, call):
            report = yield
            if call.when == "call" and "s0" in item.name:
                time.sleep(2)
            return report
        """
    )
    project.makepyfile(
        """
        import asyncio
        import pytest
        import pause

        @pytest.mark.problems("toy", samples=4)
        async def test_hurries(problem, sample):
            async with asyncio.timeout(1.5):
                await pause.pause(0.3 if sample else 0.1)
                await pause.pause(0.3 if sample else 0.1)
        """
    )
    ahead("--cwsandbox-limit=1").assert_outcomes(passed=4)


def test_a_breakpoint_is_seen_though_its_test_has_no_turn_yet(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(
        """
        import pytest
        import pause

        @pytest.mark.problems("toy", samples=2)
        async def test_stops(problem, sample):
            await pause.pause(1.0 - 0.9 * sample)
            if sample:
                print("just before")
                breakpoint()
        """
    )
    args = ("-n0", "--cwsandbox-concurrency=8", "--cwsandbox-limit=1", "-v")
    result = project.run(sys.executable, "-m", "pytest", *args, stdin=b"c\n")
    result.stdout.fnmatch_lines(["*PDB set_trace*", "just before", "(Pdb)*", "PASSED*"])
    result.assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("args", "count"), [((), 8), (("-Walways",), 12), (("-Wmodule",), 4), (("-Wonce",), 4)]
)
def test_warnings_are_said_as_often_as_without_it(
    project: pytest.Pytester, ahead: Run, args: tuple[str, ...], count: int
) -> None:
    project.makepyfile(
        """
        import warnings
        import pytest
        import pause

        @pytest.mark.problems("toy", samples=2)
        async def test_warns(problem):
            for _ in range(3):
                warnings.warn("each time", DeprecationWarning)
                warnings.warn("once")
                await pause.pause(0.05)
        """
    )
    result = ahead("--cwsandbox-limit=1", *args)
    result.assert_outcomes(passed=2, warnings=count)


def test_tasks_that_a_client_of_the_session_has_started_go_on(
    project: pytest.Pytester, ahead: Run
) -> None:
    project.makepyfile(
        """
        import asyncio
        import pytest
        import pause

        class Client:
            task = None

            async def beat(self):
                if self.task is None:
                    self.task = asyncio.create_task(asyncio.sleep(600))

        @pytest.fixture(scope="session")
        def client():
            return Client()

        @pytest.mark.asyncio(loop_scope="session")
        @pytest.mark.problems("toy", samples=4)
        async def test_beats(problem, sample, client):
            await client.beat()
            await pause.pause(0.1 * sample)
            assert not client.task.done()
        """
    )
    ahead("--cwsandbox-limit=1").assert_outcomes(passed=4)


def test_plugins_of_pytest_may_be_blocked(project: pytest.Pytester, ahead: Run) -> None:
    project.makepyfile(MANY.format(samples=2))
    blocked = ("debugging", "setuponly", "setupplan", "stepwise", "logging", "warnings")
    result = ahead(*(f"-pno:{name}" for name in blocked), "-rP")
    assert most(result) == [8]
    assert ahead("-pno:terminal").ret == 0
