"""What a model is told of what it did."""

from __future__ import annotations

CHARACTERS = 8192


def observation(text: str) -> str:
    """At most ``CHARACTERS`` of it, the middle left out, and nothing that is no valid text."""
    raise NotImplementedError
