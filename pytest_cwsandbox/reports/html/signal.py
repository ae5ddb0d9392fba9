"""Would GRPO learn from the problems of this run: a preflight's numbers for its report."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
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
    file = of_records(records)
    sizes = Counter(size for problem in file.problems if (size := len(problem.rewards)) > 1)
    if not sizes:
        return None
    group_size = max(sizes, key=lambda size: (sizes[size], size))
    found = preflight(file, Plan(group_size=group_size))
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
