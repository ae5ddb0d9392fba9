"""No secret reaches a file of a run."""

from __future__ import annotations

import json
import os
import re
from functools import lru_cache

HIDDEN = "[redacted]"
SHORTEST = 8  # a value such as "1" or "local" is no secret, and stands everywhere
_SECRET_NAME = re.compile(
    r"api[_-]?key|secret|token|passw(or)?d|credential|private[_-]?key|authorization|bearer",
    re.IGNORECASE,
)
_BEARER = re.compile(r"\b(Bearer\s+)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Whether what has this name is a secret: ``OPENAI_API_KEY``, ``hf_token``, ..."""
    return _SECRET_NAME.search(name) is not None


def redact(text: str) -> str:
    """The text without bearer tokens and without values of variables named like secrets."""
    for value in _secrets(tuple(os.environ.items())):
        text = text.replace(value, HIDDEN)
    return _BEARER.sub(rf"\1{HIDDEN}", text)


@lru_cache(maxsize=4)
def _secrets(environment: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """Secret values, as they stand in a text and as they stand in JSON; longest first."""
    values = {
        value for name, value in environment if len(value) >= SHORTEST and is_secret_name(name)
    }
    return tuple(
        sorted(values | {json.dumps(value)[1:-1] for value in values}, key=len, reverse=True)
    )
