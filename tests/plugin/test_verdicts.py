"""The exit code of a run never says more than the run has shown, whoever ends or fails it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., pytest.RunResult]

INCONCLUSIVE = 75
CUT_SHORT = "gates: the run was cut short: not judged"

# Fails the run as pytest-cov does for --cov-fail-under.
FAILS_THE_RUN = """
import pytest

@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session):
    result = yield
    if not hasattr(session.config, "workerinput"):
        session.testsfailed += 1
    return result
"""
LOST = "def test_lost(record_reward): record_reward(None); raise InfrastructureError('gone')\n"
IMPORT = "from pytest_cwsandbox.errors import InfrastructureError\n"

# The second of a hundred is lost, or fails, and the rest passes.
SECOND = """
import pytest
from pytest_cwsandbox.errors import InfrastructureError

@pytest.mark.parametrize("number", range(100))
def test_it(number, record_reward):
    if number == 1:
        raise {error}("gone")
    record_reward(1.0)
"""


@pytest.mark.parametrize("lost", ["", IMPORT + LOST], ids=["none lost", "one lost"])
def test_what_another_plugin_fails_stays_failed(
    pytester: pytest.Pytester, run: Run, lost: str
) -> None:
    pytester.makeconftest(FAILS_THE_RUN)
    pytester.makepyfile(lost + "def test_plain(): pass\n")
    assert run().ret == pytest.ExitCode.TESTS_FAILED
    assert run("--cwsandbox-max-infra-rate=1").ret == pytest.ExitCode.TESTS_FAILED


def test_a_lost_item_alone_is_tolerated_where_that_is_allowed(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(IMPORT + LOST + "def test_good(record_reward): record_reward(1.0)\n")
    assert run("--cwsandbox-max-infra-rate=0.5", "--cwsandbox-min-pass-rate=1").ret == 0


@pytest.mark.parametrize("gate", [(), ("--cwsandbox-min-pass-rate=0.5",)], ids=["plain", "gated"])
def test_a_run_that_a_lost_item_stops_is_inconclusive(
    pytester: pytest.Pytester, run: Run, gate: tuple[str, ...]
) -> None:
    pytester.makepyfile(SECOND.format(error="InfrastructureError"))
    result = run("-x", "--cwsandbox-max-infra-rate=0.9", *gate)
    assert result.ret == INCONCLUSIVE
    result.stdout.fnmatch_lines([CUT_SHORT])
    result.stdout.no_fnmatch_line("* gate*: met")


def test_a_run_that_a_failure_stops_has_failed_and_is_not_judged(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(SECOND.format(error="ValueError"))
    result = run("-x", "--cwsandbox-min-pass-rate=0.5")
    assert result.ret in {pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED}
    result.stdout.fnmatch_lines([CUT_SHORT])
    result.stdout.no_fnmatch_line("* gate*: met")


def test_a_stop_after_the_last_item_leaves_nothing_out(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        IMPORT + "def test_good(record_reward): record_reward(1.0)\n" + LOST,
    )
    options = ("-x", "--cwsandbox-max-infra-rate=0.5", "--cwsandbox-min-pass-rate=0.5")
    result = pytester.runpytest_subprocess("-n0", *options)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["pass rate gate: 1 of 1 *: met"])


def test_dead_workers_that_are_not_replaced_cut_the_run_short(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import os, pytest

        @pytest.mark.parametrize("number", range(40))
        def test_it(number, record_reward):
            if number in (2, 3, 22, 23):
                os._exit(1)
            record_reward(1.0)
        """
    )
    options = ("--cwsandbox-max-infra-rate=0.9", "--cwsandbox-min-pass-rate=0.5")
    result = pytester.runpytest_subprocess("-n2", "--max-worker-restart=0", *options)
    assert result.ret == INCONCLUSIVE
    result.stdout.fnmatch_lines([CUT_SHORT])
    result.stdout.no_fnmatch_line("* gate*: met")


def test_a_gated_run_of_which_everything_was_lost_is_inconclusive(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(IMPORT + LOST)
    result = run("--cwsandbox-max-infra-rate=1", "--cwsandbox-min-pass-rate=0")
    assert result.ret == INCONCLUSIVE
    result.stdout.fnmatch_lines(["pass rate gate: no sample has a reward*: INCONCLUSIVE"])


@pytest.mark.parametrize("option", ["--collect-only", "--setup-only", "--setup-plan"])
def test_what_only_shows_a_run_leaves_the_one_it_names_alone(
    pytester: pytest.Pytester, run: Run, option: str
) -> None:
    pytester.makepyfile(
        IMPORT + LOST + "def test_poor(record_reward): record_reward(0.0)\n",
    )
    run()
    [folder] = (pytester.path / ".cwsandbox/runs").iterdir()
    with next(folder.glob("samples-*.jsonl")).open("a") as journal:
        journal.write('{"cut off')
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    result = run(option, "--cwsandbox-resume=latest", "--cwsandbox-min-pass-rate=1")
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*gate*")
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    assert list((pytester.path / ".cwsandbox/runs").iterdir()) == [folder]


def test_a_subtest_that_is_lost_does_not_fail_its_item(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        IMPORT
        + """
def test_it(subtests, record_reward):
    record_reward(1.0)
    with subtests.test("first"):
        raise InfrastructureError("gone")
    with subtests.test("second"):
        pass
"""
    )
    result = run()
    assert result.ret == INCONCLUSIVE
    result.assert_outcomes(failed=0)
    result.stdout.fnmatch_lines(["infrastructure: 1 of 1 items lost *: INCONCLUSIVE"])


def test_a_subtest_that_fails_beside_a_lost_one_fails_the_run(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(
        IMPORT
        + """
def test_it(subtests):
    with subtests.test("first"):
        raise InfrastructureError("gone")
    with subtests.test("second"):
        raise ValueError("wrong")
"""
    )
    assert run().ret == pytest.ExitCode.TESTS_FAILED


def test_a_gated_assertion_of_a_subtest_is_data(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        """
        def test_it(subtests, record_reward):
            record_reward(0.0)
            with subtests.test("first"):
                assert False
        """
    )
    assert run("--cwsandbox-min-pass-rate=0").ret == 0
    assert run().ret == pytest.ExitCode.TESTS_FAILED
