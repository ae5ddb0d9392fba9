"""What each process of a run may do of what the whole run may."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self, cast

import pytest

BATCH = 32  # that a single test may grade or roll out at once


@dataclass(frozen=True, slots=True)
class Share:
    """Of one process. ``in_flight`` is how many coroutine tests may be under way in it at once.

    1: tests run in order. ``processes`` are those that the run's items are divided among.
    """

    in_flight: int = 1
    processes: int = 1

    @property
    def sandboxes(self) -> int:
        """How many sandboxes of one fixture may be in use at once."""
        return max(BATCH, self.in_flight)

    def tell(self, workerinput: dict[str, object]) -> None:
        """Tell an xdist worker its share."""
        workerinput["cwsandbox_share"] = [self.in_flight, self.processes]

    @classmethod
    def from_controller(cls, workerinput: dict[str, object]) -> Self:
        return cls(*cast("tuple[int, int]", workerinput["cwsandbox_share"]))


SHARE = pytest.StashKey[Share]()
