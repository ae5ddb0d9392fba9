"""Would GRPO learn from the problems of this run: a preflight's numbers for its report."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_cwsandbox.reports.html.charts import signal_histogram
from pytest_cwsandbox.reports.preflight import facts
from pytest_cwsandbox.validation.preflight import Plan, preflight
from pytest_cwsandbox.validation.samples import of_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup

    from pytest_cwsandbox.outcome import SampleRecord
    from pytest_cwsandbox.validation.zero_variance import Share


@dataclass(frozen=True, slots=True)
class Signal:
    """What a page shows. ``facts`` are (name, text), the name "" where the one before goes on."""

    group_size: int
    ready: bool
    zero_variance: Share
    facts: tuple[tuple[str, str], ...]
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    histogram: Markup

    @property
    def word(self) -> str:
        return "READY" if self.ready else "NOT READY"


def signal_of(records: Sequence[SampleRecord]) -> Signal | None:
    """The signal of the groups that sample problems more than once; None where none does.

    GRPO's group is taken to be as large as the number of samples that most problems have.
    """
    rewarded = Counter((r.group, r.problem) for r in records if r.problem and r.reward is not None)
    groups = {group for (group, _), samples in rewarded.items() if samples > 1}
    if not groups:
        return None
    records = [record for record in records if record.group in groups]
    if len(groups) > 1:  # the same problem is another task in each
        records = [replace(r, problem=r.problem and f"{r.group} {r.problem}") for r in records]
    sizes = Counter(samples for (group, _), samples in rewarded.items() if group in groups)
    del sizes[1]
    group_size = max(sizes, key=lambda size: (sizes[size], size))
    found = preflight(of_records(records), Plan(group_size=group_size))
    if found.zero_variance is None:
        return None
    return Signal(
        group_size=group_size,
        ready=found.ready,
        zero_variance=found.zero_variance,
        facts=tuple(facts(found)),
        reasons=tuple(found.reasons),
        notes=tuple(found.notes),
        histogram=signal_histogram(problem.pass_rate for problem in found.problems),
    )
