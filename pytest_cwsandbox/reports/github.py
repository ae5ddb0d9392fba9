"""The run's table in the summary of a GitHub Actions step."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_cwsandbox.reports import validation
from pytest_cwsandbox.reports.comparison import name_of
from pytest_cwsandbox.reports.html.verdict import word_of
from pytest_cwsandbox.reports.models import models_of
from pytest_cwsandbox.runs.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_cwsandbox.findings import Finding
    from pytest_cwsandbox.outcome import SampleRecord
    from pytest_cwsandbox.runs.comparison import Flip
    from pytest_cwsandbox.runs.statistics import GroupSummary
    from pytest_cwsandbox.runs.summary import Summary

VARIABLE = "GITHUB_STEP_SUMMARY"
LIMIT = 1 << 20  # bytes of a step's summary; GitHub shows nothing of one that is larger
CUT = "\nThe rest was cut off: GitHub takes 1 MiB per step. All of it is in the run's folder.\n"
FOLDED, FOLDED_END = "<details>", "\n</details>\n"
LISTED = 200  # samples below full reward
FLIPS = 50  # problems that got worse, or better

# In Markdown a numeric entity is never markup: not a table's edge, a list or emphasis.
_MARKUP = re.compile(r"[!-/:-@\[-`{-~]")
# Addresses become links, and names mentions, of decoded text too: a comment takes them apart.
_LINKED = re.compile(r"(?i:www)(?=\.)|(?i:mailto|xmpp|https?|ftp)(?=:)|@|:(?=/)")
_APART = "<!-- -->"
_HEADER = ("group", "passed", "rate", "95% interval", "mean reward", "infra", "p50 s")


def step_summary(
    environ: Mapping[str, str],
    summary: Summary,
    records: Sequence[SampleRecord],
    findings: Sequence[Finding],
    *,
    folder: Path,
    reward: str = "",
    exit_status: int | None = None,
) -> None:
    """Append the run as Markdown to the file that ``GITHUB_STEP_SUMMARY`` names, if it does.

    ``reward`` names the reward function that the findings are of; ``exit_status`` is how the run
    ends, where that is known. Raises ``OSError`` where the file
    cannot be written.
    """
    if not environ.get(VARIABLE) or not (records or findings or summary.gates):
        return
    text = "\n".join(_document(summary, records, findings, folder, reward, exit_status)) + "\n"
    with Path(environ[VARIABLE]).open("ab") as file:
        before = file.tell()
        file.write(_fitting(("\n" if before else "") + text, LIMIT - before))


def _fitting(text: str, room: int) -> bytes:
    """As many whole lines as there is room for, with a note where some are missing."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= room:
        return encoded
    note = (FOLDED_END + CUT).encode()
    kept = encoded[: max(0, room - len(note))]
    kept = kept[: kept.rfind(b"\n") + 1]
    if not kept:
        return b""
    return kept + (note if FOLDED.encode() in kept else CUT.encode())


def _document(
    summary: Summary,
    records: Sequence[SampleRecord],
    findings: Sequence[Finding],
    folder: Path,
    reward: str,
    exit_status: int | None,
) -> Iterator[str]:
    if records or summary.gates:
        yield from _headline(summary, records, exit_status)
    if records:
        yield from _rates(summary.groups, summary.pooled)
        if summary.by:
            yield ""
            yield from _rates(summary.by, None)
    if summary.gates:
        yield ""
        yield from (f"- {_gate(line)}" for line in summary.gates)
    if summary.comparison:
        yield from _flips("Regressed", summary.comparison.regressed)
        yield from _flips("Improved", summary.comparison.improved)
    if findings:
        _, line = validation.verdict(reward, findings)
        yield f"\n### Reward validation\n\n{plain(line)}"
    report = folder / "report.html"
    what = report if report.exists() else folder
    if what.is_relative_to(Path.cwd()):
        what = what.relative_to(Path.cwd())
    yield f"\nResults: <code>{html.escape(str(what))}</code>"
    if low := [record for record in records if record.reward is not None and record.reward < 1]:
        yield from _low(low)


def _headline(
    summary: Summary, records: Sequence[SampleRecord], exit_status: int | None
) -> Iterator[str]:
    """The verdict in the words of the page, the pass rate, and the model."""
    _, word = word_of(summary.gates, failed=summary.checks.failed, status=exit_status)
    yield f"### {plain(word)}\n"
    pooled = summary.pooled
    said = []
    if pooled.pass_rate is not None:
        said.append(f"{pooled.pass_rate:.1%} passed ({pooled.passed} of {pooled.samples} samples)")
    if models := models_of(records):
        said.append(f"model {plain(models)}")
    if said:
        yield f"{', '.join(said)}\n"


def _flips(title: str, flips: Sequence[Flip]) -> Iterator[str]:
    if not flips:
        return
    yield f"\n**{title}: {len(flips)} {'problem' if len(flips) == 1 else 'problems'}**\n"
    for flip in flips[:FLIPS]:
        yield f"- {plain(name_of(flip))}: {flip.before}/{flip.pairs} → {flip.after}/{flip.pairs}"
    if len(flips) > FLIPS:
        yield f"- and {len(flips) - FLIPS} more"


def _rates(groups: Sequence[GroupSummary], pooled: GroupSummary | None) -> Iterator[str]:
    yield _row(_HEADER)
    yield _row(["---", *["---:"] * (len(_HEADER) - 1)])
    for group in groups:
        yield _row(_cells(group))
    if pooled is not None and len(groups) > 1:
        yield _row([f"**{cell}**" for cell in _cells(pooled)])


def _cells(of: GroupSummary) -> list[str]:
    return [
        plain(of.group),
        f"{of.passed}/{of.samples}",
        "-" if of.pass_rate is None else f"{of.pass_rate:.1%}",
        "-" if of.interval is None else f"{of.interval[0]:.1%}..{of.interval[1]:.1%}",
        "-" if of.mean_reward is None else f"{of.mean_reward:.3f}",
        str(of.infrastructure_errors or "-"),
        "-" if of.p50_seconds is None else f"{of.p50_seconds:.2f}",
    ]


def _gate(line: str) -> str:
    """A gate's line, with its last word in bold."""
    what, colon, word = line.rpartition(": ")
    return f"{plain(what)}{colon}**{plain(word)}**" if colon else plain(line)


def _low(records: Sequence[SampleRecord]) -> Iterator[str]:
    some = "1 sample" if len(records) == 1 else f"{len(records)} samples"
    yield f"\n{FOLDED}<summary>{some} below full reward</summary>\n"
    yield _row(["sample", "reward", "verdict", "detail"])
    yield _row(["---", "---:", "---", "---"])
    for record in records[:LISTED]:
        cells = [record.id, f"{record.reward:g}", record.verdict, record.detail]
        yield _row([plain(cell) for cell in cells])
    if len(records) > LISTED:
        yield f"\nand {len(records) - LISTED} more"
    yield FOLDED_END.rstrip()


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def plain(text: str) -> str:
    """The text on one line, without secrets, as Markdown that means nothing but this text."""
    line = "".join(letter if letter.isprintable() else " " for letter in redact(text))
    parted = _LINKED.sub("\\g<0>\0", " ".join(line.split()))
    return _MARKUP.sub(lambda match: f"&#{ord(match[0])};", parted).replace("\0", _APART)
