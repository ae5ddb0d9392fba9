"""Rates, intervals, pass@k and pass^k against published values, enumeration and simulation."""

from __future__ import annotations

import json
from itertools import combinations
from statistics import fmean

import numpy as np
import pytest
from scipy.stats import binomtest

from pytest_cwsandbox.outcome import SampleRecord
from pytest_cwsandbox.runs.intervals import clustered, design_effect, wilson
from pytest_cwsandbox.runs.pass_at_k import mean, pass_at_k, pass_hat_k
from pytest_cwsandbox.runs.statistics import GroupSummary, by_group, by_metadata, summarise
from pytest_cwsandbox.runs.summary import summarise_run

SETTINGS = {  # samples per problem
    "50 problems of 4": [4] * 50,
    "20 problems of 8": [8] * 20,
    "100 problems of 2": [2] * 100,
    "50 problems of 1 to 8": [number % 8 + 1 for number in range(50)],
}


def record(
    number: int, reward: float | None, problem: str = "", group: str = "g", **metadata: str
) -> SampleRecord:
    return SampleRecord(f"test_{group}[{number}]", group, problem, 0, reward, metadata=metadata)


def solved(*problems: str, group: str = "g", **metadata: str) -> list[SampleRecord]:
    """Samples of one problem per text: 1 passed, 0 did not, - was lost."""
    return [
        record(number, None if mark == "-" else float(mark), f"p{number}", group, **metadata)
        for number, marks in enumerate(problems)
        for mark in marks
    ]


# Wilson


def test_wilson_of_a_textbook() -> None:
    # Newcombe 1998, Two-sided confidence intervals for the single proportion, table I, method 3
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(15, 148) == pytest.approx((0.0624, 0.1605), abs=5e-5)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)
    assert wilson(1, 29) == pytest.approx((0.0061, 0.1718), abs=5e-5)


@pytest.mark.parametrize("samples", [1, 4, 53, 1000])
def test_with_one_sample_per_problem_the_interval_is_wilsons(samples: int) -> None:
    for passed in {0, 1, samples // 3, samples}:
        problems = [(int(number < passed), 1) for number in range(samples)]
        assert design_effect(problems) == pytest.approx(1)
        expected = binomtest(passed, samples).proportion_ci(0.95, method="wilson")
        assert clustered(problems) == pytest.approx((expected.low, expected.high))


def test_samples_that_are_lost_enter_no_rate() -> None:
    found = summarise("g", solved("1", "0", "-", "1"))
    assert (found.samples, found.passed, found.infrastructure_errors) == (3, 2, 1)
    assert found.interval == wilson(2, 3)
    assert not found.clustered


# Clustered by problem


@pytest.mark.parametrize("rate", [0.3, 0.5, 0.9])
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_clustered_interval_holds_the_rate_in_95_of_100_runs(setting: str, rate: float) -> None:
    """1,000 runs whose problems are solved at rates of a Beta distribution, correlated by 1/3."""
    sizes = np.array(SETTINGS[setting])
    chance = np.random.default_rng(20210707)
    rates = chance.beta(2 * rate, 2 * (1 - rate), (1000, len(sizes)))
    runs = chance.binomial(sizes, rates).tolist()
    intervals = [clustered(list(zip(run, SETTINGS[setting], strict=True))) for run in runs]
    assert all(0 <= low < high <= 1 for low, high in intervals)
    assert 0.93 <= fmean(low <= rate <= high for low, high in intervals) <= 0.97


def test_wilsons_interval_would_be_far_too_narrow_there() -> None:
    chance = np.random.default_rng(1)
    passed = chance.binomial(8, chance.beta(1, 1, (1000, 20))).sum(axis=1).tolist()
    intervals = [wilson(each, 160) for each in passed]
    assert fmean(low <= 0.5 <= high for low, high in intervals) < 0.8


def test_where_all_samples_agree_a_problem_counts_once() -> None:
    for passed in (0, 4):
        low, high = clustered([(passed, 4)] * 50)
        assert (low, high) == pytest.approx(wilson(passed * 50 // 4, 50), abs=3e-3)
        assert 0 <= low < high <= 1


def test_samples_as_different_as_those_of_many_problems_count_in_full() -> None:
    assert clustered([(2, 4)] * 50) == pytest.approx(wilson(100, 200), abs=1e-9)


def test_one_problem_says_little_however_many_samples_it_has() -> None:
    low, high = clustered([(50, 100)])
    assert low < 0.15
    assert high > 0.85


def test_a_problem_in_several_tests_is_one_cluster_of_the_pooled_rate() -> None:
    once = solved("1", "0", "1", group="a")
    pooled = summarise("all", [*once, *solved("1", "0", "1", group="b")])
    assert not summarise("a", once).clustered
    assert pooled.clustered
    assert pooled.interval == clustered([(2, 2), (0, 2), (2, 2)])


def test_problems_of_one_name_from_two_sources_are_two() -> None:
    rows = [*solved("1", source="mbpp"), *solved("0", source="mine.jsonl")]
    assert not summarise("all", rows).clustered


def test_samples_without_a_problem_are_clusters_of_their_own() -> None:
    found = summarise("g", [record(number, 1.0) for number in range(5)], ks=[1, 2])
    assert (found.problems, found.clustered, found.interval) == (5, False, wilson(5, 5))
    assert found.pass_at == {1: 1.0, 2: None}


# pass@k and pass^k


def test_both_estimators_are_what_all_subsets_say() -> None:
    for n in range(1, 9):
        for c in range(n + 1):
            samples = [number < c for number in range(n)]
            for k in range(1, n + 1):
                subsets = list(combinations(samples, k))
                assert pass_at_k(n, c, k) == pytest.approx(fmean(map(any, subsets)))
                assert pass_hat_k(n, c, k) == pytest.approx(fmean(map(all, subsets)))


@pytest.mark.parametrize("n", [1, 10, 200])
def test_pass_at_k_is_that_of_chen_et_al(n: int) -> None:
    def published(n: int, c: int, k: int) -> float:  # arXiv:2107.03374, figure 3
        if n - c < k:
            return 1.0
        return 1.0 - float(np.prod(1.0 - k / np.arange(n - c + 1, n + 1)))

    for c in range(0, n + 1, max(1, n // 20)):
        for k in {1, max(1, n // 10), n}:
            assert pass_at_k(n, c, k) == pytest.approx(published(n, c, k), abs=1e-12)


def test_the_estimators_stay_exact_for_many_samples() -> None:
    assert pass_at_k(100_000, 1, 1) == 1e-5
    assert pass_at_k(10_000, 5_000, 5_000) == 1.0
    assert pass_hat_k(10_000, 9_999, 1) == 0.9999
    assert 0 < pass_hat_k(10_000, 5_000, 500) < 1e-150


def test_they_are_means_over_problems_and_not_over_samples() -> None:
    problems = [(0, 2), (4, 8)]
    assert mean(pass_at_k, problems, 1) == 0.25
    assert mean(pass_at_k, problems, 2) == pytest.approx((0 + 1 - 6 / 28) / 2)
    assert mean(pass_hat_k, problems, 2) == pytest.approx(6 / 28 / 2)


def test_a_problem_with_too_few_samples_leaves_no_number_rather_than_another_one() -> None:
    found = summarise("g", solved("1100", "110-"), ks=[1, 3, 4])
    assert found.pass_at == {1: pytest.approx((1 / 2 + 2 / 3) / 2), 3: 1.0, 4: None}
    assert found.pass_hat == {1: found.pass_at[1], 3: 0.0, 4: None}


def test_a_problem_that_is_lost_altogether_is_out_as_it_is_of_the_rate() -> None:
    found = summarise("g", solved("10", "--"), ks=[2])
    assert (found.problems, found.pass_rate, found.pass_at) == (1, 0.5, {2: 1.0})


def test_samples_of_two_tests_or_models_are_not_draws_of_one() -> None:
    rows = [*solved("1", group="a"), *solved("0", group="b")]
    assert summarise("all", rows, ks=[1, 2]).pass_at == {1: 0.5, 2: None}
    rows = [*solved("1", model="small"), *solved("0", model="large")]
    assert summarise("all", rows, ks=[1, 2]).pass_at == {1: 0.5, 2: None}


# The rest of a group


def test_partial_credit_counts_in_the_mean_and_not_as_a_pass() -> None:
    found = summarise("g", [record(1, 0.5), record(2, 1.0), record(3, 1.5)])
    assert (found.passed, found.mean_reward) == (2, 1.0)


def test_tokens_are_of_rollouts_with_a_reward_and_cost_is_of_all() -> None:
    spent = {"tokens_in": "900", "cost": "0.25"}
    rows = [
        record(1, 1.0, tokens_out="100", **spent),
        record(2, 0.0, tokens_out="300", **spent),
        record(3, None, tokens_out="5000", **spent),
        record(4, 1.0),
        record(5, 1.0, tokens_in="many", tokens_out="nan", cost="inf"),
    ]
    found = summarise("g", rows)
    assert (found.tokens, found.cost) == (1100, 0.75)
    assert summarise("g", rows[3:]).cost is None


def test_no_samples_have_no_numbers() -> None:
    found = summarise("g", solved("-"), ks=[1])
    assert (found.pass_rate, found.interval, found.mean_reward) == (None, None, None)
    assert (found.pass_at, found.pass_hat) == ({1: None}, {1: None})


def test_groups_are_sorted_and_values_of_metadata_make_groups_too() -> None:
    rows = [
        *solved("1", group="b", split="test", model="m"),
        *solved("0", group="a", split="train", model="m"),
        *solved("0", group="a"),
    ]
    assert [group.group for group in by_group(rows)] == ["a", "b"]
    assert [(group.group, group.samples) for group in by_metadata(rows, ["split", "model"])] == [
        ("split=-, model=-", 1),
        ("split=test, model=m", 1),
        ("split=train, model=m", 1),
    ]


def test_a_key_that_no_sample_has_groups_nothing() -> None:
    rows = solved("1", "0", split="test")
    assert summarise_run("r", rows, keys=["modle"]).by == ()
    summary = summarise_run("r", rows, keys=["modle", "split"])
    assert [group.group for group in summary.by] == ["split=test"]
    assert summary.keys == ("modle", "split")


def test_in_json_the_ks_are_texts_and_nothing_else_changes() -> None:
    found = summarise("g", solved("10", "11"), ks=[1, 2])
    row = json.loads(json.dumps(found.to_json()))
    assert row["pass_at"] == {"1": 0.75, "2": 1.0}
    assert row["pass_hat"] == {"1": 0.75, "2": 0.5}
    assert found.interval is not None
    assert row["interval"] == list(found.interval)
    assert set(row) == set(GroupSummary.__slots__)
