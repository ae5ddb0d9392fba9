"""`pytest-cwsandbox report`: the page and the table of a run, also of one that crashed."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from pytest_cwsandbox.cli import main
from pytest_cwsandbox.outcome import SampleRecord
from pytest_cwsandbox.runs import journal, plan, summary
from pytest_cwsandbox.runs.journal import Entry
from pytest_cwsandbox.runs.plan import Planned
from tests.reports.terminals import Terminal

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result


def report(*args: str | Path) -> Result:
    """Run the command in a terminal of 80 columns."""
    return CliRunner().invoke(main, ["report", *map(str, args)], env={"COLUMNS": "80"})


@pytest.fixture
def crashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of twelve planned samples of which eight were recorded: one process, no end."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ".cwsandbox" / "runs" / "20260101-000000-abcdef"
    names = [(f"p{n}", sample) for n in range(6) for sample in range(2)]
    planned = [
        Planned(f"test_x.py::test_agent[{problem}-{sample}]", "toy/agent", problem, sample)
        for problem, sample in names
    ]
    plan.write(folder, planned, problems={}, tasks={})
    for number, each in enumerate(planned[:8]):
        record = SampleRecord(
            each.id,
            each.group,
            each.problem,
            each.sample,
            float(number % 2),
            verdict="passed" if number % 2 else "timeout",
            metadata={"split": "train" if number < 4 else "test"},
        )
        journal.append(folder, "gw0", Entry(record, "ended", ending="passed"))
    return folder


@pytest.fixture
def ended(crashed: Path) -> Path:
    """The same run, had it ended after its eight samples, with a gate and pass@2 asked for."""
    entries = journal.read(crashed, print)
    journal.merge(crashed, entries.values())
    records = [entry.record for entry in entries.values()]
    numbers = summary.summarise_run(crashed.name, records, keys=["split"], ks=[2])
    summary.write(crashed, numbers)
    return crashed


def test_the_page_is_written_and_the_table_printed(ended: Path) -> None:
    done = report(ended)

    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[1].split()[:3] == ["toy/agent", "4/8", "50.0%"]
    assert done.stdout.splitlines()[-1] == f"report: {ended / 'report.html'}"
    assert "toy/agent" in (ended / "report.html").read_text()
    assert not done.stderr


@pytest.mark.parametrize("name", ["latest", "20260101-000000-abcdef"])
def test_a_run_is_found_by_its_id_and_as_the_latest(ended: Path, name: str) -> None:
    assert report(name).exit_code == 0
    assert (ended / "report.html").exists()


def test_the_page_goes_where_it_is_asked_for(ended: Path, tmp_path: Path) -> None:
    target = tmp_path / "new" / "page.html"

    done = report(ended, "-o", target)

    assert done.stdout.splitlines()[-1] == f"report: {target}"
    assert target.exists()
    assert not (ended / "report.html").exists()


def test_a_file_of_samples_is_reported_beside_it(ended: Path) -> None:
    done = report(ended / "samples.jsonl")

    assert done.exit_code == 0, done.output
    assert (ended / "samples.jsonl.html").exists()


def test_the_page_of_one_worker_leaves_that_of_the_run(ended: Path) -> None:
    (ended / "report.html").write_text("of the whole run")

    done = report(ended / "samples-gw0.jsonl")

    assert done.stdout.splitlines()[-1] == f"report: {ended / 'samples-gw0.jsonl.html'}"
    assert (ended / "report.html").read_text() == "of the whole run"


def test_rates_are_grouped_as_the_run_had_them_unless_asked_otherwise(ended: Path) -> None:
    as_it_was, other = report(ended), report(ended, "--group-by", "split,model", "--pass-k", "1")

    assert "by split:" in as_it_was.stdout
    assert "pass@2" in as_it_was.stdout
    assert "no sample has model" in other.stdout
    assert "pass@1" in other.stdout
    assert "pass@2" not in other.stdout
    assert "pass@1" in (ended / "report.html").read_text()


def test_a_crashed_run_is_reported_as_far_as_it_got(crashed: Path) -> None:
    done = report(crashed)

    assert done.exit_code == 0, done.output
    assert "warning: the run did not end: 8 of 12 samples were recorded; " in done.stderr
    assert "continue it with --cwsandbox-resume=20260101-000000-abcdef" in done.stderr
    assert "did not end" in (crashed / "report.html").read_text()


def test_a_line_that_was_cut_off_is_said(crashed: Path) -> None:
    with (crashed / "samples-gw0.jsonl").open("a") as file:
        file.write('{"schema": 1, "id": "test_x')

    done = report(crashed)

    assert done.exit_code == 0, done.output
    assert "samples-gw0.jsonl:9: skipped the last line" in done.stderr


def test_what_cannot_be_read_is_named_on_one_line(crashed: Path) -> None:
    (crashed / "samples-gw1.jsonl").write_text('{"schema": 99}\n')

    unknown, foreign = report("no-such-run"), report(crashed)

    assert (unknown.exit_code, foreign.exit_code) == (2, 2)
    assert unknown.stderr.startswith("Error: no-such-run: no such file or folder")
    assert "samples-gw1.jsonl:1: schema 99" in foreign.stderr
    assert len(foreign.stderr.splitlines()) == 1


@pytest.mark.parametrize("bad", [("--pass-k", "0"), ("--pass-k", "one"), ("--group-by", "a,,b")])
def test_a_bad_option_is_a_usage_error(ended: Path, bad: tuple[str, str]) -> None:
    done = report(ended, *bad)

    assert done.exit_code == 2
    assert bad[0].removeprefix("--") in done.stderr


def test_a_page_that_cannot_be_written_is_said(ended: Path) -> None:
    (ended / "file").write_text("")

    done = report(ended, "-o", ended / "file" / "page.html")

    assert done.exit_code == 2
    assert "cannot be written" in done.stderr


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b'{"run": "x", "gro',
        b"[]",
        b"{}",
        b"\xff",
        b'{"all": 3, "by": []}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_summary_is_said_and_computed_again(ended: Path, damaged: bytes) -> None:
    (ended / "summary.json").write_bytes(damaged)

    done = report(ended)

    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[1].split()[:3] == ["toy/agent", "4/8", "50.0%"]
    assert f"warning: {ended / 'summary.json'}: " in done.stderr
    assert "the rates are computed again" in done.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gates", [1]),
        ("checks", {"passed": "many", "failed": 0}),
        ("by", {"keys": [[]]}),
        ("all", {"samples": 8, "infrastructure_errors": 0, "pass_at": {"one": 1.0}}),
        ("all", {"samples": 8, "infrastructure_errors": 0, "pass_at": {"9" * 5000: 1.0}}),
        ("comparison", {"before": "x"}),
        ("retries", None),
    ],
)
def test_a_summary_with_foreign_fields_is_left_out(ended: Path, name: str, value: object) -> None:
    told = json.loads((ended / "summary.json").read_text())
    (ended / "summary.json").write_text(json.dumps({**told, name: value}))

    done = report(ended)

    assert done.exit_code == 0, done.output
    assert "no summary of a run, or one of another version" in done.stderr


@pytest.mark.parametrize(
    ("file", "row"),
    [
        ("findings.jsonl", {"check": "gold"}),
        ("findings.jsonl", {"check": "gold", "name": [], "status": "bad", "exploits": []}),
        ("findings.jsonl", {"schema": 1}),
        ("plan.jsonl", {"id": [], "group": "g", "problem": "p", "sample": 0}),
        ("problems.jsonl", {"id": "p", "task_id": "p", "prompt": 5, "test_list": []}),
        ("problems.jsonl", {"id": "p", "task_id": "p", "prompt": "", "test_list": "assert"}),
    ],
)
def test_a_foreign_row_is_named_on_one_line(ended: Path, file: str, row: dict[str, object]) -> None:
    (ended / file).write_text(json.dumps(row) + "\n")

    done = report(ended)

    assert done.exit_code == 2
    assert done.stderr.startswith(f"Error: {ended / file}:1: no ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("file", ["findings.jsonl", "plan.jsonl", "problems.jsonl"])
def test_a_last_line_that_was_cut_off_is_said_of_every_file(ended: Path, file: str) -> None:
    with (ended / file).open("a") as stream:
        stream.write('{"id": "te')

    done = report(ended)

    assert done.exit_code == 0, done.output
    assert f"warning: {ended / file}:" in done.stderr
    assert "cut off" in done.stderr


@pytest.mark.parametrize("content", ['{"schema": 99, "image": "foreign"}', "[]", '{"schema"', ""])
def test_a_run_json_of_another_form_is_said_and_left_out(ended: Path, content: str) -> None:
    (ended / "run.json").write_text(content)

    done = report(ended)

    assert done.exit_code == 0, done.output
    assert f"warning: {ended / 'run.json'}: " in done.stderr
    assert "left out" in done.stderr
    assert "foreign" not in (ended / "report.html").read_text()


HOSTILE = "\x1b]0;x\x07\x1b[2J\x7f\x9b31m\u202e\u2066\u200b\r\n\ud800 [/hard]"


def hostile(folder: Path, *rewards: float) -> Path:
    """A run of samples whose every text a model may have written."""
    for number, reward in enumerate(rewards):
        record = SampleRecord(
            f"test_x.py::test_a[{HOSTILE}{number}]",
            f"group{number} {HOSTILE}",
            f"problem {HOSTILE}",
            number,
            reward,
            verdict=HOSTILE,
            detail=HOSTILE,
            metadata={HOSTILE: HOSTILE, "model": HOSTILE},
        )
        journal.append(folder, "main", Entry(record, "ended", ending="passed"))
    return folder


def plain(output: str) -> bool:
    """Whether a terminal would do nothing but show it."""
    return all(line.isprintable() for line in output.split("\n"))


def test_what_models_wrote_is_printed_as_text(tmp_path: Path) -> None:
    keys = ",".join(["model", HOSTILE, f"none {HOSTILE}"])

    done = report(hostile(tmp_path / "run", 0.0, 1.0), "--group-by", keys)

    assert done.exit_code == 0, done.output
    assert "\\x1b]0;x" in done.stdout
    assert plain(done.stdout)
    assert plain(done.stderr)


def test_two_hostile_runs_are_compared_as_text(tmp_path: Path) -> None:
    before, after = hostile(tmp_path / "a", 0.0, 1.0), hostile(tmp_path / "b", 1.0, 0.0)

    done = CliRunner().invoke(main, ["compare", str(before), str(after)], env={"COLUMNS": "200"})

    assert done.exit_code == 0, done.output
    table, flips = done.stdout.partition("regressed: ")[::2]
    assert "group0 \\x1b]0;x\\x07" in table
    assert "\\ud800 [/hard]" in table
    assert "improved: group0 \\x1b" in flips
    assert plain(done.stdout)


COLOURS = [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]


@pytest.mark.parametrize(("environ", "colored"), COLOURS)
@pytest.mark.parametrize("command", ["report", "compare"])
def test_colours_are_for_terminals_that_want_them(
    ended: Path,
    command: str,
    environ: dict[str, str],
    colored: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    unset = {"NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLORTERM"}
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in unset and not name.startswith("CWSANDBOX_")
    }
    runs = [str(ended)] * (2 if command == "compare" else 1)
    line = [sys.executable, "-m", "pytest_cwsandbox", command, *runs]

    with Terminal(line, ended, {**kept, "TERM": "xterm", **environ}) as terminal:
        assert terminal.wait_for_end() == 0, terminal.lines

    assert (b"\x1b[" in terminal.output) is colored, terminal.output
