"""Progress where the output is no terminal: plain lines between those of pytest."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.reports.progress import Tally, duration

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., pytest.RunResult]

LINE = re.compile(r"cwsandbox: \d+/\d+ samples, pass rate .*")

# Every sample's end is worth a line, however quick.
AT_ONCE = """
from pytest_cwsandbox.reports import progress

progress.LINE_SECONDS = 0.0
"""


@pytest.fixture
def samples(pytester: pytest.Pytester) -> None:
    """Two that pass, one of low reward, one lost to infrastructure, and a check."""
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("reward", [1.0, 1.0, 0.0, None])
        def test_sample(record_reward, reward):
            record_reward(reward)

        def test_check():
            pass
        """
    )


def shown(result: pytest.RunResult) -> list[str]:
    return [line for line in result.outlines if "samples, pass rate" in line]


@pytest.mark.usefixtures("samples")
@pytest.mark.parametrize("verbosity", [(), ("-v",), ("-q",)])
def test_a_line_says_what_is_done_and_leaves_the_others_as_they_are(
    run: Run, pytester: pytest.Pytester, verbosity: tuple[str, ...]
) -> None:
    pytester.makeconftest(AT_ONCE)
    result = run(*verbosity)
    lines = shown(result)
    assert len(lines) == 4
    assert lines[-1] == "cwsandbox: 4/4 samples, pass rate 66.7%, infra 1"
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    others = "\n".join(line for line in result.outlines if line not in lines)
    if "-v" in verbosity:
        assert others.count("PASSED") == 5
    else:
        dots = re.findall(r"^(?:\S+\.py )?(\.+) *(?:\[100%\])?$", others, re.MULTILINE)
        assert "".join(dots) == "....."


@pytest.mark.usefixtures("samples")
@pytest.mark.parametrize(
    ("args", "conftest", "lines"),
    [
        ((), "", 0),
        (("--cwsandbox-progress=on", "-qq"), "", 1),
        (("--cwsandbox-progress=off",), AT_ONCE, 0),
        (("-qq",), AT_ONCE, 0),
    ],
    ids=["a short run", "at once where it is on", "off", "very quiet"],
)
def test_lines_are_for_long_runs_and_for_who_wants_them(
    pytester: pytest.Pytester, args: tuple[str, ...], conftest: str, lines: int
) -> None:
    pytester.makeconftest(conftest)
    assert len(shown(pytester.runpytest_subprocess("-p", "no:xdist", *args))) == lines


def test_a_run_without_samples_has_no_progress(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_check(): pass")
    assert shown(run("--cwsandbox-progress=on")) == []


def test_a_sample_that_runs_again_is_counted_once(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        AT_ONCE
        + """
import pytest
from _pytest.runner import runtestprotocol

attempts = []

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    for _ in range(2):
        attempts.append(item)
        item._initrequest()
        runtestprotocol(item, nextitem=nextitem)
    return True
"""
    )
    pytester.makepyfile(
        """
        from conftest import attempts

        def test_sample(record_reward):
            record_reward(len(attempts) - 1)
        """
    )
    assert shown(run()) == [
        "cwsandbox: 1/1 samples, pass rate 0.0%, infra 0",
        "cwsandbox: 1/1 samples, pass rate 100.0%, infra 0",
    ]


def test_a_sample_whose_worker_died_is_lost(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(AT_ONCE)
    pytester.makepyfile(
        """
        import os

        def test_sample(record_reward):
            os._exit(1)
        """
    )
    result = pytester.runpytest_subprocess("-n1")
    assert shown(result) == ["cwsandbox: 1/1 samples, pass rate -, infra 1"]


@pytest.mark.usefixtures("samples")
def test_no_line_costs_the_import_of_the_sdk(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        AT_ONCE
        + """
import sys

def pytest_unconfigure(config):
    if not hasattr(config, "workerinput"):
        print("the SDK is", "there" if "cwsandbox" in sys.modules else "not there")
"""
    )
    run().stdout.fnmatch_lines("the SDK is not there")


def test_the_time_left_follows_from_what_was_run_and_not_replayed() -> None:
    tally = Tally([f"test_{number}" for number in range(20)], started=100.0)
    assert "ETA" not in tally.line(110.0)
    for number in range(10):
        tally.results[f"test_{number}"] = "passed"
    tally.replayed = {"test_0", "test_1", "test_2", "test_3", "test_4"}
    assert tally.line(110.0, 3) == (
        "cwsandbox: 10/20 samples, pass rate 100.0%, infra 0, sandboxes 3, ETA 20s"
    )
    assert "sandboxes" not in tally.line(110.0, 0)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "0s"), (59.6, "1m00s"), (125, "2m05s"), (3725, "1h02m")]
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text
