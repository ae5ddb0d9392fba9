"""The sections that a test run ends with, on the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_cwsandbox.reports import comparison, terminal, validation

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
    replayed: int,
    page: Path | None,
) -> None:
    """Rates and what explains them."""
    say.section("cwsandbox pass rates")
    if not records:
        return
    width = say._tw.fullwidth  # noqa: SLF001 - pytest offers the width of its terminal nowhere else
    for text, style in terminal.tables(summary, records, width=width, color=say.hasmarkup):
        say.write_line(text, **{style: True} if style else {})
    if counted := terminal.verdicts(summary.groups):
        say.write_line(f"verdicts: {counted}")
    for line in terminal.models(records):
        say.write_line(line)
    for line in terminal.low_rewards(records):
        say.write_line(line)
    for line in terminal.losses(records):
        say.write_line(line, yellow=True)
    if summary.retries:
        say.write_line(f"infrastructure: {summary.retries} failures were made good by retries")
    if replayed:
        say.write_line(f"replayed: {replayed} samples from the journal of this run")
    say.write_line(f"checks: {summary.checks.passed} passed, {summary.checks.failed} failed")
    say.write_line(f"results: {_from_here(folder)}")
    if page:
        say.write_line(f"report: {_from_here(page)}")


def validation_of(say: pytest.TerminalReporter, reward: str, findings: Sequence[Finding]) -> None:
    """What the validation of a reward function found; READY or NOT READY is the last line."""
    say.section("reward validation")
    width = say._tw.fullwidth  # noqa: SLF001 - as above
    say.write_line(validation.table(findings, width=width, color=say.hasmarkup))
    for line in [*validation.exploits(findings), *validation.complaints(findings)]:
        say.write_line(line, red=True)
    for line in [*validation.survivors(findings), *validation.costs(findings)]:
        say.write_line(line)
    ready, line = validation.verdict(reward, findings)
    say.write_line(line, green=ready, red=not ready, bold=True)


def compared(say: pytest.TerminalReporter, with_baseline: Comparison | None) -> None:
    """What changed since the baseline; its gate is one of the verdict's lines."""
    if with_baseline is None:
        return
    width = say._tw.fullwidth  # noqa: SLF001 - as above
    for line in comparison.counts(with_baseline, width=width):
        say.write_line(line)
    for line in comparison.flips("regressed", with_baseline.regressed, width=width):
        say.write_line(line, red=True)
    for line in comparison.flips("improved", with_baseline.improved, width=width):
        say.write_line(line)


def verdict(say: pytest.TerminalReporter, lines: Sequence[str]) -> None:
    """The gates."""
    for line in lines:
        bad = line.endswith(BAD)
        say.write_line(line, red=bad, green=not bad)


def trouble(say: pytest.TerminalReporter, swept: Sequence[str], lines: Sequence[str]) -> None:
    """What went wrong beside the tests."""
    if swept:
        say.write_line(
            f"cwsandbox: removed {len(swept)} sandboxes that were left over: "
            + ", ".join(swept[:5])
            + (", ..." if len(swept) > 5 else ""),
            yellow=True,
        )
    for line in lines:
        say.write_line(f"cwsandbox: {line}", yellow=True)


def _from_here(path: Path) -> Path:
    """The path as people type it where they are."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
