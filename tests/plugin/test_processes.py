"""How many processes `-n N` becomes, and how many tests each may have under way at once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

# Every process that runs tests says what it may do.
CONFTEST = """
from pathlib import Path

from pytest_cwsandbox.shares import SHARE

def pytest_collection_finish(session):
    worker = getattr(session.config, "workerinput", {"workerid": "main"})["workerid"]
    share = session.config.stash[SHARE]
    Path(worker).with_suffix(".share").write_text(f"{share.in_flight} of {share.processes}")
"""
CORES = len(os.sched_getaffinity(0))


@pytest.fixture(autouse=True)
def _suite(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.plugins = ["no:asyncio", "no:anyio", "no:cacheprovider"]  # of no use here
    pytester.makepyfile("def test_one(): pass\ndef test_two(): pass\ndef test_three(): pass")


def shares(folder: Path) -> dict[str, str]:
    return {file.stem: file.read_text() for file in folder.glob("*.share")}


def workers(count: int, share: str) -> dict[str, str]:
    return {f"gw{number}": share for number in range(count)}


HALVES = workers(2, "16 of 2")


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ((), {"main": "32 of 1"}),
        (("-n0",), {"main": "32 of 1"}),
        (("-p", "no:xdist"), {"main": "32 of 1"}),
        (("--cwsandbox-concurrency=5",), {"main": "5 of 1"}),
        (("-n3",), workers(3, "1 of 3")),
        (("-n3", "--cwsandbox-concurrency=7"), workers(3, "3 of 3")),
        (("-n3", "--cwsandbox-concurrency=1"), workers(3, "1 of 3")),
        (("--tx=2*popen", "--dist=load"), workers(2, "1 of 2")),
        (("--tx=2*popen", "--dist=load", "--cwsandbox-concurrency=8"), workers(2, "4 of 2")),
        (("--tx=2*popen", "-d", "--cwsandbox-processes=1"), workers(2, "1 of 2")),
        (("-n32", "--cwsandbox-processes=2"), HALVES),
        (("-n33", "--cwsandbox-processes=2"), workers(2, "17 of 2")),
        (("-n32", "--cwsandbox-processes=1"), {"main": "32 of 1"}),
        (("-n2", "--cwsandbox-processes=8"), workers(2, "1 of 2")),
        (("-n1", "--cwsandbox-processes=8"), {"main": "1 of 1"}),
        (("-n0", "--cwsandbox-processes=2"), {"main": "32 of 1"}),
        (("--cwsandbox-processes=2",), {"main": "32 of 1"}),
        (("-p", "no:xdist", "--cwsandbox-processes=2"), {"main": "32 of 1"}),
        (("-n32", "--maxprocesses=6", "--cwsandbox-processes=2"), workers(2, "3 of 2")),
        (("-n32", "--cwsandbox-processes=2", "--cwsandbox-concurrency=8"), workers(2, "4 of 2")),
        (("-n32", "--cwsandbox-processes=2", "--dist=worksteal"), HALVES),
        (("-n32", "--cwsandbox-processes=2", "--dist=loadscope"), HALVES),
        (("-n32", "--cwsandbox-processes=2", "--dist=loadfile"), HALVES),
        (("-n3", "--cwsandbox-processes=2", "--dist=each"), workers(3, "1 of 3")),
        (("-nauto", "--pdb", "--cwsandbox-processes=2"), {"main": "32 of 1"}),
    ],
    ids=lambda value: " ".join(value) or "nothing" if isinstance(value, tuple) else "",
)
def test_each_process_knows_its_share(
    pytester: pytest.Pytester, args: tuple[str, ...], expected: dict[str, str]
) -> None:
    pytester.runpytest_subprocess(*args).assert_outcomes(
        passed=3 * (len(expected) if "--dist=each" in args else 1)
    )
    assert shares(pytester.path) == expected


def test_auto_makes_a_process_per_core(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("-n6", "--cwsandbox-processes=auto")
    processes = min(CORES, 6)
    in_flight = -(-6 // processes)
    assert len(shares(pytester.path)) == processes
    assert set(shares(pytester.path).values()) == {f"{in_flight} of {processes}"}
    result.stdout.fnmatch_lines([f"cwsandbox: 6-way: {processes} process* x {in_flight} rollout*"])


def test_n_auto_asks_as_xdist_does(pytester: pytest.Pytester) -> None:
    (pytester.path / "conftest.py").write_text(
        f"{CONFTEST}\ndef pytest_xdist_auto_num_workers(config):\n    return 10\n"
    )
    pytester.runpytest_subprocess("-nauto", "--cwsandbox-processes=2").assert_outcomes(passed=3)
    assert shares(pytester.path) == workers(2, "5 of 2")


@pytest.mark.parametrize("place", ["environment", "ini addopts", "ini"])
def test_the_options_may_stand_anywhere(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    options = "-n32 --cwsandbox-processes=2"
    if place == "environment":
        monkeypatch.setenv("PYTEST_ADDOPTS", options)
    elif place == "ini addopts":
        pytester.makeini(f"[pytest]\naddopts = {options}")
    else:
        pytester.makeini("[pytest]\naddopts = -n32\ncwsandbox_processes = 2")
    pytester.runpytest_subprocess().assert_outcomes(passed=3)
    assert shares(pytester.path) == HALVES


def test_the_command_line_wins_over_the_ini_file(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ncwsandbox_processes = auto\ncwsandbox_concurrency = 4")
    args = ("-n32", "--cwsandbox-processes=2", "--cwsandbox-concurrency=6")
    pytester.runpytest_subprocess(*args).assert_outcomes(passed=3)
    assert shares(pytester.path) == workers(2, "3 of 2")


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (("-n32", "--cwsandbox-processes=2"), "32-way: 2 processes x 16 rollouts"),
        (("-n32", "--cwsandbox-processes=1"), "32-way: 1 process x 32 rollouts"),
        (("--cwsandbox-concurrency=8",), "8-way: 1 process x 8 rollouts"),
        (("-n3", "--cwsandbox-concurrency=2"), "3-way: 3 processes x 1 rollout"),
    ],
)
def test_the_header_says_what_was_asked_for(
    pytester: pytest.Pytester, args: tuple[str, ...], line: str
) -> None:
    pytester.runpytest_subprocess(*args).stdout.fnmatch_lines([f"cwsandbox: {line}"])


@pytest.mark.parametrize(
    "args", [(), ("-n2",), ("-n0", "--cwsandbox-processes=2"), ("-n32", "--collect-only")]
)
def test_the_header_is_silent_where_nothing_was_asked_for(
    pytester: pytest.Pytester, args: tuple[str, ...]
) -> None:
    pytester.runpytest_subprocess(*args).stdout.no_fnmatch_line("*-way:*")


@pytest.mark.parametrize("args", [("--cwsandbox-processes=two",), ("--cwsandbox-processes=0",)])
def test_nonsense_is_a_usage_error(pytester: pytest.Pytester, args: tuple[str, ...]) -> None:
    for more in ("-n2", "-n0"):
        result = pytester.runpytest_subprocess(more, *args)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(["ERROR: --cwsandbox-processes must be a whole number *"])


def test_pdb_stays_what_xdist_makes_of_it(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("-n32", "--pdb", "--cwsandbox-processes=1")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --pdb is incompatible with distributing tests*"])
