"""pass@k and pass^k: whether one of k samples solves a problem, and whether all of them do."""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def pass_at_k(samples: int, passed: int, k: int) -> float:
    """The chance that one of k samples of a problem passes: 1 - C(n-c, k) / C(n, k).

    Unbiased for n independent samples of which c passed (Chen et al. 2021, Evaluating Large
    Language Models Trained on Code, arXiv:2107.03374, equation 1). Whole numbers of any size are
    exact here, so nothing is lost where Chen et al. multiply fractions.
    """
    every = comb(samples, k)
    return (every - comb(samples - passed, k)) / every


def pass_hat_k(samples: int, passed: int, k: int) -> float:
    """The chance that all of k samples of a problem pass: C(c, k) / C(n, k).

    Unbiased, as above (Yao et al. 2024, tau-bench, arXiv:2406.12045, section 3).
    """
    return comb(passed, k) / comb(samples, k)


def mean(
    estimate: Callable[[int, int, int], float], problems: Sequence[tuple[int, int]], k: int
) -> float | None:
    """The mean over problems, each with how many of its samples passed.

    None without problems, and where one has fewer than k samples: leaving it out would give the
    mean of other problems than were asked for.
    """
    if not problems or min(samples for _, samples in problems) < k:
        return None
    return sum(estimate(samples, passed, k) for passed, samples in problems) / len(problems)
