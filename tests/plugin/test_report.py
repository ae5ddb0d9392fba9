"""Samples, checks, gates and exit codes, through pytest's own door."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from .conftest import RUN_FILES

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., pytest.RunResult]

# Four samples of which three pass, and one check.
THREE_OF_FOUR = """
import pytest

@pytest.mark.parametrize("number", range(4))
def test_sample(number, record_reward):
    record_reward(1.0 if number else 0.0)
    assert number

def test_check():
    pass
"""

INCONCLUSIVE = 75


def test_pass_rates_are_printed_per_group_with_interval(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(test_rates=THREE_OF_FOUR)
    result = run()
    result.stdout.fnmatch_lines(
        [
            "*cwsandbox pass rates*",
            "group*passed*rate*95% interval*mean*infra*p50 s*p95 s",
            # Wilson for 3 of 4, by hand: (0.75 + z²/8 ± z·√(0.1875/4 + z²/64)) / (1 + z²/4)
            "test_rates/test_sample*3/4*75.0%*30.1%..95.4%*0.750*-*",
            "checks: 1 passed, 0 failed",
        ]
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED  # no gate: a failed assert fails the run


def test_the_run_folder_holds_samples_and_summary(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(test_rates=THREE_OF_FOUR)
    run("--cwsandbox-report-dir=out")
    [folder] = (pytester.path / "out").iterdir()
    rows = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    assert [row["reward"] for row in rows] == [0.0, 1.0, 1.0, 1.0]
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["all"]["passed"] == 3
    assert summary["checks"] == {"passed": 1, "failed": 0}
    workers = {f"samples-{row['worker']}.jsonl" for row in rows}
    assert {path.name for path in folder.iterdir()} == RUN_FILES | workers


def test_a_run_that_records_nothing_prints_and_writes_nothing(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile("def test_plain(): pass")
    result = run()
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*cwsandbox pass rates*")
    result.stdout.no_fnmatch_line("cwsandbox:*")
    assert not (pytester.path / ".cwsandbox").exists()


@pytest.mark.parametrize(("gate", "code"), [("0.75", 0), ("0.76", 1), ("0", 0), ("1", 1)])
def test_the_gate_judges_the_pooled_pass_rate(
    pytester: pytest.Pytester, run: Run, gate: str, code: int
) -> None:
    pytester.makepyfile(test_rates=THREE_OF_FOUR)
    result = run(f"--cwsandbox-min-pass-rate={gate}")
    assert result.ret == code
    word = "MISSED" if code else "met"
    result.stdout.fnmatch_lines([f"pass rate gate: 3 of 4 samples passed*{word}"])


def test_with_a_gate_a_low_reward_is_data_and_no_failure(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(test_rates=THREE_OF_FOUR)
    result = run("--cwsandbox-min-pass-rate=0.5", "-x", "--junitxml=junit.xml")
    result.stdout.fnmatch_lines(["*4 passed, 1 low reward*"])
    assert 'failures="0"' in (pytester.path / "junit.xml").read_text()


def test_with_a_gate_other_exceptions_and_checks_still_fail(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(
        """
        def test_breaks_after_recording(record_reward):
            record_reward(0.0)
            raise RuntimeError("not an assertion")

        def test_full_reward_and_failing_assert(record_reward):
            record_reward(1.0)
            assert False

        def test_check():
            assert False
        """
    )
    result = run("--cwsandbox-min-pass-rate=0")
    result.assert_outcomes(failed=3)
    assert result.ret == 1


def test_infrastructure_failures_are_apart_and_make_the_run_inconclusive(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(
        test_lost="""
        import pytest
        from pytest_cwsandbox.errors import InfrastructureError

        def test_good(record_reward):
            record_reward(1.0)

        def test_lost(record_reward):
            raise InfrastructureError("the service is down")
        """
    )
    result = run()
    assert result.ret == INCONCLUSIVE
    result.stdout.fnmatch_lines(
        [
            "test_lost/test_good*1/1*100.0%*",
            "infra: *test_lost.py::test_lost: the service is down",
            "infrastructure: 1 of 2 items lost (50.0%, at most 0.0% allowed): INCONCLUSIVE",
            "*1 passed, 1 infra*",
        ]
    )
    assert run("--cwsandbox-max-infra-rate=0.5").ret == 0
    rerun = run("--lf", "-v")
    rerun.stdout.fnmatch_lines(["*INFRA*"])
    rerun.stdout.no_fnmatch_line("*test_good*")


def test_a_failed_check_wins_over_inconclusive(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        """
        def test_lost(record_reward):
            record_reward(None)

        def test_check():
            assert False
        """
    )
    result = run()
    assert result.ret == 1
    result.stdout.fnmatch_lines(["infrastructure: 1 of 1 items lost*INCONCLUSIVE"])


def test_a_gate_without_any_sample_is_missed(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile("def test_plain(): pass")
    result = run("--cwsandbox-min-pass-rate=0.5")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["pass rate gate: no sample has a reward (*record_reward or rollout): MISSED"]
    )


def test_a_dead_worker_loses_its_item_to_infrastructure(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_crash="""
        import os

        def test_sample_a(record_reward):
            record_reward(1.0)

        def test_sample_dies(record_reward):
            record_reward(0.0)
            os._exit(7)
        """
    )
    result = pytester.runpytest_subprocess("-n1")
    assert result.ret == INCONCLUSIVE
    result.stdout.fnmatch_lines(["infra: *test_sample_dies: the worker process died*"])


def test_a_dying_check_is_a_failure_and_no_infrastructure(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import os\ndef test_check(): os._exit(3)")
    result = pytester.runpytest_subprocess("-n1", "--cwsandbox-max-infra-rate=1")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.no_fnmatch_line("infra*")


def test_parameters_named_like_ours_may_hold_anything(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        test_own="""
        import pytest

        @pytest.mark.parametrize(("problem", "sample"), [(1, object())], ids=["own"])
        def test_own(problem, sample, record_reward): record_reward(1.0)
        """
    )
    result = run()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["test_own/test_own *1/1*"])


def test_an_expected_failure_does_not_hide_a_lost_item(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        """
        import pytest
        from pytest_cwsandbox.errors import InfrastructureError

        @pytest.mark.xfail
        def test_lost(record_reward): raise InfrastructureError("gone")
        """
    )
    result = run()
    assert result.ret == INCONCLUSIVE
    result.stdout.fnmatch_lines(["infra: *test_lost: gone"])


def test_a_later_reward_replaces_a_lost_one(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        """
        def test_twice(record_reward):
            record_reward(None)
            record_reward(1.0)
        """
    )
    assert run().ret == 0


def test_results_that_cannot_be_written_any_more_are_said_in_a_line(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(
        """
        import pathlib, shutil

        def test_sample(record_reward):
            runs = pathlib.Path("out")
            shutil.rmtree(runs)
            runs.write_text("")
            record_reward(1.0)
        """
    )
    result = run("--cwsandbox-report-dir=out")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["*1/1*", "cwsandbox: the results could not be written to */out/*Not a directory*"]
    )


def test_an_interrupted_check_is_not_counted(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_sample(record_reward): record_reward(1.0)

        def test_check(): raise KeyboardInterrupt
        """
    )
    result = pytester.runpytest_subprocess("-n0")
    result.stdout.fnmatch_lines(["*cwsandbox pass rates*"])
    result.stdout.no_fnmatch_line("checks:*")


def test_a_stale_address_is_said_before_anything_runs(
    pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile("def test_plain(): pass")
    monkeypatch.setenv("CWSANDBOX_LOCAL_RUNNER", "one that has ended")
    monkeypatch.setenv("CWSANDBOX_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("CWSANDBOX_API_KEY", "none")
    result = run("--cwsandbox-backend=auto")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*http://127.0.0.1:9 that does not answer*unset*"])


@pytest.mark.parametrize("value", ["10**400", "'1'", "float('inf')", "[]"])
def test_nonsense_is_no_reward(pytester: pytest.Pytester, value: str) -> None:
    pytester.makepyfile(f"def test_it(record_reward): record_reward({value})")
    result = pytester.runpytest_subprocess("-n0")
    result.stdout.fnmatch_lines(["*ValueError: a reward must be a finite number or None, got *"])


def test_a_reward_must_be_a_finite_number(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile("def test_nan(record_reward): record_reward(float('nan'))")
    result = run()
    result.stdout.fnmatch_lines(["*ValueError: a reward must be a finite number or None, got nan"])
    assert result.ret == 1


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--cwsandbox-min-pass-rate=1.5", "a number from 0 to 1, or GROUP=NUMBER *, got '1.5'"),
        ("--cwsandbox-limit=0", "a whole number of at least 1, got '0'"),
        ("--cwsandbox-backend=cloud", "one of auto, local, hosted, got 'cloud'"),
        ("--cwsandbox-memory-limit=1", "a size of at least 64MiB, such as 1GiB, got '1'"),
        ("--cwsandbox-wall-limit=inf", "a number above 0, got 'inf'"),
        ("--cwsandbox-base-url=ftp://x", "https://host[[]:port], got 'ftp://x'"),
        ("--cwsandbox-problems=nowhere.jsonl", "nowhere.jsonl"),
        ("--cwsandbox-split=dev", "split*dev*"),
    ],
)
def test_a_bad_option_is_one_line_that_names_it(
    pytester: pytest.Pytester, option: str, message: str
) -> None:
    pytester.makepyfile("def test_plain(): pass")
    result = pytester.runpytest_subprocess("-n2", option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{message}*"])
    result.stderr.no_fnmatch_line("*Traceback*")


def test_an_ini_value_counts_like_its_option_and_is_named_in_errors(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(test_rates=THREE_OF_FOUR)
    pytester.makeini("[pytest]\ncwsandbox_min_pass_rate = 0.9\n")
    assert run().ret == 1
    assert run("--cwsandbox-min-pass-rate=0.5").ret == 0  # the command line wins
    pytester.makeini("[pytest]\ncwsandbox_retries = many\n")
    result = run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*retries*"])


LOW = """
def test_fails(record_reward):
    record_reward(0.0, detail="said by pytest")
    assert False

def test_passes(record_reward):
    record_reward(0.5, detail="said by us")

def test_lost(record_reward):
    record_reward(None)
"""


def test_low_rewards_are_those_that_pytest_does_not_say(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_low=LOW)
    result = pytester.runpytest_subprocess("-n0")
    result.stdout.fnmatch_lines(["low reward: *test_passes: 0.5 said by us"])
    result.stdout.no_fnmatch_line("low reward: *test_fails*")
    result.stdout.fnmatch_lines(["infra: *test_lost: the test recorded None"])
    gated = pytester.runpytest_subprocess("-n0", "--cwsandbox-min-pass-rate=0.1")
    gated.stdout.fnmatch_lines(["low reward: *test_fails: 0 said by pytest"])


def test_a_group_with_two_thresholds_is_named(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("-n0", "--cwsandbox-min-pass-rate=a=0.5,a=0.6")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--cwsandbox-min-pass-rate: a is named twice in 'a=0.5,a=0.6'"])
