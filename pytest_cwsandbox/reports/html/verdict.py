"""What a run comes to, in one word that agrees with its exit code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from pytest_cwsandbox.runs.gate import INCONCLUSIVE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_cwsandbox.reports.html.source import Source

CUT_SHORT = "The run was cut short"
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
        return _unfinished(source)
    lines = list(cast("list[str]", source.summary["gates"]))
    checks = cast("dict[str, int]", source.summary["checks"])
    failed, status = checks["failed"], source.exit_status
    if failed:
        lines.append(f"checks: {checks['passed']} passed, {failed} failed")
    if status:
        lines.append(f"exit code: {status}")
    tone, word = word_of(lines, failed=failed, status=status)
    if word == CUT_SHORT and len(source.entries) < source.planned:
        lines += _continued(source)
    return Verdict(tone, word, tuple(lines))


def _unfinished(source: Source) -> Verdict:
    of = f" of {source.planned:,}" if source.planned else ""
    recorded = f"{len(source.entries):,}{of} samples were recorded"
    if source.going_on:
        return Verdict("warn", "The run is still going on", (f"{recorded} so far",))
    return Verdict("warn", "The run did not end", (recorded, *_continued(source)))


def _continued(source: Source) -> list[str]:
    """How to get the rest; the grades of another run's completions cannot be continued."""
    if not source.planned or source.rescored_from:
        return []
    return [f"continue it with --cwsandbox-resume={source.folder.resolve().name}"]


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
        (status in {2, 3, 4, 5, 6}, "warn", CUT_SHORT),
        (bool(status), "bad", f"Exit code {status}"),
        (some("not judged"), "warn", "Not judged"),
        (some("met"), "good", "Gates met"),
        (True, "", "No gate was set"),
    )
    return next((tone, word) for holds, tone, word in words if holds)
