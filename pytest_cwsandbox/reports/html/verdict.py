"""What a run comes to, in one word that agrees with its exit code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from pytest_cwsandbox.runs.gate import INCONCLUSIVE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_cwsandbox.reports.html.source import Source

Tone = Literal["good", "bad", "warn", ""]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A word to be shown large, and the lines that explain it."""

    tone: Tone
    word: str
    lines: tuple[str, ...]


def verdict_of(source: Source) -> Verdict:
    """The verdict of the gates, or why there is none."""
    if not source.ended:
        of = f" of {source.planned:,}" if source.planned else ""
        recorded = f"{len(source.entries):,}{of} samples were recorded"
        return Verdict("warn", "The run did not end", (recorded,))
    lines = list(cast("list[str]", source.summary["gates"]))
    checks = cast("dict[str, int]", source.summary["checks"])
    failed, status = checks["failed"], source.exit_status
    if failed:
        lines.append(f"checks: {checks['passed']} passed, {failed} failed")
    if status:
        lines.append(f"exit code: {status}")
    tone, word = word_of(lines, failed=failed, status=status)
    return Verdict(tone, word, tuple(lines))


def word_of(lines: Sequence[str], *, failed: int, status: int | None) -> tuple[Tone, str]:
    """Of the gates' lines, the checks that failed, and the exit code.

    The exit code decides where it is known; the lines and the checks then say why it is that.
    """

    def some(word: str) -> bool:
        return any(line.endswith(word) for line in lines)

    red = status in {1, None}
    lost = status == INCONCLUSIVE or (status is None and some("INCONCLUSIVE"))
    words: tuple[tuple[bool, Tone, str], ...] = (
        (red and some("MISSED"), "bad", "Gate missed"),
        (red and failed > 0, "bad", "A check failed" if failed == 1 else f"{failed} checks failed"),
        (status == 1, "bad", "A test failed"),
        (lost, "warn", "Inconclusive"),
        (status in {2, 3, 4, 5, 6}, "warn", "The run was cut short"),
        (bool(status), "bad", f"Exit code {status}"),
        (some("not judged"), "warn", "Not judged"),
        (some("met"), "good", "Gates met"),
        (True, "", "No gate was set"),
    )
    return next((tone, word) for holds, tone, word in words if holds)
