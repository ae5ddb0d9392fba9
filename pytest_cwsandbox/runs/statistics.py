"""Numbers of a run: pass rates with intervals, rewards, verdicts and seconds per group."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_cwsandbox.outcome import SampleRecord

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """The numbers of one group of samples.

    ``samples`` counts those with a reward; samples lost to infrastructure are only in
    ``infrastructure_errors`` and enter no rate. ``pass_rate``, its Wilson interval and
    ``mean_reward`` are None without samples. Seconds are wall time of the items' call phase.
    Where problems have several samples the interval is ``clustered`` by problem. ``pass_at`` and
    ``pass_hat`` hold pass@k and pass^k by k, None where a problem has fewer samples. ``tokens``
    is the mean of prompts and answers per rollout, ``cost`` the sum in US dollars.
    """

    group: str
    samples: int
    passed: int
    pass_rate: float | None
    interval: tuple[float, float] | None
    mean_reward: float | None
    infrastructure_errors: int
    verdicts: dict[str, int]
    p50_seconds: float | None
    p95_seconds: float | None
    clustered: bool = False
    pass_at: Mapping[int, float | None] = field(default_factory=dict)
    pass_hat: Mapping[int, float | None] = field(default_factory=dict)
    tokens: float | None = None
    cost: float | None = None

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def summarise(group: str, records: Sequence[SampleRecord], ks: Sequence[int] = ()) -> GroupSummary:
    """The numbers of these records, whatever groups they are of."""
    rewards = [record.reward for record in records if record.reward is not None]
    seconds = sorted(record.seconds for record in records if record.reward is not None)
    passed = sum(reward >= 1 for reward in rewards)
    return GroupSummary(
        group=group,
        samples=len(rewards),
        passed=passed,
        pass_rate=passed / len(rewards) if rewards else None,
        interval=wilson(passed, len(rewards)) if rewards else None,
        mean_reward=sum(rewards) / len(rewards) if rewards else None,
        infrastructure_errors=len(records) - len(rewards),
        verdicts=dict(sorted(Counter(r.verdict for r in records if r.verdict).items())),
        p50_seconds=quantile(seconds, 0.5),
        p95_seconds=quantile(seconds, 0.95),
    )


def by_group(records: Sequence[SampleRecord], ks: Sequence[int] = ()) -> list[GroupSummary]:
    """One summary per group, sorted by name."""
    groups: dict[str, list[SampleRecord]] = {}
    for record in records:
        groups.setdefault(record.group, []).append(record)
    return [summarise(group, groups[group], ks) for group in sorted(groups)]


def by_metadata(
    records: Sequence[SampleRecord], keys: Sequence[str], ks: Sequence[int] = ()
) -> list[GroupSummary]:
    """One summary per combination of values of these metadata keys, named ``key=value, ...``."""
    groups: dict[str, list[SampleRecord]] = {}
    for record in records:
        name = ", ".join(f"{key}={record.metadata.get(key, '-')}" for key in keys)
        groups.setdefault(name, []).append(record)
    return [summarise(group, groups[group], ks) for group in sorted(groups)]


def wilson(passed: int, samples: int) -> tuple[float, float]:
    """Wilson score interval (Wilson 1927) of a pass rate, without continuity correction."""
    from scipy.stats import binomtest

    interval = binomtest(passed, samples).proportion_ci(CONFIDENCE, method="wilson")
    return float(interval.low), float(interval.high)


def quantile(ordered: Sequence[float], share: float) -> float | None:
    """The nearest-rank quantile of sorted values; None without values."""
    if not ordered:
        return None
    return ordered[math.ceil(share * len(ordered)) - 1]
