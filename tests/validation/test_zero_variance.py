"""The share of groups without gradient: estimates without bias, intervals that hold."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats

from pytest_cwsandbox.validation.zero_variance import (
    PassRange,
    chosen_and_equal,
    equal_rewards,
    share,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

DATA_SETS = 1000
PROBLEMS = 60
MIDDLE = PassRange(0.2, 0.8)
POPULATIONS = {
    "half are never or always solved": stats.beta(0.5, 0.5),
    "every rate alike": stats.beta(1, 1),
    "hard": stats.beta(1, 6),
}


def zeros_and_ones(passed: int, samples: int) -> list[float]:
    return [1.0] * passed + [0.0] * (samples - passed)


def zero_variance(rate: Any, group_size: int) -> Any:
    """The truth that the estimates are of, for 0/1 rewards."""
    return rate**group_size + (1 - rate) ** group_size


@pytest.mark.parametrize("rate", [0.0, 0.03, 0.3, 0.5, 0.9, 1.0])
@pytest.mark.parametrize(("samples", "group_size"), [(8, 8), (9, 8), (16, 8), (20, 4), (5, 2)])
def test_the_estimate_is_unbiased_from_a_group_of_samples_on(
    rate: float, samples: int, group_size: int
) -> None:
    estimates = [equal_rewards(zeros_and_ones(c, samples), group_size) for c in range(samples + 1)]
    expected = stats.binom.pmf(range(samples + 1), samples, rate) @ estimates
    assert expected == pytest.approx(zero_variance(rate, group_size), abs=1e-12)


def test_rewards_of_any_values_are_compared_by_value() -> None:
    rewards = [0.0, 0.5, 0.5, 0.25, 0.5, 1.0, 1.0]
    groups = list(itertools.combinations(rewards, 3))
    equal = sum(len(set(group)) == 1 for group in groups)
    assert equal_rewards(rewards, 3) == pytest.approx(equal / len(groups))


@pytest.mark.parametrize(("passed", "samples"), [(0, 1), (0, 4), (1, 4), (3, 7)])
def test_with_fewer_samples_than_a_group_it_is_the_mean_under_jeffreys_prior(
    passed: int, samples: int
) -> None:
    posterior = stats.beta(passed + 0.5, samples - passed + 0.5)
    expected = posterior.expect(lambda rate: zero_variance(rate, 8))
    assert equal_rewards(zeros_and_ones(passed, samples), 8) == pytest.approx(expected, abs=1e-6)


def test_choice_and_group_are_held_apart_over_every_subset() -> None:
    rewards = [0.0, 0.0, 0.0, 0.5, 0.5, 1.0, 1.0, 1.0]
    chosen = equal = 0
    for places in itertools.combinations(range(8), 3):
        group = [rewards[place] for place in places]
        others = [rewards[place] for place in range(8) if place not in places]
        if sum(reward >= 1 for reward in others) / len(others) in MIDDLE:
            chosen += 1
            equal += len(set(group)) == 1
    assert chosen_and_equal(rewards, 3, MIDDLE, 1.0) == pytest.approx((equal / 56, chosen / 56))


def covered(parts: Sequence[tuple[float, float]], rates: Any, truth: float, samples: int) -> float:
    """How often the interval over ``PROBLEMS`` problems holds the truth; parts are by passes."""
    passed = np.random.default_rng(7).binomial(samples, rates)
    found = [share([parts[c] for c in data_set]) for data_set in passed]
    return float(np.mean([f is not None and f.low <= truth <= f.high for f in found]))


@pytest.mark.parametrize("name", POPULATIONS)
@pytest.mark.parametrize(("samples", "group_size"), [(8, 8), (16, 8), (32, 8), (32, 16)])
def test_the_interval_holds_the_truth_in_about_95_of_100_data_sets(
    name: str, samples: int, group_size: int
) -> None:
    population = POPULATIONS[name]
    rates = population.rvs((DATA_SETS, PROBLEMS), random_state=np.random.default_rng(3))
    truth = population.expect(lambda rate: zero_variance(rate, group_size))
    parts = [
        (equal_rewards(zeros_and_ones(c, samples), group_size), 1.0) for c in range(samples + 1)
    ]
    assert 0.93 <= covered(parts, rates, truth, samples) <= 0.975


def test_the_interval_holds_where_most_problems_are_nearly_hopeless() -> None:
    hopeless = np.random.default_rng(5).random((DATA_SETS, PROBLEMS)) < 0.85
    truth = 0.85 * zero_variance(0.02, 8) + 0.15 * zero_variance(0.5, 8)
    parts = [(equal_rewards(zeros_and_ones(c, 16), 8), 1.0) for c in range(17)]
    assert 0.93 <= covered(parts, np.where(hopeless, 0.02, 0.5), truth, 16) <= 0.975


@pytest.mark.parametrize("name", POPULATIONS)
def test_the_interval_of_chosen_problems_holds_the_truth_of_problems_so_chosen(name: str) -> None:
    samples, group_size = 16, 8
    population = POPULATIONS[name]
    others = np.arange(samples - group_size + 1)
    allowed = others[[count / (samples - group_size) in MIDDLE for count in others]]

    def chosen(rate: Any) -> Any:
        return stats.binom.pmf(allowed, samples - group_size, rate).sum()

    truth = population.expect(lambda rate: chosen(rate) * zero_variance(rate, group_size))
    truth /= population.expect(chosen)
    rates = population.rvs((DATA_SETS, PROBLEMS), random_state=np.random.default_rng(3))
    parts = [
        chosen_and_equal(zeros_and_ones(c, samples), group_size, MIDDLE, 1.0)
        for c in range(samples + 1)
    ]
    assert 0.93 <= covered(parts, rates, truth, samples) <= 0.975


def test_problems_that_all_look_alike_leave_room_for_one_that_does_not() -> None:
    found = share([(1.0, 1.0)] * 30)
    assert found is not None
    assert 0.8 < found.low < 0.95
    assert (found.estimate, found.high) == (1.0, 1.0)


def test_one_problem_says_nothing_about_the_next() -> None:
    found = share([(0.25, 1.0)])
    assert found is not None
    assert (found.low, found.high) == (0.0, 1.0)
