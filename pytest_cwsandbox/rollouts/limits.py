"""How far an episode may go."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EpisodeLimits:
    """Each ends the episode with a stop reason of its own; None is no limit.

    ``turns`` counts answers of the model. ``wall_seconds`` counts the model's and the tools' time,
    not the wait for a sandbox. ``total_tokens`` counts prompt and answer of every request.
    """

    tool_calls: int | None = 20
    turns: int | None = None
    wall_seconds: float | None = 1200.0
    total_tokens: int | None = None
