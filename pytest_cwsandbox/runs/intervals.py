"""95 % intervals of pass rates: Wilson's, and one for problems that have several samples."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# The square of the normal distribution's 97.5 % quantile. scipy has it too, and costs every run a
# second to import; the tests compare.
Z2 = 1.959963984540054**2
PRIOR = 0.1
"""Problems solved always, and as many solved never, that the design effect starts from."""


def wilson(passed: int, samples: int) -> tuple[float, float]:
    """Wilson score interval (Wilson 1927) of a pass rate, without continuity correction."""
    if not 0 <= passed <= samples or samples == 0:
        raise ValueError(f"{passed} of {samples} samples cannot have passed")
    return _score(passed / samples, samples)


def clustered(problems: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """Interval of the pass rate of problems, each with how many of its samples passed: (3, 4).

    Samples of one problem are alike, so they say less than as many problems would: the rate's
    variance is ``design_effect`` times as large (Kish 1965), and Wilson's interval is taken for so
    many fewer samples (Korn and Graubard 1998; Franco et al. 2019, doi:10.1093/jssam/smy019). It
    stays inside 0 to 1, and it is Wilson's own where every problem has one sample. The rate is that
    of new problems like these; docs/statistics.md has how often it lies inside.
    """
    passed = sum(good for good, _ in problems)
    samples = sum(count for _, count in problems)
    if samples == len(problems):
        return wilson(passed, samples)
    return _score(passed / samples, samples / design_effect(problems))


def design_effect(problems: Sequence[tuple[int, int]]) -> float:
    """How many samples say as much as one of a problem of its own; at least 1.

    The variance between problems over that of independent samples. Each problem's residual is
    divided by 1 - its share of the samples: that is the jackknife, which makes up for how much a
    problem pulls the rate to itself (CR3 in Cameron and Miller 2015, doi:10.3368/jhr.50.2.317).

    Where nearly all samples agree this ratio is nearly 0/0. As Agresti and Coull (1998) do for the
    rate, a little is added to both kinds: ``PRIOR`` problems that passed in all samples and
    ``PRIOR`` that passed in none. Where all samples agree each problem then counts
    about once.
    """
    samples = sum(count for _, count in problems)
    size = sum(count * count for _, count in problems) / samples  # Kish's mean: of a sample's view
    added = PRIOR * size
    total = samples + 2 * added
    rate = (sum(good for good, _ in problems) + added) / total

    def pull(good: float, count: float) -> float:
        return ((good - rate * count) / (1 - count / total)) ** 2

    between = sum(pull(good, count) for good, count in problems)
    between += PRIOR * (pull(size, size) + pull(0, size))
    # The last factor makes it exactly 1 where every problem has one sample.
    return max(1.0, between / (total * rate * (1 - rate)) * (1 - 1 / total) ** 2)


def _score(rate: float, samples: float) -> tuple[float, float]:
    """Wilson's formula, also for a number of samples that is not whole."""
    middle = rate + Z2 / (2 * samples)
    half = math.sqrt(Z2 * (rate * (1 - rate) / samples + Z2 / (4 * samples * samples)))
    scale = 1 + Z2 / samples
    low = (middle - half) / scale if rate > 0 else 0.0  # exactly, whatever is rounded
    high = (middle + half) / scale if rate < 1 else 1.0
    return low, high
