"""Two runs beside each other, sample by sample: is the later one worse, and where.

The tests are one-sided for "the later run is worse" and exact; docs/gates.md says why.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from pytest_cwsandbox.runs.lines import natural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_cwsandbox.outcome import SampleRecord

MCNEMAR = "exact McNemar test"
PERMUTATION = "paired permutation test over problems"


@dataclass(frozen=True, slots=True)
class Paired:
    """Samples that both runs have a reward for, of one group or of all.

    ``before`` and ``after`` of the ``pairs`` passed. ``p_value`` is one-sided, of ``test``; None
    without pairs.
    """

    group: str
    pairs: int
    before: int
    after: int
    test: str
    p_value: float | None

    @property
    def rate_before(self) -> float | None:
        return self.before / self.pairs if self.pairs else None

    @property
    def rate_after(self) -> float | None:
        return self.after / self.pairs if self.pairs else None

    def regressed(self, alpha: float) -> bool:
        """Whether the later run is significantly worse."""
        return self.after < self.before and self.p_value is not None and self.p_value < alpha

    def to_json(self) -> dict[str, object]:
        return {
            **asdict(self),
            "rate_before": self.rate_before,
            "rate_after": self.rate_after,
        }


@dataclass(frozen=True, slots=True)
class Flip:
    """A problem of a group that ``before`` and ``after`` of its ``pairs`` passed.

    Where a sample has no problem, ``problem`` is the sample's id. ``samples`` are the ids of those
    that passed in one run only, and so made the difference.
    """

    problem: str
    group: str
    pairs: int
    before: int
    after: int
    samples: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The earlier run, called ``before``, and the later, called ``after``.

    ``groups`` are sorted by name. ``regressed`` and ``improved`` hold the problems that flipped,
    the largest change of the pass rate first, then by name. Of the earlier run's samples the later
    has not run ``missing`` and lost ``lost`` to infrastructure; ``new`` samples have a reward in
    the later run only.
    """

    before: str
    after: str
    pooled: Paired
    groups: tuple[Paired, ...]
    regressed: tuple[Flip, ...]
    improved: tuple[Flip, ...]
    missing: int
    lost: int
    new: int

    def to_json(self) -> dict[str, object]:
        return {
            "before": self.before,
            "after": self.after,
            "all": self.pooled.to_json(),
            "groups": [group.to_json() for group in self.groups],
            "regressed": [flip.to_json() for flip in self.regressed],
            "improved": [flip.to_json() for flip in self.improved],
            "missing": self.missing,
            "lost": self.lost,
            "new": self.new,
        }


@dataclass(frozen=True, slots=True)
class _Pair:
    id: str
    group: str
    problem: str
    before: bool
    after: bool


def compare(
    before: Iterable[SampleRecord], after: Iterable[SampleRecord], *, names: tuple[str, str]
) -> Comparison:
    """Pair the samples of two runs by id; ``names`` are what the runs are called."""
    earlier = {record.id: record for record in before if record.reward is not None}
    later = {record.id: record for record in after}
    scored = {name for name, record in later.items() if record.reward is not None}
    pairs = [
        _Pair(name, of.group, of.problem or name, _passed(earlier[name]), _passed(of))
        for name, of in later.items()
        if name in scored and name in earlier
    ]
    grouped = _by(pairs, lambda pair: pair.group)
    flips = [flip for group in grouped.values() for flip in _flips(group)]
    flips.sort(
        key=lambda flip: (
            -abs(flip.after - flip.before) / flip.pairs,
            natural(flip.problem),
            natural(flip.group),
        )
    )
    return Comparison(
        before=names[0],
        after=names[1],
        pooled=_paired("all", pairs),
        groups=tuple(_paired(group, grouped[group]) for group in sorted(grouped)),
        regressed=tuple(flip for flip in flips if flip.after < flip.before),
        improved=tuple(flip for flip in flips if flip.after > flip.before),
        missing=len(earlier.keys() - later.keys()),
        lost=len(earlier.keys() & later.keys() - scored),
        new=len(scored - earlier.keys()),
    )


def mcnemar(worse: int, better: int) -> float:
    """The exact test of McNemar 1947, one-sided: of the pairs that differ, so many are worse."""
    if not worse + better:
        return 1.0
    from scipy.stats import binomtest

    return float(binomtest(worse, worse + better, alternative="greater").pvalue)


def permutation(drops: Sequence[int]) -> float:
    """The paired permutation test: how often random signs make the drops sum to as much, or more.

    A drop is by how many samples of a problem fewer pass; their sum is what the pass rate lost.
    All the sign flips are counted, however many problems there are: with signs drawn at random, a
    drop's size counts towards the sum of the positive ones or does not, with even chances, and
    adding the sizes one by one gives that sum's distribution.
    """
    import numpy as np

    sizes = [abs(drop) for drop in drops if drop]
    chances = np.zeros(sum(sizes) + 1)
    chances[0] = 1.0
    for size in sizes:
        chances[size:] += chances[:-size].copy()
        chances /= 2
    return min(float(chances[sum(drop for drop in drops if drop > 0) :].sum()), 1.0)


def _paired(group: str, pairs: Sequence[_Pair]) -> Paired:
    problems = _by(pairs, lambda pair: pair.problem)
    drops = [sum(pair.before - pair.after for pair in each) for each in problems.values()]
    single = len(problems) == len(pairs)
    p_value = None
    if pairs:
        p_value = mcnemar(drops.count(1), drops.count(-1)) if single else permutation(drops)
    return Paired(
        group=group,
        pairs=len(pairs),
        before=sum(pair.before for pair in pairs),
        after=sum(pair.after for pair in pairs),
        test=MCNEMAR if single else PERMUTATION,
        p_value=p_value,
    )


def _flips(pairs: Sequence[_Pair]) -> list[Flip]:
    """The problems of a group whose pass rates differ."""
    flips = []
    for problem, of in _by(pairs, lambda pair: pair.problem).items():
        before, after = sum(pair.before for pair in of), sum(pair.after for pair in of)
        if before != after:
            changed = tuple(pair.id for pair in of if pair.before != pair.after)
            flips.append(Flip(problem, of[0].group, len(of), before, after, changed))
    return flips


def _by(pairs: Iterable[_Pair], key: Callable[[_Pair], str]) -> dict[str, list[_Pair]]:
    found: dict[str, list[_Pair]] = {}
    for pair in pairs:
        found.setdefault(key(pair), []).append(pair)
    return found


def _passed(record: SampleRecord) -> bool:
    return record.reward is not None and record.reward >= 1
