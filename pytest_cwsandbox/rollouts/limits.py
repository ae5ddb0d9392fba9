"""How far an episode may go."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_cwsandbox.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class EpisodeLimits:
    """Each ends the episode with a stop reason of its own; None is no limit.

    ``turns`` counts answers of the model. ``wall_seconds`` counts the model's and the tools' time,
    not the wait for a sandbox. ``total_tokens`` counts prompt and answer of every request. Raises
    ``ConfigurationError`` for limits that nothing could keep.
    """

    tool_calls: int | None = 20
    turns: int | None = None
    wall_seconds: float | None = 1200.0
    total_tokens: int | None = None

    def __post_init__(self) -> None:
        for name in ("tool_calls", "turns", "total_tokens"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise ConfigurationError(
                    f"{name} must be a whole number of at least 1 or None, got {value!r}"
                )
        if self.wall_seconds is not None and not self.wall_seconds > 0:
            raise ConfigurationError(
                f"wall_seconds must be above 0 or None, got {self.wall_seconds!r}"
            )
