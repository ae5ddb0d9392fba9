"""How much a graded program may use."""

from __future__ import annotations

from dataclasses import dataclass

OUTPUT_BYTES = 16 << 20  # returned values; what a program prints does not count


@dataclass(frozen=True, slots=True)
class Limits:
    """Enforced inside the sandbox, per process.

    ``wall_seconds`` does not count time spent waiting for a free CPU, so a starved machine does not
    turn a right program into a failure.
    """

    cpu_seconds: int = 20
    wall_seconds: float = 60
    memory_bytes: int = 1 << 30

    def arguments(self) -> list[str]:
        """As ``guard.py`` takes them."""
        return [str(self.cpu_seconds), str(self.wall_seconds), str(self.memory_bytes)]

    @property
    def outer_seconds(self) -> float:
        """When the SDK gives up on an exec: a program that gets here disarmed the inner limit."""
        return 2 * self.wall_seconds + 60
