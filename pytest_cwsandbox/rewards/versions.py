"""Which release of TRL can be given None."""

from __future__ import annotations

import sys
import warnings
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from pytest_cwsandbox.rewards.log import LOGGER

NONE_IS_LEFT_OUT = (1, 6)


@cache
def check_trl() -> None:
    """Warn once where TRL is in use and sums a sample without a reward to 0.0."""
    if "trl" not in sys.modules:
        return
    try:
        installed = version("trl")
    except PackageNotFoundError:
        return
    if complaint := complaint_about(installed):
        LOGGER.warning(complaint)
        warnings.warn(complaint, RuntimeWarning, stacklevel=3)


def complaint_about(installed: str) -> str:
    """What is wrong with a release of TRL, "" if nothing."""
    numbers = tuple(int(part) for part in installed.split(".")[:2] if part.isdecimal())
    if numbers >= NONE_IS_LEFT_OUT:
        return ""
    return (
        f"trl {installed} counts a completion that could not be graded (None) as 0.0, so that "
        "failing sandboxes teach the model: install trl>=1.6, or use "
        'CodeReward(on_infrastructure="raise")'
    )
