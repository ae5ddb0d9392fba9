"""Numbers of a run: pass rates with intervals, rewards, verdicts and seconds per group."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from pytest_cwsandbox.runs import pass_at_k
from pytest_cwsandbox.runs.intervals import clustered

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from pytest_cwsandbox.outcome import SampleRecord


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """The numbers of one group of samples.

    ``samples`` counts those with a reward; samples lost to infrastructure are only in
    ``infrastructure_errors``, ``verdicts`` and ``cost``, and enter no rate. ``pass_rate``, its 95 %
    interval and ``mean_reward`` are None without samples. Where problems have several samples the
    interval is ``clustered`` by problem, else it is Wilson's. ``problems`` counts what was sampled:
    a problem in one test, by one model. ``pass_at`` and ``pass_hat`` hold pass@k and pass^k by k,
    None where a problem has fewer samples. Seconds are wall time of the items' call phase.
    ``tokens`` is the mean of prompts and answers per rollout with a reward, ``cost`` the sum in US
    dollars of all rollouts.
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
    problems: int = 0

    def to_json(self) -> dict[str, object]:
        """The fields by name; the k's of pass@k and pass^k as texts, as JSON has them."""
        return {
            **asdict(self),
            "pass_at": {str(k): value for k, value in self.pass_at.items()},
            "pass_hat": {str(k): value for k, value in self.pass_hat.items()},
        }


def summarise(group: str, records: Sequence[SampleRecord], ks: Sequence[int] = ()) -> GroupSummary:
    """The numbers of these records, whatever groups they are of."""
    rewarded = [record for record in records if record.reward is not None]
    rewards = [record.reward for record in rewarded if record.reward is not None]
    seconds = sorted(record.seconds for record in rewarded)
    passed = sum(reward >= 1 for reward in rewards)
    clusters = _counts(rewarded, _problem)
    problems = _counts(rewarded, _sampled)
    tokens = [
        got + given
        for record in rewarded
        if (got := metric(record, "tokens_in")) is not None
        and (given := metric(record, "tokens_out")) is not None
    ]
    costs = [cost for record in records if (cost := metric(record, "cost")) is not None]
    return GroupSummary(
        group=group,
        samples=len(rewards),
        passed=passed,
        pass_rate=passed / len(rewards) if rewards else None,
        interval=clustered(clusters) if rewards else None,
        mean_reward=sum(rewards) / len(rewards) if rewards else None,
        infrastructure_errors=len(records) - len(rewards),
        verdicts=dict(sorted(Counter(r.verdict for r in records if r.verdict).items())),
        p50_seconds=quantile(seconds, 0.5),
        p95_seconds=quantile(seconds, 0.95),
        clustered=len(clusters) < len(rewards),
        pass_at={k: pass_at_k.mean(pass_at_k.pass_at_k, problems, k) for k in ks},
        pass_hat={k: pass_at_k.mean(pass_at_k.pass_hat_k, problems, k) for k in ks},
        tokens=sum(tokens) / len(tokens) if tokens else None,
        cost=sum(costs) if costs else None,
        problems=len(problems),
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
    groups: dict[tuple[str, ...], list[SampleRecord]] = {}
    for record in records:
        values = tuple(str(record.metadata.get(key, "-")) for key in keys)
        groups.setdefault(values, []).append(record)
    named = {
        values: ", ".join(f"{key}={value}" for key, value in zip(keys, values, strict=True))
        for values in sorted(groups)
    }
    return [summarise(name, groups[values], ks) for values, name in named.items()]


def metadata_keys(records: Sequence[SampleRecord]) -> list[str]:
    """The metadata keys that any of the samples has."""
    return sorted({key for record in records for key in record.metadata})


def metric(record: SampleRecord, name: str) -> float | None:
    """A number in a sample's metadata; None where there is none, as tests write what they like."""
    try:
        value = float(record.metadata[name])
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return value if math.isfinite(value) else None


def quantile(ordered: Sequence[float], share: float) -> float | None:
    """The nearest-rank quantile of sorted values; None without values."""
    if not ordered:
        return None
    return ordered[math.ceil(share * len(ordered)) - 1]


def _counts(
    records: Sequence[SampleRecord], key: Callable[[SampleRecord], Hashable]
) -> list[tuple[int, int]]:
    """How many samples passed, of how many, by key; each sample is its own where that is None."""
    counts: dict[Hashable, tuple[int, int]] = {}
    for number, record in enumerate(records):
        known = key(record)
        known = number if known is None else known
        passed, samples = counts.get(known, (0, 0))
        won = record.reward is not None and record.reward >= 1
        counts[known] = (passed + won, samples + 1)
    return list(counts.values())


def _problem(record: SampleRecord) -> Hashable | None:
    """What makes samples alike: whoever tries it, a hard problem is hard."""
    return (record.metadata.get("source"), record.problem) if record.problem else None


def _sampled(record: SampleRecord) -> Hashable | None:
    """What samples are draws of, for pass@k: one problem in one test, by one model."""
    problem = _problem(record)
    return problem and (record.group, record.metadata.get("model"), problem)
