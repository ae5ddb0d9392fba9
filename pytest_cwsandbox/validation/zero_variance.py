"""How many groups of a GRPO batch will have no gradient, from samples taken beforehand.

GRPO (Shao et al. 2024, DeepSeekMath, arXiv:2402.03300, section 4.1) draws a group of G completions
per problem and uses A_i = (r_i - mean(r)) / std(r) as the advantage. When all rewards of a group
are equal every advantage is 0 and the group teaches nothing; DAPO (Yu et al. 2025,
arXiv:2503.14476, section 3.2) throws such groups away and samples on. Here they are foretold.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIDENCE = 0.95
MOST_PER_PROBLEM = 6
"""A problem counts for at most this many independent yes-or-no answers in an interval.

By simulation: unlimited, intervals cover 72 % in place of 95 % where few groups lack a gradient.
"""


@dataclass(frozen=True, slots=True)
class Share:
    """A share of groups, its 95 % interval, and the number of problems that it rests on."""

    estimate: float
    low: float
    high: float
    problems: int

    def to_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class PassRange:
    """Pass rates from ``low`` to ``high``, both included."""

    low: float
    high: float

    def __contains__(self, rate: float) -> bool:
        return self.low <= rate <= self.high

    def __str__(self) -> str:
        return f"{self.low:g}:{self.high:g}"


def equal_rewards(rewards: Sequence[float], group_size: int) -> float:
    """The probability that the next ``group_size`` rewards of this problem are all equal.

    With n samples of which c_v have the value v, and n >= G: sum over v of C(c_v, G) / C(n, G), the
    share of all G-subsets with one value. It is a U-statistic, hence unbiased for sum over v of
    p_v^G, which is p^G + (1 - p)^G for 0/1 rewards. (The pass@k estimator of Chen et al. 2021,
    arXiv:2107.03374, is 1 minus its term for v = 0.)

    With n < G no unbiased estimate exists. Then the posterior mean under Jeffreys' prior, a half
    for each of the K distinct values seen (at least two): sum over v of the product over j < G of
    (c_v + 1/2 + j) / (n + K/2 + j). For 0/1 rewards that is the Beta(1/2, 1/2) prior.
    """
    counts = list(Counter(rewards).values())
    samples = len(rewards)
    if samples >= group_size:
        equal = sum(math.comb(count, group_size) for count in counts)
        return equal / math.comb(samples, group_size)
    counts += [0] * (2 - len(counts))
    prior = len(counts) / 2
    return sum(
        math.prod((count + 0.5 + j) / (samples + prior + j) for j in range(group_size))
        for count in counts
    )


def chosen_and_equal(
    rewards: Sequence[float], group_size: int, keep: PassRange, full: float
) -> tuple[float, float]:
    """The probabilities of (chosen and equal rewards, chosen), with choice and group held apart.

    Problems that were chosen for the pass rate of some samples look better on those same samples
    than they are (regression to the mean). So every G-subset of the n samples is once the group
    while the other n - G choose: a problem is chosen when their pass rate is in ``keep``; a sample
    passes with a reward of at least ``full``. Averaged over all subsets, in closed form. Summed
    over problems the first by the second is the zero-variance share among chosen problems.
    """
    counts = Counter(rewards)
    samples, others = len(rewards), len(rewards) - group_size
    passed = sum(count for value, count in counts.items() if value >= full)
    subsets = math.comb(samples, group_size)
    equal = sum(
        math.comb(count, group_size)
        for value, count in counts.items()
        if (passed - group_size * (value >= full)) / others in keep
    )
    chosen = sum(
        math.comb(passed, inside) * math.comb(samples - passed, group_size - inside)
        for inside in range(min(passed, group_size) + 1)
        if (passed - inside) / others in keep
    )
    return equal / subsets, chosen / subsets


def share(parts: Sequence[tuple[float, float]]) -> Share | None:
    """The ratio sum(a) / sum(b) over problems (a, b), with an interval; None when sum(b) is 0.

    Problems, not samples, are the independent units: the variance of the ratio R is that of the
    residuals a - R b between problems (Cochran 1977, section 6.3), the interval is Wilson's (1927)
    at the effective sample size R (1 - R) / variance with Student's t at m - 1 degrees of freedom
    (as Korn and Graubard 1998 adjust the exact interval). So it stays within 0 and 1 and holds near
    them too, where estimate +- t * error covers too seldom. m is the number of problems by weight,
    sum(b)^2 / sum(b^2) (Kish 1965). Few problems can look equal by chance: the effective size is
    at most ``MOST_PER_PROBLEM`` times m.
    """
    whole = math.fsum(b for _, b in parts)
    if not whole:
        return None
    problems = sum(b > 0 for _, b in parts)
    ratio = min(math.fsum(a for a, _ in parts) / whole, 1.0)
    units = whole**2 / math.fsum(b * b for _, b in parts)
    if units < 2:
        return Share(ratio, 0.0, 1.0, problems)  # one problem says nothing about the next
    residuals = math.fsum((a - ratio * b) ** 2 for a, b in parts)
    variance = residuals * units / (units - 1) / whole**2
    size = units
    if variance and 0 < ratio < 1:
        size = min(ratio * (1 - ratio) / variance, MOST_PER_PROBLEM * units)
    low, high = _wilson(ratio, size, units - 1)
    return Share(ratio, low, high, problems)


def _wilson(rate: float, size: float, freedom: float) -> tuple[float, float]:
    from scipy.special import stdtrit

    t = float(stdtrit(freedom, (1 + CONFIDENCE) / 2))
    middle = rate + t * t / (2 * size)
    half = t * math.sqrt(rate * (1 - rate) / size + t * t / (4 * size * size))
    scale = 1 + t * t / size
    return max((middle - half) / scale, 0.0), min((middle + half) / scale, 1.0)
