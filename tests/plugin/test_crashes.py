"""A worker that dies while it runs ahead takes nobody with it but the item that killed it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

if TYPE_CHECKING:
    from pathlib import Path

AHEAD = ("-n8", "--cwsandbox-processes=2")
COUNT = 60
INCONCLUSIVE = 75

# Item 17 kills its process, and where it would run ahead as early as a coroutine that runs ahead:
# while an item is called that comes some places before it.
CONFTEST = """
import os
from itertools import islice

import pytest

from pytest_cwsandbox.shares import SHARE
from pytest_cwsandbox.upcoming import Upcoming

KILLER = os.environ.get("KILLER", "test_item[17]")

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    under_way = item.config.stash[SHARE].in_flight - 1
    following = islice(Upcoming(item.session).after(item, nextitem), under_way)
    item.kills = KILLER in [item.name, *(each.name for each in following)]

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    if item.kills:
        os._exit(3)
"""
CHECKS = f"""
import pytest

@pytest.mark.parametrize("n", range({COUNT}))
def test_item(n):
    assert n != 40
"""
SAMPLES = f"""
import pytest

@pytest.mark.parametrize("n", range({COUNT}))
def test_item(n, record_reward):
    record_reward(n % 2)
"""


@pytest.fixture(autouse=True)
def _suite(pytester: pytest.Pytester) -> None:
    pytester.plugins = ["no:asyncio", "no:anyio"]
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_it=CHECKS)


@pytest.mark.parametrize("dist", ["load", "worksteal"])
def test_the_item_that_killed_its_process_is_the_one_that_fails(
    pytester: pytest.Pytester, dist: str
) -> None:
    result = pytester.runpytest_subprocess(*AHEAD, f"--dist={dist}", "--junitxml=junit.xml")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=COUNT - 2, failed=2)
    result.stdout.fnmatch_lines_random(
        [
            "FAILED test_it.py::test_item[[]17[]] - worker * crashed while running *",
            "FAILED test_it.py::test_item[[]40[]] - *",
            "cwsandbox: worker gw? died with up to 4 tests under way: *ran again, one at a time",
        ]
    )
    cases = ET.parse(pytester.path / "junit.xml").iter("testcase")  # noqa: S314 - our own
    names = sorted(case.get("name", "") for case in cases)
    assert len(names) == COUNT
    last_failed = json.loads(
        (pytester.path / ".pytest_cache" / "v" / "cache" / "lastfailed").read_text()
    )
    assert set(last_failed) == {"test_it.py::test_item[17]", "test_it.py::test_item[40]"}


def test_a_worker_that_dies_alone_costs_no_other_run_ahead(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess(*AHEAD)
    # One that ran ahead, and its replacement: the suspects went to nobody else.
    assert str(result.stdout).count("node down") == 2
    assert "gw4" not in str(result.stdout)


def test_an_innocent_run_ends_as_if_nothing_had_happened(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that dies once, and of nothing that an item does, is no failure of an item."""
    (pytester.path / "conftest.py").write_text(
        CONFTEST.replace(
            "if item.kills", "if item.kills and item.config.stash[SHARE].in_flight > 1"
        )
    )
    monkeypatch.setenv("KILLER", "test_item[30]")
    args = (*AHEAD, "-x", "--deselect=test_it.py::test_item[40]")
    result = pytester.runpytest_subprocess(*args)
    assert result.ret == 0
    result.assert_outcomes(passed=COUNT - 1, deselected=0)


def test_a_sample_that_kills_its_process_is_the_only_one_lost(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=SAMPLES)
    result = pytester.runpytest_subprocess(*AHEAD, "--cwsandbox-min-pass-rate=0.1")
    assert result.ret == INCONCLUSIVE
    [lost] = [row for row in rows(pytester.path) if row["state"] == "lost"]
    assert lost["id"] == "test_it.py::test_item[17]"
    assert len(rows(pytester.path)) == COUNT


def rows(folder: Path) -> list[dict[str, object]]:
    [merged] = folder.glob(".cwsandbox/runs/*/samples.jsonl")
    return [json.loads(line) for line in merged.read_text().splitlines()]


def test_without_a_replacement_the_crash_is_reported_as_xdist_does(
    pytester: pytest.Pytester,
) -> None:
    result = pytester.runpytest_subprocess(*AHEAD, "--max-worker-restart=0")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["*crashed while running*", "*worker gw? crashed and worker restarting disabled*"]
    )
    result.stdout.no_fnmatch_line("*ran again*")


def test_workers_that_run_in_order_crash_as_they_do_today(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("-n2")
    result.assert_outcomes(passed=COUNT - 2, failed=2)
    result.stdout.no_fnmatch_line("*ran again*")
    assert str(result.stdout).count("node down") == 1


def test_an_item_whose_outcome_is_known_is_not_run_twice(pytester: pytest.Pytester) -> None:
    (pytester.path / "conftest.py").write_text(
        CONFTEST.replace("runtest_call", "runtest_teardown").replace(
            ".in_flight - 1", ".in_flight * 0"
        )
    )
    result = pytester.runpytest_subprocess(*AHEAD)
    # As without running ahead: it passed, then its teardown killed the process.
    result.assert_outcomes(passed=COUNT - 1, failed=2)


def test_a_test_that_leaves_pytest_has_not_killed_its_process(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("")
    pytester.makepyfile(
        test_it=CHECKS.replace("assert n != 40", "if n == 17: pytest.exit('enough')")
    )
    result = pytester.runpytest_subprocess(*AHEAD)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.no_fnmatch_line("*ran again*")


# As pytest-rerunfailures does with a crash.
RERUNS = """
crashes = []

def pytest_handlecrashitem(crashitem, report, sched):
    crashes.append(crashitem)
    if len(crashes) == 1:
        sched.mark_test_pending(crashitem)
        report.outcome = "rerun"
"""


def test_an_item_that_a_plugin_runs_again_is_not_run_twice(pytester: pytest.Pytester) -> None:
    (pytester.path / "conftest.py").write_text(CONFTEST + RERUNS)
    result = pytester.runpytest_subprocess(*AHEAD)
    result.assert_outcomes(passed=COUNT - 2, failed=2)
