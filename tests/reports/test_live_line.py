"""The live line in a real terminal: it is there, disturbs nothing, and gives its row back."""

from __future__ import annotations

import os
import re
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from tests.plugin.conftest import DISTRIBUTIONS
from tests.reports.terminals import Terminal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NOTHING: Mapping[str, str] = {}

# Its fifth item waits until the test that watches has seen enough.
WAITING = """
import time
from pathlib import Path

import pytest

def wait():
    while not Path("go").exists():
        time.sleep(0.01)

@pytest.mark.parametrize("number", range(8))
def test_sample(record_reward, number):
    print("number", number)
    if number == 4:
        wait()
    record_reward(float(number % 4 > 0))
"""

SLOW_TO_STOP = """
import time
from pathlib import Path

import pytest

@pytest.fixture(scope="session", autouse=True)
def slow_to_stop():
    yield
    while not Path("go").exists():
        time.sleep(0.01)
"""


def open_terminal(
    folder: Path,
    *args: str,
    columns: int = 100,
    rows: int = 20,
    variables: Mapping[str, str] = NOTHING,
) -> Terminal:
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("CWSANDBOX_", "PYTEST_"))
    }
    environ = {**inherited, "TERM": "xterm", "PYTHONWARNINGS": "ignore", **variables}
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"):
        if name not in variables:
            environ.pop(name, None)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *args]
    return Terminal(command, folder, environ, columns=columns, rows=rows)


def go(folder: Path) -> None:
    (folder / "go").touch()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "test_waiting.py").write_text(WAITING)
    return tmp_path


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("verbosity", [(), ("-v", "-s")])
def test_the_last_row_tells_how_far_the_run_is_and_is_free_at_the_end(
    folder: Path, distribution: str, verbosity: tuple[str, ...]
) -> None:
    with open_terminal(folder, *DISTRIBUTIONS[distribution], *verbosity) as terminal:
        # Two workers share the items, so how many come before the one that waits is open.
        terminal.wait_for(
            lambda: bool(
                re.fullmatch(
                    r" cwsandbox: [4-7]/8 samples, pass rate \d+.\d%, infra 0, ETA \d+s",
                    terminal.bottom,
                )
            )
        )
        assert terminal.region == (0, 18)
        go(folder)
        assert terminal.wait_for_end() == 0
        assert terminal.region is None
        printed = "\n".join(terminal.lines)
    assert "samples, pass rate" not in printed
    if verbosity:
        assert printed.count("PASSED") == 8
    else:
        assert re.search(r"^(test_waiting.py )?\.{8} +\[100%\]$", printed, re.MULTILINE)
    assert re.search(r"^=+ 8 passed in .* =+$", printed, re.MULTILINE)


def test_nothing_that_scrolls_by_is_lost(tmp_path: Path) -> None:
    (tmp_path / "test_much.py").write_text(
        """
import pytest

@pytest.mark.parametrize("number", range(50))
def test_sample(record_reward, number):
    record_reward(1.0)
"""
    )
    with open_terminal(tmp_path, "-v", "-p", "no:xdist", rows=10) as terminal:
        assert terminal.wait_for_end() == 0
        named = [line for line in terminal.lines if line.startswith("test_much.py::")]
    assert [re.sub(r" +\[.*", "", line) for line in named] == [
        f"test_much.py::test_sample[{number}] PASSED" for number in range(50)
    ]


def test_ctrl_c_gives_the_row_back(folder: Path) -> None:
    with open_terminal(folder, "-p", "no:xdist") as terminal:
        terminal.wait_for(lambda: "4/8" in terminal.bottom)
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.wait_for_end() == pytest.ExitCode.INTERRUPTED
        assert terminal.region is None
        assert "samples, pass rate" not in "\n".join(terminal.lines)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_after_ctrl_c_the_line_says_that_the_run_is_stopping(
    folder: Path, distribution: str
) -> None:
    (folder / "conftest.py").write_text(SLOW_TO_STOP)
    with open_terminal(folder, *DISTRIBUTIONS[distribution]) as terminal:
        terminal.wait_for(lambda: bool(re.search("[4-7]/8", terminal.bottom)))
        terminal.process.send_signal(signal.SIGINT)
        terminal.wait_for(lambda: terminal.bottom.endswith(", stopping"))
        go(folder)
        assert terminal.wait_for_end() == pytest.ExitCode.INTERRUPTED
        assert terminal.region is None
        assert "stopping" not in "\n".join(terminal.lines)


def test_pytest_exit_gives_the_row_back(folder: Path) -> None:
    (folder / "test_waiting.py").write_text(
        WAITING.replace("        wait()", "        wait(); pytest.exit('enough', 7)")
    )
    with open_terminal(folder, "-p", "no:xdist") as terminal:
        terminal.wait_for(lambda: "4/8" in terminal.bottom)
        go(folder)
        assert terminal.wait_for_end() == 7
        assert terminal.region is None


@pytest.mark.parametrize("way_in", ["breakpoint()", "assert False"])
def test_a_debugger_has_the_terminal_to_itself_and_then_the_line_is_back(
    folder: Path, way_in: str
) -> None:
    (folder / "test_waiting.py").write_text(
        WAITING.replace(
            "    if number == 4:",
            f"    if number == 2:\n        time.sleep(0.5); {way_in}\n    if number == 4:",
        )
    )
    with open_terminal(folder, "-p", "no:xdist", "--pdb") as terminal:
        terminal.wait_for(lambda: "2/8" in terminal.bottom)
        terminal.wait_for(lambda: terminal.typing_at("(Pdb)"))
        assert terminal.region is None
        assert "samples, pass rate" not in "\n".join(terminal.lines)
        terminal.type("c\n")
        terminal.wait_for(lambda: "4/8" in terminal.bottom)
        go(folder)
        terminal.wait_for_end()
        assert terminal.region is None


def test_the_line_follows_the_size_of_the_terminal(folder: Path) -> None:
    with open_terminal(folder, "-p", "no:xdist") as terminal:
        terminal.wait_for(lambda: "4/8" in terminal.bottom)
        for rows in (30, 12):
            terminal.resize(60, rows)
            terminal.wait_for(
                lambda rows=rows: (  # type: ignore[misc]  # the loop's value, kept
                    terminal.region == (0, rows - 2) and "4/8" in terminal.bottom
                )
            )
        go(folder)
        assert terminal.wait_for_end() == 0
        assert terminal.region is None


def test_a_narrow_terminal_gets_what_fits(folder: Path) -> None:
    with open_terminal(folder, "-p", "no:xdist", columns=40) as terminal:
        terminal.wait_for(lambda: "4/8" in terminal.bottom)
        assert terminal.bottom == " cwsandbox: 4/8 samples, pass rate 75.0"
        go(folder)
        assert terminal.wait_for_end() == 0


def test_no_colour_is_used_where_none_is_wanted(folder: Path) -> None:
    with open_terminal(folder, "-p", "no:xdist", variables={"NO_COLOR": "1"}) as terminal:
        terminal.wait_for(lambda: "4/8" in terminal.bottom)
        go(folder)
        assert terminal.wait_for_end() == 0
        assert re.findall(rb"\x1b\[\d*m", terminal.output) == []


@pytest.mark.parametrize(
    ("args", "variables"),
    [
        ((), {"TERM": "dumb"}),
        (("--cwsandbox-progress=off",), {}),
        (("-qq",), {}),
        (("--collect-only",), {}),
        (("-k", "check"), {}),
    ],
    ids=["dumb terminal", "off", "very quiet", "nothing runs", "no samples"],
)
def test_no_row_is_taken_where_there_is_nothing_to_show(
    folder: Path, args: tuple[str, ...], variables: dict[str, str]
) -> None:
    (folder / "test_check.py").write_text("def test_check(): pass")
    go(folder)
    with open_terminal(folder, "-p", "no:xdist", *args, variables=variables) as terminal:
        assert terminal.wait_for_end() == 0
        assert b"\x1b7" not in terminal.output


def test_running_sandboxes_are_counted(tmp_path: Path) -> None:
    (tmp_path / "test_sandbox.py").write_text(
        """
import time
from pathlib import Path

def test_sample(sandbox, record_reward):
    while not Path("go").exists():
        time.sleep(0.01)
    record_reward(1.0)
"""
    )
    with open_terminal(tmp_path, "-n1") as terminal:
        terminal.wait_for(lambda: "infra 0, sandboxes 1" in terminal.bottom)
        go(tmp_path)
        assert terminal.wait_for_end() == 0
