"""`pytest-cwsandbox report`: the page and the table of a run, also of one that crashed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from pytest_cwsandbox.cli import main
from pytest_cwsandbox.outcome import SampleRecord
from pytest_cwsandbox.runs import journal, plan, summary
from pytest_cwsandbox.runs.journal import Entry
from pytest_cwsandbox.runs.plan import Planned

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
    assert (ended / "report.html").exists()


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
    assert "warning: the run did not end: 8 of 12 samples were recorded" in done.stderr
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
