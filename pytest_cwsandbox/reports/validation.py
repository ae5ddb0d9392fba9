"""The `reward validation` section of a test run that validated a reward function."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_cwsandbox.findings import Exploit, Finding

ORDER = (
    "gold",
    "mutants",
    "held-out",
    "attacks",
    "format",
    "determinism",
    "infrastructure",
    "cost",
    "range",
)
LINES = 12  # per kind of finding; the run folder holds all


def table(findings: Sequence[Finding], *, width: int, color: bool) -> str:
    """One line per check: items, trials with their rate, what could not be checked."""
    from rich.console import Console
    from rich.table import Table

    built = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    built.add_column("check")
    for name in ("items", "bad", "not checkable", "trials", "rate"):
        built.add_column(name, justify="right")
    for check in ORDER:
        of_check = [finding for finding in findings if finding.check == check]
        if not of_check:
            continue
        bad = sum(finding.status == "bad" for finding in of_check)
        unknown = sum(finding.status == "not checkable" for finding in of_check)
        good, total = sum(f.good for f in of_check), sum(f.total for f in of_check)
        rate = f"{good / total:.1%}" if total else "-"
        row = (check, len(of_check), bad or "-", unknown or "-", f"{good}/{total}", rate)
        built.add_row(*map(str, row), style="red" if bad else None)
    buffer = StringIO()
    console = Console(
        file=buffer, width=width, force_terminal=color, no_color=not color, highlight=False
    )
    console.print(built)
    return "\n".join(line.rstrip() for line in buffer.getvalue().strip("\n").splitlines())


def exploits(findings: Sequence[Finding]) -> list[str]:
    """Every exploit by name, with the problems on which it worked."""
    lines = []
    for kind, word in (("reward", "EXPLOIT"), ("none", "NONE EXPLOIT")):
        by_attack: dict[str, list[Exploit]] = {}
        for finding in findings:
            for exploit in finding.exploits:
                if exploit.kind == kind:
                    by_attack.setdefault(exploit.attack, []).append(exploit)
        for attack, worked in by_attack.items():
            on = ", ".join(exploit.problem for exploit in worked[:3])
            more = f" and {len(worked) - 3} more" if len(worked) > 3 else ""
            known = worked[0].reference
            source = f"; {known}" if known and known != "none known" else ""
            lines.append(f"{word}: {attack} (on {on}{more}{source})")
    return lines


def complaints(findings: Sequence[Finding]) -> list[str]:
    """What else is bad, a line each; many of one check are cut short."""
    lines = []
    for check in ORDER:
        bad = [f for f in findings if f.check == check and f.status == "bad" and not f.exploits]
        lines += [f"{check}: {finding.name}: {finding.detail}" for finding in bad[:LINES]]
        if len(bad) > LINES:
            lines.append(f"{check}: and {len(bad) - LINES} more")
    return lines


def survivors(findings: Sequence[Finding]) -> list[str]:
    """Mutants that a reward paid though it killed enough of the others to be good."""
    return [
        f"surviving mutants: {finding.name}: {finding.detail}"
        for finding in findings
        if finding.check == "mutants" and finding.status == "good" and finding.detail
    ]


def costs(findings: Sequence[Finding]) -> list[str]:
    """What calls cost, a line per batch size."""
    return [f"{f.check}: {f.name}: {f.detail}" for f in findings if f.check == "cost"]


def verdict(reward: str, findings: Sequence[Finding]) -> tuple[bool, str]:
    """READY, NOT READY with the reasons, or PARTIAL where checks were left out."""
    bad = [finding for finding in findings if finding.status == "bad"]
    run = [check for check in ORDER if any(finding.check == check for finding in findings)]
    if not bad and len(run) < len(ORDER):
        missing = ", ".join(check for check in ORDER if check not in run)
        return False, f"PARTIAL: {reward} passed {', '.join(run)}; not run: {missing}"
    if not bad:
        return True, f"READY: {reward} passed every check"
    counts = [
        f"{sum(finding.check == check for finding in bad)} {check}"
        for check in ORDER
        if any(finding.check == check for finding in bad)
    ]
    return False, f"NOT READY: {reward} failed {', '.join(counts)}"
