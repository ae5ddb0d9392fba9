"""Runs of the mixed suite, and all that can be seen of one, put so that two can be compared."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from tests.concurrency import observer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# The frames of pytest and plugins, which only exception groups are shown with.
TIMED_OUT = re.compile(r"Timeout .* from pytest-timeout")
STACKS = re.compile(r"\+ Timeout \+|~ Stack of ")  # of whatever threads there were
FRAMES = re.compile(r'(?m)^(?:  )*\|   File "(?!FOLDER).*\n(?:(?:  )*\|     .*\n)*')
# What two runs of the same tests may differ in: times, addresses, processes, folders.
# Why tests run in order may be said, and where there is nothing to run ahead is not.
LEFT_OUT = {"seconds", "worker", "last_cache_date_str", "notices"}
PROCESS = re.compile(r"\[gw\d+\] linux -- Python \S+ \S+\s*")  # xdist's first line of an error
NAMES = re.compile(r"0x[0-9a-f]+|Task-\d+|popen-gw\d+|\bgw\d+|(?<=/)tmp-\d+")
WIDE = "wide/"  # whose fixtures begin and end where the items happen to run
Seen = dict[str, Any]


@dataclass(frozen=True)
class Observed:
    """A run of pytest: ``seen`` is what to compare, ``most`` pauses were under way at once."""

    exit_code: int
    output: str
    seen: Seen
    most: int


def write(place: Path, files: Mapping[str, str]) -> Path:
    """A project, whose folder always has the same name: keywords of tests hold it."""
    folder = place / "project"
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    shutil.copy(observer.__file__, folder)
    return folder


def run(folder: Path, *args: str) -> Observed:
    """Run pytest on the project in ``folder``; raises ``AssertionError`` where it broke down."""
    out = folder / "observed"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    (folder / "run.log").unlink(missing_ok=True)
    dropped = ("CWSANDBOX_", "PYTEST_", "GITHUB_", "COV_")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
    environment[observer.FOLDER] = str(out)
    environment["PYTHONHASHSEED"] = "0"  # in which order an assertion tells what differs
    command = [sys.executable, "-m", "pytest", "-p", "observer", f"--basetemp={folder}/tmp"]
    command += [f"--junitxml={out}/junit.xml", f"--cwsandbox-report-dir={out}/runs", *args]
    ended = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    output = ended.stdout + ended.stderr
    assert (out / "seen.json").exists(), output
    assert "INTERNALERROR" not in output, output
    seen = json.loads((out / "seen.json").read_text())
    for reports in seen["items"].values():
        for report in reports:
            report["told"] = json.loads(report["told"] or "{}")
            if "from pytest-timeout" in report["error"]:  # wherever the test was at that moment
                [report["error"], *_] = TIMED_OUT.findall(report["error"])
            report["sections"] = [row for row in report["sections"] if not STACKS.search(row[1])]
    log = folder / "run.log"
    seen |= {
        "exit code": ended.returncode,
        "junit": _junit((out / "junit.xml").read_text()),
        # What was done of tests that had no turn is kept too, for a run that continues this one.
        "samples": [row for row in _samples(out / "runs") if row["id"] in seen["items"]],
        "last failed": _cached(folder, "lastfailed"),
        "stepwise": _cached(folder, "stepwise"),
        "log file": log.read_text().splitlines() if log.exists() else [],
    }
    seen = _comparable(seen, str(folder))
    most = max((int(file.read_text()) for file in out.glob("most-*")), default=0)
    return Observed(ended.returncode, output, seen, most)


def assert_same(one: Seen, other: Seen) -> None:
    found = differences(one, other)
    assert not found, "\n".join(["run in order, and ahead:", *found])


def differences(one: Seen, other: Seen) -> list[str]:
    """What is not the same in two runs, a line each."""
    found = []
    for key in sorted({*one, *other}):
        if isinstance(one.get(key), dict) and isinstance(other.get(key), dict):
            found += [f"{key}: {line}" for line in differences(one[key], other[key])]
        elif one.get(key) != other.get(key):
            found.append(f"{key}:\n  {_first(one.get(key), other.get(key))}")
    return found


def scattered(seen: Seen) -> Seen:
    """Without what no two runs on several processes have in common: order, ends of wide fixtures.

    Left out as well are the log file, which each process overwrites, and how far items got in a
    process that crashed.
    """
    kept = {"exit code": seen["exit code"]}
    kept["warnings"] = {name: texts for name, texts in seen["warnings"].items() if name}
    kept["items"] = {name: _narrow(name, reports) for name, reports in seen["items"].items()}
    kept["junit"] = sorted(row for row in seen["junit"] if not row[0].startswith("wide"))
    kept["samples"] = sorted(seen["samples"], key=lambda sample: str(sample["id"]))
    kept["last failed"] = {
        name: failed for name, failed in seen["last failed"].items() if not name.startswith(WIDE)
    }
    return kept


def _narrow(name: str, reports: list[Seen]) -> list[Seen]:
    again = [report["told"].get("status") == "requeued" for report in reports]
    reports = reports[len(again) - again[::-1].index(True) :] if any(again) else reports
    crashes = [report for report in reports if report["when"] == "???"]
    if crashes or not name.startswith(WIDE):
        return crashes or reports
    return [
        report
        | {
            "sections": [row for row in report["sections"] if row[0].endswith("call")],
            "told": None,
        }
        for report in reports
        if report["when"] != "teardown"
    ]


def _first(one: object, other: object) -> str:
    """Where two values begin to differ, in a few words."""
    if isinstance(one, list) and isinstance(other, list):
        for number, (left, right) in enumerate(zip(one, other, strict=False)):
            if left != right:
                return f"[{number}] {_first(left, right)}"
        return f"{len(one)} or {len(other)}, more: {(one + other)[min(len(one), len(other))]!r}"
    if isinstance(one, dict) and isinstance(other, dict):
        return "; ".join(differences(one, other))
    texts = repr(one), repr(other)
    pairs = enumerate(zip(*texts, strict=False))
    at = next((at for at, (left, right) in pairs if left != right), min(map(len, texts)))
    return "\n  ".join(f"{text[max(at - 200, 0) : at]}>>>{text[at : at + 400]}" for text in texts)


def _comparable(value: Any, folder: str) -> Any:
    if isinstance(value, dict):
        return {k: _comparable(v, folder) for k, v in value.items() if k not in LEFT_OUT}
    if isinstance(value, list):
        return [_comparable(part, folder) for part in value]
    if isinstance(value, str):
        text = FRAMES.sub("", value.replace(folder, "FOLDER"))
        return NAMES.sub("NAME", PROCESS.sub("", text)).strip()
    return value


def _told(text: str) -> str:
    """Of a test that took too long, that it did; not where it, and every thread, was then."""
    if timed_out := TIMED_OUT.search(text):
        return timed_out[0]
    return "" if STACKS.search(text) else text


def _junit(text: str) -> list[list[str]]:
    rows = []
    for case in ET.fromstring(text).iter("testcase"):  # noqa: S314 - our own run wrote it
        row = [case.get("classname", ""), case.get("name", "")]
        for part in case.iter():
            row += [part.tag, _told(part.text or "")]
            row += [f"{k}={v}" for k, v in sorted(part.items()) if k != "time"]
        rows.append(row)
    return rows


def _samples(runs: Path) -> list[Seen]:
    return [
        json.loads(line)
        for file in runs.glob("*/samples.jsonl")
        for line in file.read_text().splitlines()
    ]


def _cached(folder: Path, name: str) -> Any:
    file = folder / ".pytest_cache/v/cache" / name
    return json.loads(file.read_text()) if file.exists() else {}
