"""The run in the summary of a GitHub Actions step."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.findings import Finding
from pytest_cwsandbox.outcome import SampleRecord
from pytest_cwsandbox.reports import github
from pytest_cwsandbox.runs.comparison import compare
from pytest_cwsandbox.runs.summary import summarise_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., pytest.RunResult]

HOSTILE = "a|b `code` <script>alert(1)</script> [x](https://e.vil) *bold* @all #1 $x$ ~y~\n# title"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "summary.md"
    monkeypatch.setenv(github.VARIABLE, str(file))
    return file


def rows(text: str) -> list[list[str]]:
    """The cells of all tables; an entity is text and no edge."""
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|") and not line.startswith("| ---")
    ]


def shown(text: str) -> str:
    """What a reader sees of the text."""
    return html.unescape(text.replace("<!-- -->", ""))


def write(file: Path, records: list[SampleRecord], *, findings: tuple[Finding, ...] = ()) -> str:
    github.step_summary(
        {github.VARIABLE: str(file)},
        summarise_run("run", records),
        records,
        findings,
        folder=file.parent / "run",
        reward="rewards:good",
    )
    return file.read_text()


def test_a_run_adds_its_table_and_its_verdict(
    run: Run, pytester: pytest.Pytester, file: Path
) -> None:
    file.write_text("of an earlier command\n")
    pytester.makepyfile(
        test_some="""
        import pytest

        @pytest.mark.parametrize("reward", [1.0, 1.0, 0.5, None])
        def test_sample(record_reward, reward):
            record_reward(reward, detail="half done" if reward == 0.5 else "")
            assert reward == 1

        def test_other(record_reward):
            record_reward(1.0, metadata={"model": "m-1"})
        """
    )
    run("--cwsandbox-min-pass-rate=0.9", "--cwsandbox-max-infra-rate=0.5")
    text = file.read_text()
    assert shown(text).startswith(
        "of an earlier command\n\n### Gate missed\n\n75.0% passed (3 of 4 samples), model m-1\n"
    )
    header, other, sample, pooled, low_header, low = rows(shown(text))
    assert header == ["group", "passed", "rate", "95% interval", "mean reward", "infra", "p50 s"]
    assert other[:3] == ["test_some/test_other", "1/1", "100.0%"]
    assert sample[:3] == ["test_some/test_sample", "2/3", "66.7%"]
    assert re.fullmatch(r"\d+\.\d%\.\.\d+\.\d%", sample[3])
    assert sample[4:6] == ["0.833", "1"]
    assert pooled[:3] == ["**all**", "**3/4**", "**75.0%**"]
    assert re.search(r"^- pass rate gate.* \*\*MISSED\*\*$", text, re.MULTILINE)
    assert re.search(r"^- infrastructure.* \*\*tolerated\*\*$", text, re.MULTILINE)
    assert "<details><summary>1 sample below full reward</summary>" in text
    assert low_header == ["sample", "reward", "verdict", "detail"]
    assert low[1:] == ["0.5", "", "half done"]
    assert re.search(r"^Results: <code>\.cwsandbox/runs/[^<]+</code>$", text, re.MULTILINE)


def test_a_run_of_checks_adds_nothing(run: Run, pytester: pytest.Pytester, file: Path) -> None:
    pytester.makepyfile("def test_check(): pass")
    run()
    assert not file.exists()


def test_a_summary_that_cannot_be_written_is_said_and_fails_nothing(
    run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(github.VARIABLE, str(pytester.path))
    pytester.makepyfile("def test_sample(record_reward): record_reward(1.0)")
    result = run()
    result.assert_outcomes(passed=1)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        f"cwsandbox: GITHUB_STEP_SUMMARY: {pytester.path} cannot be written: Is a directory"
    )


def test_a_report_that_fails_costs_no_verdict(
    run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(github.VARIABLE, str(pytester.path / "summary.md"))
    pytester.makeconftest(
        """
        from pytest_cwsandbox.reports import github, html

        def broken(*args, **options):
            raise ZeroDivisionError("a bug")

        html.write_report = github.step_summary = broken
        """
    )
    pytester.makepyfile("def test_sample(record_reward): record_reward(1.0)")
    result = run("--cwsandbox-min-pass-rate=0.9")
    assert result.ret == 0
    remedy = "ZeroDivisionError: a bug; please report it; `pytest-cwsandbox report` shows it again"
    result.stdout.fnmatch_lines(
        [
            "pass rate gate: * met",
            f"cwsandbox: report.html could not be written: {remedy}",
            f"cwsandbox: GITHUB_STEP_SUMMARY: nothing could be written: {remedy}",
        ]
    )


def test_what_a_model_wrote_stays_text(file: Path) -> None:
    record = SampleRecord(
        HOSTILE, HOSTILE, "p", 0, 0.0, verdict="wrong_answer", detail=HOSTILE + "\x00\ud800"
    )
    text = write(file, [record])
    _, group, _, low = rows(text)
    assert len(group) == 7
    assert len(low) == 4
    for cell in (group[0], low[0], low[3]):
        markup = re.sub(r"&#\d+;|<!-- -->", "", cell)
        assert re.findall(r"[`<>\[\]*@#$~|:\\!&]", markup) == []

    assert re.findall(r"<(\w+)", text) == ["code", "details", "summary"]


@pytest.mark.parametrize(
    "address",
    [
        "www.e.vil",
        "WWW.e.vil",
        "name@e.vil",
        "mailto:name@e.vil",
        "xmpp:name@e.vil/x",
        "https://e.vil",
        "git://e.vil",
        "@everybody",
    ],
)
def test_no_address_becomes_a_link(address: str) -> None:
    text = github.plain(f"see {address} there")
    assert shown(text) == f"see {address} there"
    linked = re.compile(r"www\.|@\w|:/|(mailto|xmpp|https?):", re.IGNORECASE)
    assert not linked.search(html.unescape(text))


@pytest.mark.parametrize("start", ["1. ", "2) ", "+ ", "- ", "* ", "# ", "> ", "__x__ ", "_x_ "])
def test_what_begins_a_block_or_emphasis_is_text(start: str) -> None:
    text = github.plain(f"{start}gate")
    assert shown(text) == f"{start}gate"
    assert not re.search(r"[^\w \d&#;]|_", text)


def test_a_validation_adds_its_verdict(file: Path) -> None:
    bad = Finding("gold", "p", "bad", 0, 1, "the reference got 0.0")
    text = write(file, [], findings=(bad,))
    assert "### Reward validation\n\nNOT READY: rewards:good failed 1 gold" in shown(text)
    assert "passed (" not in text


def test_problems_that_got_worse_are_named_with_their_group(file: Path) -> None:
    before = [
        SampleRecord(f"t.py::test_{test}[add-{n}]", f"toy/test_{test}", "add", n, 1.0)
        for test in "ab"
        for n in range(2)
    ]
    after = [replace(each, reward=float(each.group == "toy/test_b")) for each in before]
    compared = compare(before, after, names=("baseline.json", "run"))
    gate = "baseline gate: 4 of 4 samples passed before, 2 now: MISSED"
    told = replace(summarise_run("run", after), comparison=compared, gates=(gate,))
    github.step_summary({github.VARIABLE: str(file)}, told, after, (), folder=file.parent)

    text = file.read_text()
    assert text.startswith("### Gate missed\n")
    assert "**Regressed: 1 problem**\n\n- toy/test_a add: 2/2 → 0/2\n" in shown(text)
    assert "Improved" not in text


@pytest.mark.parametrize(
    ("line", "status", "word"),
    [
        ("pass rate gate: 1 of 1 samples passed: met", 0, "Gates met"),
        ("infrastructure: 1 of 2 items lost: INCONCLUSIVE", 75, "Inconclusive"),
        ("gates: the run was cut short: not judged", 2, "The run was cut short"),
    ],
)
def test_the_headline_is_the_verdict_of_the_page(
    file: Path, line: str, status: int, word: str
) -> None:
    record = SampleRecord("t.py::test[a]", "toy/test", "a", 0, 1.0)
    told = replace(summarise_run("run", [record]), gates=(line,))
    github.step_summary(
        {github.VARIABLE: str(file)}, told, [record], (), folder=file.parent, exit_status=status
    )

    assert file.read_text().startswith(f"### {word}\n")


def test_a_summary_is_cut_where_github_takes_no_more(file: Path) -> None:
    records = [
        SampleRecord(f"test[{number}]", f"group {number}", "p", 0, 0.0, detail="x" * 400)
        for number in range(300)
    ]
    before = "y" * (github.LIMIT - 50_000) + "\n"
    file.write_text(before)
    text = write(file, records)[len(before) :]
    assert len(before) + len(text.encode()) <= github.LIMIT
    assert text.endswith(github.CUT)
    assert text.count("<details>") == text.count("</details>") == 1
    assert all(len(row) in {4, 7} for row in rows(text))
    full = file.read_text()
    assert write(file, records)[:100] == full[:100]
    assert file.stat().st_size <= github.LIMIT
