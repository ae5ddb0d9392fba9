"""Will GRPO learn from these problems? Numbers and a verdict, before a GPU is booked."""

from __future__ import annotations

import math
import statistics
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from pytest_cwsandbox.runs.intervals import wilson
from pytest_cwsandbox.validation.zero_variance import (
    PassRange,
    Share,
    chosen_and_equal,
    equal_rewards,
    share,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_cwsandbox.validation.samples import ProblemSamples, SampleFile


@dataclass(frozen=True, slots=True)
class Plan:
    """The training run to come, and what it takes to be ready.

    ``batch`` counts groups, one problem each. Without ``keep`` the run trains on every problem.
    ``bounds`` are what rewards may be; a sample passes with the upper one. ``min_samples`` (the
    group size when None) is compared with the median number of rewards per problem.
    """

    group_size: int = 8
    keep: PassRange | None = None
    batch: int = 32
    bounds: tuple[float, float] = (0.0, 1.0)
    min_samples: int | None = None
    max_zero_variance: float = 0.5
    max_infrastructure: float = 0.05


@dataclass(frozen=True, slots=True)
class ProblemSignal:
    """What one problem's samples say; ``zero_variance`` is the share of its groups."""

    task_id: str
    samples: int
    passed: int
    pass_rate: float
    interval: tuple[float, float]
    mean_reward: float
    variance: float | None
    values: int
    zero_variance: float
    kept: bool


@dataclass(frozen=True, slots=True)
class Preflight:
    """The numbers of a preflight; ready when there are no ``reasons`` against it.

    ``zero_variance`` is of all problems, ``training`` of those that the run trains on.
    ``noise`` is the reward's variance within problems, pooled over them.
    """

    plan: Plan
    problems: list[ProblemSignal]
    unscored: list[str]
    samples: int
    infrastructure: int
    not_finite: int
    zero_variance: Share | None
    training: Share | None
    held_out: bool
    noise: float | None
    reasons: list[str]
    notes: list[str]

    @property
    def ready(self) -> bool:
        return not self.reasons

    @property
    def kept(self) -> list[ProblemSignal]:
        return [problem for problem in self.problems if problem.kept]

    def to_json(self) -> dict[str, object]:
        plan, training = self.plan, self.training
        groups = training and [
            plan.batch * (1 - part) for part in (training.estimate, training.high, training.low)
        ]
        return {
            "ready": self.ready,
            "reasons": self.reasons,
            "notes": self.notes,
            "group_size": plan.group_size,
            "batch": plan.batch,
            "keep": plan.keep and [plan.keep.low, plan.keep.high],
            "samples": self.samples,
            "infrastructure": self.infrastructure,
            "not_finite": self.not_finite,
            "pass_rate": _mean([problem.pass_rate for problem in self.problems]),
            "zero_variance": self.zero_variance and self.zero_variance.to_json(),
            "training": training
            and {"problems": len(self.kept), "zero_variance": training.to_json()}
            | {"held_out": self.held_out},
            "effective_groups": groups,
            "effective_samples": groups and [count * plan.group_size for count in groups],
            "noise": self.noise,
            "problems": [asdict(problem) for problem in self.problems],
            "unscored": self.unscored,
        }


def preflight(file: SampleFile, plan: Plan) -> Preflight:
    """The numbers of these samples and the verdict on this plan; never raises for bad rewards."""
    scored = [problem for problem in file.problems if problem.rewards]
    problems = sorted(
        (_signal(problem, plan) for problem in scored),
        key=lambda problem: (problem.pass_rate, problem.mean_reward),
    )
    every = share([(problem.zero_variance, 1.0) for problem in problems])
    training, held_out = _training(scored, problems, every, plan)
    infrastructure = sum(problem.infrastructure for problem in file.problems)
    rewards = sum(problem.samples for problem in problems)
    odd = list(_not_finite(file.problems))
    reasons = [
        *_of_rewards(file.problems, odd, plan),
        *_of_counts(problems, infrastructure, rewards + len(odd), plan),
        *_of_training(problems, training, plan),
    ]
    notes = [*file.notes, *_notes(problems, training, plan, held_out=held_out)]
    return Preflight(
        plan=plan,
        problems=problems,
        unscored=[problem.task_id for problem in file.problems if not problem.rewards],
        samples=rewards,
        infrastructure=infrastructure,
        not_finite=len(odd),
        zero_variance=every,
        training=training,
        held_out=held_out,
        noise=_noise(problems),
        reasons=reasons,
        notes=notes,
    )


def _signal(problem: ProblemSamples, plan: Plan) -> ProblemSignal:
    rewards = problem.rewards
    passed = sum(reward >= plan.bounds[1] for reward in rewards)
    rate = passed / len(rewards)
    return ProblemSignal(
        task_id=problem.task_id,
        samples=len(rewards),
        passed=passed,
        pass_rate=rate,
        interval=wilson(passed, len(rewards)),
        mean_reward=statistics.fmean(rewards),
        variance=statistics.variance(rewards) if len(rewards) > 1 else None,
        values=len(set(rewards)),
        zero_variance=equal_rewards(rewards, plan.group_size),
        kept=plan.keep is None or rate in plan.keep,
    )


def _training(
    scored: Sequence[ProblemSamples],
    problems: Sequence[ProblemSignal],
    every: Share | None,
    plan: Plan,
) -> tuple[Share | None, bool]:
    """The share of the training set, and whether choice and estimate used different samples.

    They do when most problems have twice the group size, so that the choice rests on at least as
    many samples as a group has.
    """
    if plan.keep is None:
        return every, False
    kept = [(problem.zero_variance, 1.0) for problem in problems if problem.kept]
    enough = [p.rewards for p in scored if len(p.rewards) >= 2 * plan.group_size]
    if kept and 2 * len(enough) > len(scored):
        apart = share(
            [chosen_and_equal(r, plan.group_size, plan.keep, plan.bounds[1]) for r in enough]
        )
        if apart is not None:
            return apart, True
    return share(kept), False


def _noise(problems: Sequence[ProblemSignal]) -> float | None:
    """Pooled within-problem variance: sum (n - 1) s^2 / sum (n - 1), unbiased.

    For 0/1 rewards s^2 = n / (n - 1) * p (1 - p).
    """
    parts = [(p.samples - 1, p.variance) for p in problems if p.variance is not None]
    freedom = sum(n for n, _ in parts)
    return math.fsum(n * variance for n, variance in parts) / freedom if freedom else None


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _not_finite(problems: Sequence[ProblemSamples]) -> Iterator[str]:
    for problem in problems:
        for sample in problem.samples:
            if sample.reward is not None and not math.isfinite(sample.reward):
                yield f"{sample.reward} at {sample.where}"


def _of_rewards(
    problems: Sequence[ProblemSamples], odd: Sequence[str], plan: Plan
) -> Iterator[str]:
    low, high = plan.bounds
    if odd:
        yield f"rewards that are not finite: {len(odd)}, the first {odd[0]}"
    outside = [
        f"{sample.reward:g} at {sample.where}"
        for problem in problems
        for sample in problem.samples
        if sample.reward is not None
        and math.isfinite(sample.reward)
        and not low <= sample.reward <= high
    ]
    if outside:
        yield (
            f"rewards outside {low:g}:{high:g} (--bounds): {len(outside)}, the first {outside[0]}"
        )


def _of_counts(
    problems: Sequence[ProblemSignal], infrastructure: int, rewards: int, plan: Plan
) -> Iterator[str]:
    lost = infrastructure / max(infrastructure + rewards, 1)
    if lost > plan.max_infrastructure:
        yield (
            f"{lost:.1%} of the samples were lost to infrastructure, more than"
            f" {plan.max_infrastructure:.1%} (--max-infrastructure)"
        )
    if not problems:
        yield "no sample has a reward"
        return
    wanted = plan.min_samples or plan.group_size
    median = statistics.median(problem.samples for problem in problems)
    if median < wanted:
        yield (
            f"too few samples to tell: the median problem has {median:g}, fewer than {wanted}"
            " (--min-samples)"
        )


def _of_training(
    problems: Sequence[ProblemSignal], training: Share | None, plan: Plan
) -> Iterator[str]:
    if problems and training is None:
        rates = [problem.pass_rate for problem in problems]
        yield (
            f"no problem's pass rate is in {plan.keep} (--keep); they run from {min(rates):.1%}"
            f" to {max(rates):.1%}"
        )
    if training is not None and training.estimate > plan.max_zero_variance:
        yield (
            f"{training.estimate:.1%} of the groups will have no gradient, more than"
            f" {plan.max_zero_variance:.1%} (--max-zero-variance)"
        )


def _notes(
    problems: Sequence[ProblemSignal], training: Share | None, plan: Plan, *, held_out: bool
) -> Iterator[str]:
    if training is None:
        return
    if training.low <= plan.max_zero_variance <= training.high:
        yield "the interval includes the limit: sample more problems to be sure"
    few = sum(problem.samples < plan.group_size for problem in problems)
    if few:
        yield f"problems with fewer samples than a group: {few}, estimated with Jeffreys' prior"
    if plan.keep is not None and not held_out:
        yield (
            "the kept problems were chosen and measured on the same samples, which flatters them:"
            f" with {2 * plan.group_size} samples per problem the two are held apart"
        )
    kept = sum(problem.kept for problem in problems)
    if kept < plan.batch:
        yield f"problems to train on: {kept}, fewer than the {plan.batch} groups of a batch"
