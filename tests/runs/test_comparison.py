"""The comparison of two runs: which samples are paired, and whether its tests test."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING

import pytest
from scipy.stats import binom

from pytest_cwsandbox.outcome import SampleRecord
from pytest_cwsandbox.reports.comparison import cut, flips, table
from pytest_cwsandbox.runs.comparison import MCNEMAR, PERMUTATION, compare, mcnemar, permutation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_cwsandbox.runs.comparison import Comparison


def sample(problem: str, number: int, reward: float | None, group: str = "toy/a") -> SampleRecord:
    return SampleRecord(f"{group}[{problem}-{number}]", group, problem, number, reward)


def compared(before: Sequence[SampleRecord], after: Sequence[SampleRecord]) -> Comparison:
    return compare(before, after, names=("before", "after"))


@pytest.mark.parametrize(
    ("worse", "better", "p_value"),
    [
        (0, 0, 1.0),
        (5, 0, 1 / 32),
        (4, 1, 6 / 32),  # (5 + 1) of 2 ** 5
        (8, 2, 56 / 1024),  # (45 + 10 + 1) of 2 ** 10
        (1, 4, 31 / 32),
    ],
)
def test_mcnemar_agrees_with_counting_by_hand(worse: int, better: int, p_value: float) -> None:
    assert mcnemar(worse, better) == pytest.approx(p_value, abs=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_the_permutation_test_agrees_with_every_flip_of_signs(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - to draw differences with
    drops = [chance.randint(-4, 4) for _ in range(chance.randint(1, 10))]
    flipped = [
        sum(sign * drop for sign, drop in zip(signs, drops, strict=True))
        for signs in itertools.product((1, -1), repeat=len(drops))
    ]
    share = sum(total >= sum(drops) for total in flipped) / len(flipped)
    assert permutation(drops) == pytest.approx(share, abs=1e-12)


def test_the_permutation_test_of_single_samples_is_mcnemars() -> None:
    assert permutation([1] * 9 + [-1] * 4 + [0] * 30) == pytest.approx(mcnemar(9, 4), abs=1e-12)


def test_a_thousand_problems_of_eight_samples_are_compared_exactly() -> None:
    assert permutation([8] * 500 + [-8] * 500) == pytest.approx(float(binom.sf(499, 1000, 0.5)))


@pytest.mark.parametrize("samples", [1, 4])
def test_a_run_that_is_no_worse_fails_no_more_often_than_alpha(samples: int) -> None:
    chance = random.Random(7)  # noqa: S311 - to draw runs with
    failed = sum(_simulated(chance, samples, drop=0.0) for _ in range(400))
    assert failed <= 31  # 99 % of Binomial(400, 0.05) is at or below


@pytest.mark.parametrize("samples", [1, 4])
def test_a_run_that_is_much_worse_is_found_out(samples: int) -> None:
    chance = random.Random(7)  # noqa: S311 - to draw runs with
    assert sum(_simulated(chance, samples, drop=0.4) for _ in range(50)) >= 45


def _simulated(chance: random.Random, samples: int, *, drop: float) -> bool:
    """Whether a run of 40 problems, some harder than others, fails against one like it."""
    rates = [chance.uniform(0.4, 1.0) for _ in range(40)]
    runs = [
        [
            sample(f"toy-{problem}", number, float(chance.random() < rate - lower))
            for problem, rate in enumerate(rates)
            for number in range(samples)
        ]
        for lower in (0.0, drop)
    ]
    return compared(*runs).pooled.regressed(0.05)


def test_samples_are_paired_by_id_and_what_has_no_partner_is_counted() -> None:
    before = [sample("kept", 0, 1.0), sample("gone", 0, 1.0), sample("lost", 0, 1.0)]
    before += [sample("found", 0, None)]
    after = [sample("kept", 0, 1.0), sample("lost", 0, None), sample("found", 0, 0.0)]
    after += [sample("new", 0, 0.0), sample("new and lost", 0, None)]
    found = compared(before, after)
    assert (found.pooled.pairs, found.missing, found.lost, found.new) == (1, 1, 1, 2)
    assert found.regressed == ()  # what the infrastructure lost is no regression


def test_single_samples_take_mcnemars_test_and_several_the_permutation_test() -> None:
    single = [sample("x", 0, 1.0), sample("y", 0, 1.0)]
    assert compared(single, single).pooled.test == MCNEMAR
    several = [*single, sample("x", 1, 1.0)]
    assert compared(several, several).pooled.test == PERMUTATION


def test_a_problem_in_two_groups_is_one_problem_of_the_pooled_test() -> None:
    one = [sample("x", 0, 1.0, "toy/a"), sample("x", 0, 1.0, "toy/b")]
    found = compared(one, one)
    assert [group.test for group in found.groups] == [MCNEMAR, MCNEMAR]
    assert found.pooled.test == PERMUTATION


def test_problems_that_flipped_are_named_the_most_changed_first() -> None:
    before = [sample(name, n, float(n < 3)) for name in ("x", "y2", "y10") for n in range(4)]
    after = [sample("x", n, float(n < 4)) for n in range(4)]
    after += [sample("y10", n, float(n < 2)) for n in range(4)]
    after += [sample("y2", n, float(n < 2)) for n in range(4)]
    found = compared(before, after)
    assert flips("regressed", found.regressed, width=80) == [
        "regressed: toy/a y2: 3/4 -> 2/4",
        "regressed: toy/a y10: 3/4 -> 2/4",
    ]
    assert [(flip.problem, flip.samples) for flip in found.improved] == [("x", ("toy/a[x-3]",))]


def test_the_same_problem_in_two_groups_is_named_in_the_order_of_their_names() -> None:
    groups = ["toy/test_b", "toy/test_a"]
    before = [sample("x", 0, 1.0, group) for group in groups]
    found = compared(before, [sample("x", 0, 0.0, group) for group in groups])
    assert [flip.group for flip in found.regressed] == sorted(groups)


def test_partial_rewards_have_not_passed() -> None:
    found = compared([sample("x", 0, 1.0)], [sample("x", 0, 0.9)])
    assert (found.pooled.before, found.pooled.after) == (1, 0)


def test_long_names_leave_the_table_in_its_width() -> None:
    group = "mbpp-sanitized/" + "test_with_a_very_long_name_" * 4
    before = [sample("x", 0, 1.0, group), sample("x", 0, 1.0, "toy/a")]
    found = compared(before, [sample("x", 0, 0.0, group), sample("x", 0, 1.0, "toy/a")])
    lines = table(found, width=80, color=False).splitlines()
    assert len(lines) == 4
    assert max(map(len, lines)) <= 80
    assert lines[1].startswith("mbpp-san")
    [flip] = flips("regressed", found.regressed, width=80)
    assert len(flip) <= 80
    assert flip.endswith(" x: 1/1 -> 0/1")


def test_a_name_is_cut_in_its_middle() -> None:
    assert cut("abcdefghijklmnopqrstuvwxyz", 15) == "ab...qrstuvwxyz"
    assert cut("abc", 3) == "abc"
