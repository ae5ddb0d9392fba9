"""The sections that a test run ends with, on the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_cwsandbox.reports import comparison, terminal, validation
from pytest_cwsandbox.reports.columns import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from pytest_cwsandbox.findings import Finding
    from pytest_cwsandbox.outcome import SampleRecord
    from pytest_cwsandbox.runs.comparison import Comparison
    from pytest_cwsandbox.runs.summary import Summary

BAD = ("MISSED", "INCONCLUSIVE", "not judged")


def rates(
    say: pytest.TerminalReporter,
    summary: Summary,
    records: Sequence[SampleRecord],
    folder: Path,
    *,
    unsaid: Sequence[SampleRecord],
    replayed: int,
    page: Path | None,
) -> None:
    """Rates and what explains them; ``unsaid`` are samples that pytest does not list as failed."""
    say.section("cwsandbox pass rates" if records else "cwsandbox gates")
    if not records:
        return
    width = say._tw.fullwidth  # noqa: SLF001 - pytest offers the width of its terminal nowhere else
    for text, style in terminal.tables(summary, records, width=width, color=say.hasmarkup):
        say.write_line(text, **{style: True} if style else {})
    if counted := terminal.verdicts(summary.groups):
        _line(say, f"verdicts: {counted}")
    for line in [*terminal.models(records), *terminal.low_rewards(unsaid)]:
        _line(say, line)
    for line in terminal.losses(records):
        _line(say, line, yellow=True)
    if summary.retries:
        _line(say, f"infrastructure: {summary.retries} failures were made good by retries")
    if replayed:
        _line(say, f"replayed: {replayed} samples from the journal of this run")
    if summary.checks.passed or summary.checks.failed:
        _line(say, f"checks: {summary.checks.passed} passed, {summary.checks.failed} failed")
    _line(say, f"results: {_from_here(folder)}")
    if page:
        _line(say, f"report: {_from_here(page)}")


def validation_of(say: pytest.TerminalReporter, reward: str, findings: Sequence[Finding]) -> None:
    """What the validation of a reward function found; READY or NOT READY is the last line."""
    say.section("reward validation")
    width = say._tw.fullwidth  # noqa: SLF001 - as above
    say.write_line(validation.table(findings, width=width, color=say.hasmarkup))
    for line in [*validation.exploits(findings), *validation.complaints(findings)]:
        _line(say, line, red=True)
    for line in [*validation.survivors(findings), *validation.costs(findings)]:
        _line(say, line)
    ready, line = validation.verdict(reward, findings)
    _line(say, line, green=ready, red=not ready, bold=True)


def compared(say: pytest.TerminalReporter, with_baseline: Comparison | None) -> None:
    """What changed since the baseline; its gate is one of the verdict's lines."""
    if with_baseline is None:
        return
    width = say._tw.fullwidth  # noqa: SLF001 - as above
    for line in comparison.counts(with_baseline, width=width):
        _line(say, line)
    for line in comparison.flips("regressed", with_baseline.regressed, width=width):
        _line(say, line, red=True)
    for line in comparison.flips("improved", with_baseline.improved, width=width):
        _line(say, line)


def verdict(say: pytest.TerminalReporter, lines: Sequence[str]) -> None:
    """The gates."""
    for line in lines:
        bad = line.endswith(BAD)
        _line(say, line, red=bad, green=not bad)


def sandboxes(say: pytest.TerminalReporter, line: str) -> None:
    """How many there were; nothing where there were none."""
    if line:
        _line(say, line)


def trouble(say: pytest.TerminalReporter, swept: Sequence[str], lines: Sequence[str]) -> None:
    """What went wrong beside the tests."""
    if swept:
        _line(
            say,
            f"cwsandbox: removed {len(swept)} sandboxes that were left over: "
            + ", ".join(swept[:5])
            + (", ..." if len(swept) > 5 else ""),
            yellow=True,
        )
    for line in lines:
        _line(say, f"cwsandbox: {line}", yellow=True)


def _line(say: pytest.TerminalReporter, line: str, **markup: bool) -> None:
    """Print a line of which models, tests and services wrote a part: as text, whatever it is."""
    say.write_line(printable(line), **markup)


def _from_here(path: Path) -> Path:
    """The path as people type it where they are."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
