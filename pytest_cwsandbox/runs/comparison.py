"""Two runs beside each other, sample by sample: is the later one worse, and where."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_cwsandbox.runs.journal import Entry


@dataclass(frozen=True, slots=True)
class Comparison:
    """The samples that both runs have, paired.

    ``test`` names the test, ``p_value`` is its one-sided p value for "the later run is worse".
    ``regressed`` and ``improved`` name the problems (or samples) that flipped; ``missing`` counts
    samples of the earlier run that the later one has no reward for, ``new`` those that only it has.
    """

    before: str
    test: str
    pairs: int
    rate_before: float | None
    rate_after: float | None
    p_value: float | None
    regressed: tuple[str, ...]
    improved: tuple[str, ...]
    missing: int
    new: int

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def compare(
    before: Mapping[str, Entry], after: Mapping[str, Entry], *, name: str = ""
) -> Comparison:
    """Pair the samples of two runs by id; ``name`` is what the earlier one is called."""
    raise NotImplementedError
