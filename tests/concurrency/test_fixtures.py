"""Which fixtures a test may use that runs ahead."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    Run = Callable[..., pytest.RunResult]

COUNT = """
def test_count():
    print("most:", pause.MOST)
"""


def test_fixtures_of_wider_scope_are_shared(project: pytest.Pytester, ahead: Run) -> None:
    project.makepyfile(
        dedent("""
        import pytest, pytest_asyncio
        import pause

        @pytest_asyncio.fixture(scope="session", loop_scope="session")
        async def client():
            yield object()

        @pytest.fixture(scope="module", params=["a", "b"])
        def letter(request):
            return request.param

        SEEN = set()

        @pytest.mark.problems("toy", samples=4)
        async def test_wide(problem, client, letter, request_id=1):
            await pause.pause(0.2)
            SEEN.add((letter, id(client)))

        def test_seen():
            assert len(SEEN) == 2
        """)
        + COUNT
    )
    result = ahead("--cwsandbox-limit=1", "-rP")
    result.assert_outcomes(passed=10)
    result.stdout.fnmatch_lines(["most: 4"])  # those of a letter


def test_what_is_not_set_up_yet_is_waited_for(project: pytest.Pytester, ahead: Run) -> None:
    project.makepyfile(
        """
        import pytest
        import pause

        MADE = []

        @pytest.fixture(scope="module")
        def late():
            MADE.append(1)
            return MADE

        @pytest.mark.problems("toy", samples=2)
        async def test_early(problem):
            await pause.pause(0.2)
            assert not MADE

        @pytest.mark.problems("toy", samples=2)
        async def test_late(problem, late):
            assert late == [1]
            await pause.pause(0.2)
        """
    )
    ahead("--cwsandbox-limit=1").assert_outcomes(passed=4)


def test_a_fixture_for_one_test_at_a_time_is_named(project: pytest.Pytester, ahead: Run) -> None:
    project.makepyfile(
        dedent("""
        import pytest
        import pause

        @pytest.fixture
        def own():
            return object()

        @pytest.mark.problems("toy", samples=4)
        async def test_in_order(problem, own, tmp_path):
            await pause.pause(0.1)

        @pytest.mark.problems("toy", samples=4)
        async def test_in_order_too(problem, tmp_path):
            await pause.pause(0.1)
        """)
        + COUNT
    )
    result = ahead("--cwsandbox-limit=1", "-rP")
    result.assert_outcomes(passed=9)
    result.stdout.fnmatch_lines(["most: 1", "cwsandbox: *made for one test at a time: *own*"])


def test_an_autouse_fixture_that_stops_all_is_named_with_its_place(
    project: pytest.Pytester, ahead: Run
) -> None:
    project.makeconftest(
        """
        import pytest

        @pytest.fixture(autouse=True)
        def tidy():
            yield
        """
    )
    project.makepyfile(
        dedent("""
        import pytest
        import pause

        @pytest.mark.problems("toy", samples=4)
        async def test_in_order(problem):
            await pause.pause(0.1)
        """)
        + COUNT
    )
    result = ahead("--cwsandbox-limit=1", "-rP")
    result.stdout.fnmatch_lines(["most: 1", "cwsandbox: autouse fixtures *: tidy of conftest"])


def test_what_is_not_to_run_does_not_start(project: pytest.Pytester, ahead: Run) -> None:
    project.makepyfile(
        """
        import pytest
        import pause

        STARTED = []

        @pytest.mark.problems("toy")
        async def test_first(problem):
            await pause.pause(0.3)

        @pytest.mark.skipif(True, reason="not now")
        @pytest.mark.problems("toy")
        async def test_skipped(problem):
            STARTED.append("skipped")

        @pytest.mark.xfail(run=False)
        @pytest.mark.problems("toy")
        async def test_not_run(problem):
            STARTED.append("not run")

        def test_started():
            assert not STARTED
        """
    )
    ahead("--cwsandbox-limit=1").assert_outcomes(passed=2, skipped=1, xfailed=1)


def test_a_reward_recorded_ahead_does_not_count_when_a_hook_skips_the_test(
    project: pytest.Pytester, ahead: Run
) -> None:
    project.makeconftest(
        """
        import pytest

        def pytest_runtest_setup(item):
            if "s2" in item.name:
                pytest.skip("by a hook")
        """
    )
    project.makepyfile(
        """
        import pytest
        import pause

        @pytest.mark.problems("toy", samples=3)
        async def test_records(problem, record_reward):
            record_reward(1.0)
            await pause.pause(0.1)
        """
    )
    result = ahead("--cwsandbox-limit=1")
    result.assert_outcomes(passed=2, skipped=1)
    result.stdout.fnmatch_lines(["toy/test_records*2/2*"])


def test_sandboxes_and_grades_are_had_at_once(project: pytest.Pytester, ahead: Run) -> None:
    project.makepyfile(
        dedent("""
        import pytest
        import pause

        IDS = set()

        @pytest.mark.problems("toy", samples=3)
        async def test_uses(problem, sandbox, grade_exit_code, record_reward):
            IDS.add(sandbox.sandbox_id)
            await pause.pause(0.2)
            assert (await sandbox.exec(["echo", "hi"])).stdout == "hi\\n"
            record_reward(await grade_exit_code("1"))

        def test_ids():
            assert len(IDS) == 3
        """)
        + COUNT
    )
    result = ahead("--cwsandbox-limit=1", "-rP")
    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines(["most: [23]"])


def test_a_parameter_may_change_the_loop_of_the_session(
    project: pytest.Pytester, ahead: Run
) -> None:
    project.makeconftest(
        """
        import asyncio
        import pytest

        @pytest.fixture(scope="session", params=["one", "other"])
        def event_loop_policy(request):
            return asyncio.DefaultEventLoopPolicy()
        """
    )
    project.makepyfile(
        dedent("""
        import pytest
        import pause

        @pytest.mark.problems("toy", samples=4)
        async def test_waits(problem):
            await pause.pause(0.1)
        """)
        + COUNT
    )
    result = ahead("--cwsandbox-limit=1", "-rP")
    result.assert_outcomes(passed=10)
    result.stdout.fnmatch_lines(["most: 4"])


def test_a_test_that_is_decorated_with_a_patch_runs_in_order(
    project: pytest.Pytester, ahead: Run
) -> None:
    project.makepyfile(
        """
        from unittest import mock
        import pytest
        import pause

        @mock.patch("pause.INI", "patched", create=True)
        @pytest.mark.problems("toy", samples=2)
        async def test_patched(problem, sample):
            await pause.pause(0.2)
            assert pause.INI == "patched"
        """
    )
    result = ahead("--cwsandbox-limit=1")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["cwsandbox: tests run in order that are decorated with: patch"])
