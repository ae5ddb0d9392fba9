"""Sending a request again: when, and how long to wait before."""

from __future__ import annotations

import math
import random
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from pytest_cwsandbox.rollouts.policy import FAILED_ATTEMPTS

if TYPE_CHECKING:
    from collections.abc import Mapping

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 8.0  # seconds between attempts, the openai client's own
LONGEST_ASKED = 60.0  # an endpoint that wants longer is asked again after these seconds
PASSING = {408, 409, 429}


def may_pass(status: int | None, headers: Mapping[str, str]) -> bool:
    """Whether the openai client would send again: it believes the endpoint, if that says so."""
    said = headers.get("x-should-retry")
    if said in {"true", "false"}:
        return said == "true"
    return status is None or status in PASSING or status >= 500


def asked_pause(headers: Mapping[str, str]) -> float | None:
    """Seconds that an endpoint asks to wait; None when it does not, or asks for nothing sane."""
    for header, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        said = headers.get(header, "")
        try:
            seconds = float(said) * unit
        except ValueError:
            seconds = _until(said)
        if math.isfinite(seconds) and seconds > 0:
            return min(seconds, LONGEST_ASKED)
    return None


def _until(date: str) -> float:
    try:
        return parsedate_to_datetime(date).timestamp() - time.time()
    except (TypeError, ValueError, OverflowError):
        return math.nan


def pause(attempt: int, asked: float | None) -> float:
    """Seconds to wait after an attempt, counted from 0: longer each time, and never in step."""
    if asked is not None:
        return asked
    spread = 1 - random.random() / 4  # noqa: S311 - nothing to do with secrets
    return min(FIRST_PAUSE * 2.0 ** min(attempt, 10), LONGEST_PAUSE) * spread


def note(failure: str) -> None:
    """Tell the episode that the endpoint, and not the model, takes the time from now on."""
    if (failures := FAILED_ATTEMPTS.get()) is not None:
        failures.append(failure)


def forget() -> None:
    """Tell the episode that the model has its chance again."""
    if (failures := FAILED_ATTEMPTS.get()) is not None:
        failures.clear()
