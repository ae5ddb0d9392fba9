"""Running ahead changes nothing but the time: the mixed suite, with it off and on."""

from __future__ import annotations

import functools
import importlib.util
from typing import TYPE_CHECKING

import pytest

from tests.concurrency import mixed_suite
from tests.concurrency.observed import Observed, assert_same, run, scattered, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    Start = Callable[..., Observed]

OFF = "--cwsandbox-concurrency=1"
ON = "--cwsandbox-concurrency=8"
ON_TWO = "--cwsandbox-concurrency=16"
MODES = {
    "auto": ("--asyncio-mode=auto",),
    "strict": ("--asyncio-mode=strict",),
    "no asyncio": ("-p", "no:asyncio"),
}
ONE = {"one process": ("-n0",), "no xdist": ("-p", "no:xdist")}
TWO = {"load": ("-n2",), "worksteal": ("-n2", "--dist=worksteal")}
OTHERS = ("pytest_randomly", "pytest_rerunfailures", "pytest_timeout")
INSTALLED = [name for name in OTHERS if importlib.util.find_spec(name)]
QUIET = ("-p", "no:randomly") if "pytest_randomly" in INSTALLED else ()
with_others = pytest.mark.skipif(
    list(OTHERS) != INSTALLED, reason=f"needs {', '.join(OTHERS)} installed"
)


@pytest.fixture(scope="module")
def in_order(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Observed]:
    """What one process sees that runs the suite in order, in a mode of pytest-asyncio."""

    @functools.cache
    def observe(mode: str) -> Observed:
        folder = write(tmp_path_factory.mktemp("in-order"), mixed_suite.MIXED)
        return run(folder, OFF, "-n0", *MODES[mode], *QUIET)

    return observe


@pytest.mark.parametrize(
    ("mode", "processes"), [*((mode, "one process") for mode in MODES), ("auto", "no xdist")]
)
def test_one_process_reports_the_same_in_the_same_order(
    tmp_path: Path, in_order: Callable[[str], Observed], mode: str, processes: str
) -> None:
    folder = write(tmp_path, mixed_suite.MIXED)
    ahead = run(folder, ON, *ONE[processes], *MODES[mode], *QUIET)
    assert in_order(mode).most < ahead.most
    assert_same(in_order(mode).seen, ahead.seen)


@pytest.mark.parametrize(
    ("mode", "processes"),
    [("auto", "load"), ("strict", "worksteal"), ("no asyncio", "load"), ("auto", "worksteal")],
)
def test_two_processes_report_the_same(
    tmp_path: Path, in_order: Callable[[str], Observed], mode: str, processes: str
) -> None:
    folder = write(tmp_path, mixed_suite.MIXED)
    ahead = run(folder, ON_TWO, *TWO[processes], *MODES[mode], *QUIET)
    assert in_order(mode).most < ahead.most
    assert_same(scattered(in_order(mode).seen), scattered(ahead.seen))


SELECTIONS: dict[str, Sequence[Sequence[str]]] = {
    "-x": [("-x",)],
    "--maxfail": [("--maxfail=3", "test_outcomes.py", "test_output.py")],
    "-k": [("-k", "prints or plain or wide or settings")],
    "--lf": [("test_output.py",), ("--lf",)],
    "--sw": [("--sw", "test_outcomes.py"), ("--sw", "test_outcomes.py")],
    "--sw-skip": [("--sw", "--sw-skip", "test_output.py"), ("--sw", "test_output.py")],
}


@pytest.mark.parametrize("selection", SELECTIONS)
def test_a_choice_of_tests_stays_the_same(tmp_path: Path, selection: str) -> None:
    in_order, ahead = (
        [run(folder, concurrency, "-n0", *QUIET, *args).seen for args in SELECTIONS[selection]]
        for folder, concurrency in _both(tmp_path, mixed_suite.MIXED)
    )
    for one, other in zip(in_order, ahead, strict=True):
        assert_same(one, other)


def test_leaving_pytest_from_a_coroutine_ends_the_run_at_its_turn(tmp_path: Path) -> None:
    files = {**mixed_suite.BASE, "test_stops.py": mixed_suite.STOPS}
    in_order, ahead = (
        run(folder, concurrency, "-n0", *QUIET).seen
        for folder, concurrency in _both(tmp_path, files)
    )
    assert in_order["exit code"] == 9
    assert_same(in_order, ahead)


@pytest.mark.parametrize("processes", TWO)
def test_a_crash_costs_the_item_that_crashes_alone(tmp_path: Path, processes: str) -> None:
    files = {**mixed_suite.BASE, "test_crash.py": mixed_suite.CRASH}
    in_order, ahead = (
        scattered(run(folder, concurrency, *TWO[processes], *QUIET).seen)
        for folder, concurrency in _both(tmp_path, files, ON_TWO)
    )
    assert_same(in_order, ahead)


@with_others
@pytest.mark.parametrize("processes", [*ONE, *TWO])
def test_other_plugins_see_the_same(tmp_path: Path, processes: str) -> None:
    """Tests in random order, failures run again, and a time limit for each.

    In two processes the order, and where a test is run again, would decide which one ends a wide
    fixture, and so fails by it.
    """
    two = processes in TWO
    order = ("-p", "no:randomly", "--ignore=wide") if two else ("--randomly-seed=7",)
    others = (*order, "--reruns=1", "--timeout=60")
    in_order, ahead = (
        run(folder, concurrency, *distribution, *others)
        for (folder, concurrency), distribution in zip(
            _both(tmp_path, mixed_suite.MIXED, ON_TWO if two else ON),
            [("-n0",), (ONE | TWO)[processes]],
            strict=True,
        )
    )
    assert in_order.most < ahead.most
    seen = in_order.seen, ahead.seen
    assert_same(*map(scattered, seen)) if two else assert_same(*seen)


def _both(place: Path, files: Mapping[str, str], on: str = ON) -> Iterator[tuple[Path, str]]:
    """The same project twice, each with the option that it is to be run with."""
    for concurrency in (OFF, on):
        yield write(place / concurrency, files), concurrency
