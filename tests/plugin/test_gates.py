"""The gates through pytest's own door: thresholds, groups, baselines and exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., pytest.RunResult]

INCONCLUSIVE = 75

# Two groups: three of four and two of four samples pass, unless the variable lets them fail.
TWO_GROUPS = """
import os
import pytest

BROKEN = int(os.environ.get("BROKEN", 0))

@pytest.mark.parametrize("number", range(4))
def test_a(number, record_reward):
    record_reward(1.0 if number > BROKEN else 0.0)

@pytest.mark.parametrize("number", range(4))
def test_b(number, record_reward):
    record_reward(1.0 if number > 1 + BROKEN else 0.0)
"""


def test_each_gate_gets_its_line_and_one_that_is_missed_fails_the_run(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(test_rates=TWO_GROUPS)
    result = run(
        "--cwsandbox-min-pass-rate=0.6,test_rates/test_a=0.7,test_rates/test_b=0.6",
        "--cwsandbox-min-pass-rate-lower=0.3",
    )
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "pass rate gate: 5 of 8 samples passed (62.50%, at least 60.00% asked for): met",
            "pass rate gate of test_rates/test_a: 3 of 4 samples passed (75.00%, *): met",
            "pass rate gate of test_rates/test_b: 2 of 4 samples passed (50.00%, *): MISSED",
            "lower end gate: 5 of 8 samples passed (95% interval from 30.57%, *): met",
        ]
    )


NO_THRESHOLDS = ("-1", "1.5", "abc", "nan", "g=2", "=0.5", "0.5,", "")


@pytest.mark.parametrize("option", ["min-pass-rate", "min-pass-rate-lower"])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        *((bad, " must be a number from 0 to 1, or GROUP=") for bad in NO_THRESHOLDS),
        ("g=0.1,g=0.2", ": g is named twice in 'g=0.1,g=0.2'"),
        ("0.5,0.6", ": a number for all samples is there twice in '0.5,0.6'"),
    ],
)
def test_a_bad_threshold_is_a_usage_error_before_anything_runs(
    pytester: pytest.Pytester, option: str, value: str, message: str
) -> None:
    pytester.makepyfile("def test_plain(): print('it ran')")
    result = pytester.runpytest_inprocess("-s", "-p", "no:xdist", f"--cwsandbox-{option}={value}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*--cwsandbox-{option}{message}*"])
    result.stdout.no_fnmatch_line("*it ran*")


@pytest.mark.parametrize("option", ["max-infra-rate", "alpha"])
def test_a_bad_share_is_a_usage_error(pytester: pytest.Pytester, option: str) -> None:
    pytester.makepyfile("def test_plain(): pass")
    result = pytester.runpytest_inprocess("-p", "no:xdist", f"--cwsandbox-{option}=1.5")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*--cwsandbox-{option} must be a number *, got '1.5'"])


def test_an_unknown_group_is_a_usage_error_that_lists_those_there_are(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(test_rates=TWO_GROUPS)
    result = run("--cwsandbox-min-pass-rate=test_rates/test_c=0.5")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    groups = "its groups are test_rates/test_a, test_rates/test_b"
    said = [line for line in result.stderr.lines if line.startswith("ERROR")]
    assert said == [
        f'ERROR: --cwsandbox-min-pass-rate: this run has no group "test_rates/test_c": {groups}'
    ]
    output = result.stdout.str()
    assert "Traceback" not in output + result.stderr.str()
    assert "gate" not in output
    assert " passed" not in output


def test_no_worker_outlives_the_usage_error(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_rates=TWO_GROUPS)
    pytester.makeconftest(
        """
        import os, pathlib

        def pytest_configure(config):
            if hasattr(config, "workerinput"):
                worker = config.workerinput["workerid"]
                pathlib.Path(f"{worker}.pid").write_text(str(os.getpid()))
        """
    )
    result = pytester.runpytest_subprocess("-n2", "--cwsandbox-min-pass-rate=x=0.5")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    pids = [int(file.read_text()) for file in pytester.path.glob("gw*.pid")]
    assert len(pids) == 2
    assert not [pid for pid in pids if _lives(pid)]


def _lives(pid: int) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)  # noqa: PLW1510 - fails where there is none
    return bool(state.stdout.strip()) and not state.stdout.startswith("Z")


def test_a_group_that_only_the_ini_file_names_may_be_missing(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(test_rates=TWO_GROUPS)
    pytester.makeini(
        "[pytest]\ncwsandbox_min_pass_rate = test_rates/test_b=0.5,test_rates/test_c=1\n"
    )
    result = run()
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "pass rate gate of test_rates/test_b: *: met",
            "pass rate gate of test_rates/test_c: not in this run: not judged",
        ]
    )


def test_a_group_that_is_known_only_when_its_test_runs_can_be_named(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(
        test_late="def test_it(request): request.getfixturevalue('record_reward')(1.0)"
    )
    result = run("--cwsandbox-min-pass-rate=test_late/test_it=1")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["pass rate gate of test_late/test_it: 1 of 1 *: met"])


def test_a_file_that_cannot_be_collected_is_said_and_not_its_missing_group(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(test_rates=TWO_GROUPS, test_broken="import nowhere_to_be_found")
    result = run("--cwsandbox-min-pass-rate=test_broken/test_it=0.5")
    result.stdout.fnmatch_lines(["*No module named 'nowhere_to_be_found'*"])
    result.stderr.no_fnmatch_line("*has no group*")


@pytest.mark.parametrize("value", ["0.6", "1", '"0.6"', '"0.2,test_rates/test_a=0.9"'])
def test_toml_takes_numbers_and_text(pytester: pytest.Pytester, value: str) -> None:
    pytester.makepyfile(test_rates=TWO_GROUPS)
    (pytester.path / "pytest.toml").write_text(f"[pytest]\ncwsandbox_min_pass_rate = {value}\n")
    result = pytester.runpytest_subprocess("-n0")
    assert result.ret == (0 if value.strip('"') == "0.6" else 1)
    result.stdout.fnmatch_lines(["pass rate gate*"])


def test_a_run_that_was_cut_short_is_not_judged(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        test_rates=TWO_GROUPS,
        test_stops="""
        import pytest

        @pytest.mark.xdist_group("last")
        def test_stop(record_reward, request):
            record_reward(1.0)
            request.session.shouldstop = "enough"
        """,
    )
    result = run("--cwsandbox-min-pass-rate=0.9")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["gates: the run was cut short: not judged"])
    result.stdout.no_fnmatch_line("*MISSED")


def test_a_run_that_is_significantly_worse_than_its_baseline_fails_and_says_where(
    pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_rates=TWO_GROUPS.replace("range(4)", "range(20)"))
    run("--cwsandbox-min-pass-rate=0")
    _write_baseline(pytester.path)
    same = run("--cwsandbox-baseline=evals/baseline.json")
    assert same.ret == 0
    same.stdout.fnmatch_lines(
        [
            "compared: 40 samples in both",
            "baseline gate: 37 of 40 samples passed before, 37 now (p 1, *): met",
        ]
    )
    monkeypatch.setenv("BROKEN", "6")
    worse = run("--cwsandbox-baseline=evals/baseline.json")
    assert worse.ret == 1
    worse.stdout.fnmatch_lines(
        [
            "regressed: test_rates.py::test_a[[]1]: 1/1 -> 0/1",
            "regressed: and 2 more",
            # Of 12 that differ all are worse: 1 in 2 ** 12.
            "baseline gate: 37 of 40 samples passed before, 25 now (p 0.00024, *): MISSED",
        ]
    )
    worse.stdout.fnmatch_lines(["*40 passed*"])  # samples below full reward are data
    assert run("--cwsandbox-baseline=evals/baseline.json", "--cwsandbox-alpha=0.0001").ret == 0


def test_the_summary_names_every_problem_that_flipped(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_rates=TWO_GROUPS.replace("range(4)", "range(20)"))
    pytester.runpytest_subprocess("-n0", "--cwsandbox-min-pass-rate=0")
    _write_baseline(pytester.path)
    monkeypatch.setenv("BROKEN", "6")
    pytester.runpytest_subprocess("-n0", "--cwsandbox-baseline=evals/baseline.json")
    folder = max(
        (pytester.path / ".cwsandbox/runs").iterdir(), key=lambda path: path.stat().st_mtime
    )
    comparison = json.loads((folder / "summary.json").read_text())["comparison"]
    assert len(comparison["regressed"]) == 12
    assert comparison["all"]["rate_after"] == 25 / 40


def test_a_sample_that_was_lost_is_no_regression(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(test_rates=TWO_GROUPS)
    run("--cwsandbox-min-pass-rate=0")
    _write_baseline(pytester.path)
    pytester.makepyfile(test_rates=TWO_GROUPS.replace("else 0.0", "else None"))
    result = run("--cwsandbox-baseline=evals/baseline.json")
    assert result.ret == INCONCLUSIVE
    result.stdout.fnmatch_lines(
        [
            "compared: 5 samples in both; 3 lost to infrastructure",
            "infrastructure: 3 of 8 items lost *: INCONCLUSIVE",
            "baseline gate: 5 of 5 samples passed before, 5 now *: met",
        ]
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file or directory; write one with"),
        ("{", "no baseline, not valid JSON*write one with"),
        ("[]", "no baseline, it has no*write one with"),
        ('{"kind": "pytest-cwsandbox baseline", "schema": 99}', "schema 99*: upgrade it"),
        (
            '{"kind": "pytest-cwsandbox baseline", "schema": 1, "groups": {"g": {"x": 1}}}',
            'sample "x" must have a problem and a number as its reward; write one with',
        ),
    ],
    ids=["missing", "cut off", "foreign", "newer", "row"],
)
def test_a_baseline_that_cannot_be_used_is_a_usage_error(
    pytester: pytest.Pytester, content: str | None, message: str
) -> None:
    pytester.makepyfile("def test_plain(): pass")
    if content is not None:
        (pytester.path / "baseline.json").write_text(content)
    result = pytester.runpytest_subprocess("-n2", "--cwsandbox-baseline=baseline.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --cwsandbox-baseline: *baseline.json: {message}*"])


def test_an_empty_baseline_turns_that_of_the_ini_file_off(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_rates=TWO_GROUPS)
    pytester.makeini("[pytest]\ncwsandbox_baseline = evals/baseline.json\n")
    assert pytester.runpytest_subprocess("-n0").ret == pytest.ExitCode.USAGE_ERROR
    assert pytester.runpytest_subprocess("-n0", "--cwsandbox-baseline=").ret == 0


def _write_baseline(folder: Path) -> None:
    command = [sys.executable, "-m", "pytest_cwsandbox", "baseline", "latest"]
    subprocess.run([*command, "-o", "evals/baseline.json"], cwd=folder, check=True)
