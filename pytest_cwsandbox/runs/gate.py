"""The verdict of a run: which gates hold, and the exit code that says so.

Each line ends in its word. MISSED fails the run; without one, INCONCLUSIVE ends it with 75; what is
met, tolerated or not judged changes nothing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Literal

from pytest_cwsandbox.runs.statistics import summarise

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from pytest_cwsandbox.runs.comparison import Comparison
    from pytest_cwsandbox.runs.statistics import GroupSummary

    _Judge = Callable[[GroupSummary, float], tuple[str, float]]

INCONCLUSIVE = 75  # EX_TEMPFAIL of sysexits.h: try again
NO_SAMPLES = " (tests record one with the fixture record_reward or rollout)"
Word = Literal["met", "MISSED", "not judged", "INCONCLUSIVE", "tolerated"]


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What rates are to be reached: over all samples pooled, and in groups by name.

    ``lenient`` ones, which stand in the ini file, may name groups that a run does not collect: one
    file of many may be run.
    """

    pooled: float | None = None
    groups: Mapping[str, float] = field(default_factory=dict, hash=False)
    lenient: bool = False

    def __bool__(self) -> bool:
        return self.pooled is not None or bool(self.groups)


@dataclass(frozen=True, slots=True)
class Gates:
    """The gates of a run. Rates and ``alpha`` are shares from 0 to 1."""

    pass_rate: Thresholds = Thresholds()
    pass_rate_lower: Thresholds = Thresholds()
    max_infra_rate: float = 0.0
    alpha: float = 0.05


@dataclass(frozen=True, slots=True)
class Judged:
    """A line of the verdict as data. ``group`` is None for all samples pooled.

    ``threshold`` and ``value`` are shares; of the baseline alpha and the p value. ``value`` is None
    where there was nothing to judge.
    """

    gate: Literal["infrastructure", "pass_rate", "pass_rate_lower", "baseline"]
    group: str | None
    threshold: float
    value: float | None
    word: Word

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "word": self.word.lower()}


@dataclass(frozen=True, slots=True)
class Decision:
    """``missed`` fails the run; ``inconclusive`` makes it exit with 75 unless something failed."""

    missed: bool
    inconclusive: bool
    lines: tuple[str, ...]
    judged: tuple[Judged, ...] = ()

    @property
    def word(self) -> str:
        """One for all of it, in small letters; "" where nothing was asked for."""
        if self.missed or self.inconclusive:
            return "missed" if self.missed else "inconclusive"
        words = {judged.word for judged in self.judged}
        kinds: tuple[Word, ...] = ("met", "not judged", "tolerated")
        found = next((word for word in kinds if word in words), "")
        return found or ("not judged" if self.lines else "")


# Where pytest's own exit codes, such as that of Ctrl-C, do not say that it did not get to its end.
UNFINISHED = Decision(
    missed=False, inconclusive=True, lines=("gates: the run was cut short: not judged",)
)


def decide(
    groups: Sequence[GroupSummary],
    pooled: GroupSummary,
    gates: Gates,
    comparison: Comparison | None = None,
    collected: Collection[str] = (),
) -> Decision:
    """Judge the samples; ``collected`` are the groups of the samples that were to run.

    A gate without a single sample is missed, since nothing was shown, unless the infrastructure is
    to blame.
    """
    said: list[tuple[str, Judged]] = []
    if pooled.infrastructure_errors:
        said.append(_infrastructure(pooled, gates.max_infra_rate))
    kinds: tuple[tuple[str, Literal["pass_rate", "pass_rate_lower"], Thresholds, _Judge], ...] = (
        ("pass rate gate", "pass_rate", gates.pass_rate, _rate),
        ("lower end gate", "pass_rate_lower", gates.pass_rate_lower, _lower),
    )
    for gate, kind, thresholds, judge in kinds:
        for name, of in _subjects(thresholds, groups, pooled, collected):
            named = f"{gate} of {name}" if name else gate
            wanted = thresholds.groups[name] if name else thresholds.pooled or 0.0
            value: float | None = None
            word: Word
            if of is None:
                line, word = "not in this run", _lost(pooled)
            elif not of.samples:
                hint = "" if pooled.infrastructure_errors or pooled.samples else NO_SAMPLES
                line = f"no sample has a reward{hint}"
                word = _lost(pooled) if of.infrastructure_errors else "MISSED"
            else:
                line, value = judge(of, wanted)
                word = "met" if value >= wanted else "MISSED"
            said.append((f"{named}: {line}", Judged(kind, name or None, wanted, value, word)))
    if comparison is not None:
        said.append(_compared(comparison, pooled, gates.alpha))
    words = {judged.word for _, judged in said}
    return Decision(
        missed="MISSED" in words,
        inconclusive="INCONCLUSIVE" in words,
        lines=tuple(f"{line}: {judged.word}" for line, judged in said),
        judged=tuple(judged for _, judged in said),
    )


def _infrastructure(pooled: GroupSummary, allowed: float) -> tuple[str, Judged]:
    lost, items = pooled.infrastructure_errors, pooled.samples + pooled.infrastructure_errors
    share = lost / items
    actual, most = _apart(share, allowed, digits=1)
    line = f"infrastructure: {lost} of {items} items lost ({actual}, at most {most} allowed)"
    word: Word = "INCONCLUSIVE" if share > allowed else "tolerated"
    return line, Judged("infrastructure", None, allowed, share, word)


def _subjects(
    thresholds: Thresholds,
    groups: Sequence[GroupSummary],
    pooled: GroupSummary,
    collected: Collection[str],
) -> Iterator[tuple[str, GroupSummary | None]]:
    """What is judged, by name: "" is all samples pooled, None a group that is not in this run."""
    if thresholds.pooled is not None:
        yield "", pooled
    known = {group.group: group for group in groups}
    for name in thresholds.groups:
        absent = thresholds.lenient and name not in collected
        yield name, known.get(name, None if absent else summarise(name, ()))


def _rate(of: GroupSummary, wanted: float) -> tuple[str, float]:
    rate = of.passed / of.samples
    actual, least = _apart(rate, wanted)
    passed = f"{of.passed} of {of.samples} samples passed"
    return f"{passed} ({actual}, at least {least} asked for)", rate


def _lower(of: GroupSummary, wanted: float) -> tuple[str, float]:
    low = of.interval[0] if of.interval else 0.0
    actual, least = _apart(low, wanted)
    passed = f"{of.passed} of {of.samples} samples passed"
    return f"{passed} (95% interval from {actual}, at least {least} asked for)", low


def _compared(comparison: Comparison, pooled: GroupSummary, alpha: float) -> tuple[str, Judged]:
    of = comparison.pooled
    word: Word
    if of.p_value is None:
        line = "baseline gate: no sample in common"
        word = _lost(pooled) if comparison.lost else "MISSED"
    else:
        p_value, level = _apart(of.p_value, alpha, "{:.{}g}")
        passed = f"{of.before} of {of.pairs} samples passed before, {of.after} now"
        line = f"baseline gate: {passed} (p {p_value}, significant below {level})"
        word = "MISSED" if of.regressed(alpha) else "met"
    return line, Judged("baseline", None, alpha, of.p_value, word)


def _lost(pooled: GroupSummary) -> Word:
    """Of what was lost nothing can be said; where all was, nothing of the run, even if allowed."""
    all_of_it = pooled.infrastructure_errors and not pooled.samples
    return "INCONCLUSIVE" if all_of_it else "not judged"


def _apart(value: float, limit: float, form: str = "{:.{}%}", digits: int = 2) -> tuple[str, str]:
    """Both as text, with so many digits that they differ where the numbers do."""
    most = digits if value == limit else 17
    for shown in range(digits, most + 1):
        texts = form.format(value, shown), form.format(limit, shown)
        if texts[0] != texts[1]:
            break
    return texts
