"""What 10,000 samples cost: the report's time, memory and size, Chromium, the controller's CPU.

    python tests/benchmarks/report_scale.py [--problems 1000] [--samples 10] [--keep FOLDER]

The run is made up: completions of about 1 kB, trajectories of about 5 kB. The controller's CPU is
that of its process alone, over a run of as many items that call ``record_reward``, less that of the
same run without the plugin; with ``-n0`` the controller runs the tests as well. Exit code 1 where a
bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from pytest_cwsandbox.runs import journal
from tests.benchmarks import synthetic_run

REPORT = """
import json, resource, sys, time
from pathlib import Path
from pytest_cwsandbox.reports.html import write_report
began = time.perf_counter()
write_report(Path(sys.argv[1]))
used = resource.getrusage(resource.RUSAGE_SELF)
cpu = used.ru_utime + used.ru_stime
print(json.dumps([time.perf_counter() - began, cpu, used.ru_maxrss / 1024]))
"""
CONFTEST = """
import atexit, json, os, resource
import pytest

def pytest_configure(config):
    if hasattr(config, "workerinput"):
        return
    def tell():
        used = resource.getrusage(resource.RUSAGE_SELF)
        open("cpu.json", "w").write(json.dumps(used.ru_utime + used.ru_stime))
    atexit.register(tell)

if os.environ.get("PLAIN"):
    @pytest.fixture
    def record_reward():
        return lambda *args, **more: None
"""
TESTS = """
import pytest

@pytest.mark.parametrize("number", range({items}))
def test_item(number, record_reward):
    record_reward(float(number % 3 > 0), detail=f"case {{number}}", metadata={{"split": "test"}})
    assert True
"""


@dataclass(frozen=True, slots=True)
class Line:
    """A measured number, and the bar that it must stay under where there is one."""

    name: str
    value: float
    unit: str
    bar: float | None = None

    @property
    def missed(self) -> bool:
        return self.bar is not None and self.value > self.bar

    def __str__(self) -> str:
        bar = "" if self.bar is None else f"{self.bar:g} {self.unit}"
        verdict = "" if self.bar is None else "MISSED" if self.missed else "met"
        return f"{self.name:<48} {self.value:>9.2f} {self.unit:<4} {bar:>9}  {verdict}".rstrip()


def journal_lines(folder: Path) -> list[Line]:
    began = time.perf_counter()
    entries = journal.read(folder, print)
    read = time.perf_counter() - began
    began = time.perf_counter()
    journal.merge(folder, entries.values())
    merged = time.perf_counter() - began
    return [Line("journal: read", read, "s"), Line("journal: merge", merged, "s")]


def report_lines(folder: Path) -> list[Line]:
    done = subprocess.run(
        [sys.executable, "-c", REPORT, folder], capture_output=True, check=True, text=True
    )
    seconds, cpu, memory = json.loads(done.stdout)
    size = (folder / "report.html").stat().st_size / 1e6
    return [
        Line("report: written in", seconds, "s"),
        Line("report: CPU of the process", cpu, "s"),
        Line("report: peak memory of the process", memory, "MiB"),
        Line("report: size", size, "MB", 20),
    ]


def browser_lines(page_file: Path) -> list[Line]:
    """The best of three freshly started browsers: what else the machine does is not the page's."""
    tries = [_opened(page_file) for _ in range(3)]
    loaded, usable, searched, opened = map(min, zip(*tries, strict=True))
    return [
        Line("Chromium: DOM loaded", loaded, "s"),
        Line("Chromium: rows shown", usable, "s", 2),
        Line("Chromium: search answered", searched, "s"),
        Line("Chromium: sample opened", opened, "s"),
    ]


def _opened(page_file: Path) -> tuple[float, float, float, float]:
    """Seconds until the page is loaded, until it shows rows; of a search, and of a click."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page()
        began = time.perf_counter()
        page.goto(page_file.as_uri(), wait_until="domcontentloaded")
        loaded = time.perf_counter() - began
        page.locator("#samples tbody tr").nth(20).wait_for()
        usable = time.perf_counter() - began
        began = time.perf_counter()
        page.locator("#search").fill("timeout 77")
        # No function to wait for: the page's policy lets nobody evaluate one.
        page.locator("#count").filter(has_text=re.compile(r"^Filtered: [0-9]{1,3} of ")).wait_for()
        searched = time.perf_counter() - began
        began = time.perf_counter()
        page.locator("#samples tbody tr a").first.click()
        page.locator("dialog[open]").wait_for()
        opened = time.perf_counter() - began
        browser.close()
    return loaded, usable, searched, opened


def controller_cpu(items: int, *options: str, plain: bool) -> float:
    """CPU seconds of the controller of a run of so many items."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "conftest.py").write_text(CONFTEST)
        (folder / "test_items.py").write_text(TESTS.format(items=items))
        (folder / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope=function")
        environment = {k: v for k, v in os.environ.items() if not k.startswith("CWSANDBOX_")}
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *options, *["-p", "no:cwsandbox"] * plain],
            cwd=folder,
            env=environment | ({"PLAIN": "yes"} if plain else {}),
            stdout=subprocess.DEVNULL,
            check=True,
        )
        return float(json.loads((folder / "cpu.json").read_text()))


def controller_lines(items: int) -> list[Line]:
    found = []
    for options in (("-n2",), ("-n0",)):
        plain = controller_cpu(items, *options, plain=True)
        ours = controller_cpu(items, *options, plain=False)
        each = (ours - plain) / items * 1000
        found.append(Line(f"controller: CPU per sample, {options[0]}", each, "ms", 2))
        found.append(Line("    whole run without the plugin, with it +", ours - plain, "s"))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--keep", type=Path, help="make the run here and leave it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = options.keep or Path(name) / "20260101-000000-made-up"
        if not journal.exists(folder):
            synthetic_run.write(folder, problems=options.problems, samples=options.samples)
        items = options.problems * options.samples
        found = [
            *journal_lines(folder),
            *report_lines(folder),
            *browser_lines(folder / "report.html"),
            *controller_lines(items),
        ]
    print(f"{items:,} samples")  # noqa: T201 - what a benchmark is for
    print(*found, sep="\n")  # noqa: T201 - as above
    return int(any(line.missed for line in found))


if __name__ == "__main__":
    sys.exit(main())
