"""The verdict of a run: which gates hold, and the exit code that says so."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_cwsandbox.runs.comparison import Comparison
    from pytest_cwsandbox.runs.statistics import GroupSummary

INCONCLUSIVE = 75  # EX_TEMPFAIL of sysexits.h: try again


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What rates are to be reached: over all samples pooled, and in groups by name."""

    pooled: float | None = None
    groups: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __bool__(self) -> bool:
        return self.pooled is not None or bool(self.groups)


@dataclass(frozen=True, slots=True)
class Gates:
    """The gates of a run. Rates and ``alpha`` are shares from 0 to 1."""

    pass_rate: Thresholds = Thresholds()
    pass_rate_lower: Thresholds = Thresholds()
    max_infra_rate: float = 0.0
    alpha: float = 0.05


@dataclass(frozen=True, slots=True)
class Decision:
    """``missed`` fails the run; ``inconclusive`` makes it exit with 75 unless something failed."""

    missed: bool
    inconclusive: bool
    lines: tuple[str, ...]


def decide(
    groups: Sequence[GroupSummary],
    pooled: GroupSummary,
    gates: Gates,
    comparison: Comparison | None = None,
) -> Decision:
    """Judge the samples. A gate without a single sample is missed: nothing was shown."""
    lines: list[str] = []
    lost = pooled.infrastructure_errors
    share = lost / (pooled.samples + lost) if lost else 0.0
    inconclusive = share > gates.max_infra_rate
    if lost:
        lines.append(
            f"infrastructure: {lost} of {pooled.samples + lost} items lost "
            f"({share:.1%}, at most {gates.max_infra_rate:.1%} allowed): "
            + ("INCONCLUSIVE" if inconclusive else "tolerated")
        )
    missed = False
    for wanted, of in _judged(gates.pass_rate, groups, pooled):
        if of.pass_rate is None:
            # Where samples were lost, infrastructure is the reason; else nothing was shown.
            missed = not lost
            lines.append(
                "pass rate gate: no sample has a reward: " + ("MISSED" if missed else "not judged")
            )
        else:
            missed = of.pass_rate < wanted
            lines.append(
                f"pass rate gate: {of.passed} of {of.samples} samples passed "
                f"({of.pass_rate:.2%}, at least {wanted:.2%} asked for): "
                + ("MISSED" if missed else "met")
            )
    return Decision(missed, inconclusive, tuple(lines))


def _judged(
    thresholds: Thresholds, groups: Sequence[GroupSummary], pooled: GroupSummary
) -> Iterator[tuple[float, GroupSummary]]:
    if thresholds.pooled is not None:
        yield thresholds.pooled, pooled
