"""The verdict of a run: which gates hold, and the exit code that says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_cwsandbox.runs.statistics import GroupSummary

INCONCLUSIVE = 75  # EX_TEMPFAIL of sysexits.h: try again


@dataclass(frozen=True, slots=True)
class Decision:
    """``missed`` fails the run; ``inconclusive`` makes it exit with 75 unless something failed."""

    missed: bool
    inconclusive: bool
    lines: tuple[str, ...]


def decide(pooled: GroupSummary, *, min_pass_rate: float | None, max_infra_rate: float) -> Decision:
    """Judge the pooled samples. A gate without a single sample is missed: nothing was shown."""
    lines: list[str] = []
    lost = pooled.infrastructure_errors
    share = lost / (pooled.samples + lost) if lost else 0.0
    inconclusive = share > max_infra_rate
    if lost:
        lines.append(
            f"infrastructure: {lost} of {pooled.samples + lost} items lost "
            f"({share:.1%}, at most {max_infra_rate:.1%} allowed): "
            + ("INCONCLUSIVE" if inconclusive else "tolerated")
        )
    missed = False
    if min_pass_rate is not None:
        if pooled.pass_rate is None:
            # Where samples were lost, infrastructure is the reason; else nothing was shown.
            missed = not lost
            lines.append(
                "pass rate gate: no sample has a reward: " + ("MISSED" if missed else "not judged")
            )
        else:
            missed = pooled.pass_rate < min_pass_rate
            lines.append(
                f"pass rate gate: {pooled.passed} of {pooled.samples} samples passed "
                f"({pooled.pass_rate:.2%}, at least {min_pass_rate:.2%} asked for): "
                + ("MISSED" if missed else "met")
            )
    return Decision(missed, inconclusive, tuple(lines))
