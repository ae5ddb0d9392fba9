"""What a call of a reward function says: a line for people, numbers for the trainer."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pytest_cwsandbox.outcome import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_cwsandbox.outcome import Outcome

LOGGER = logging.getLogger("pytest_cwsandbox.rewards")


def report(
    name: str, call: int, outcomes: Sequence[Outcome], columns: Mapping[str, object]
) -> None:
    """Log one line, and give the numbers to TRL's ``log_metric`` and ``log_extra`` if passed."""
    LOGGER.info("Reward call %d: %s", call, summary(outcomes))
    warn_of_losses(name, outcomes)
    log_metric, log_extra = columns.get("log_metric"), columns.get("log_extra")
    if callable(log_metric) and outcomes:
        for metric, value in metrics(outcomes).items():
            log_metric(f"{name}/{metric}", value)
    if callable(log_extra):
        log_extra(f"{name}/verdict", [outcome.verdict.value for outcome in outcomes])
        log_extra(f"{name}/detail", [outcome.detail for outcome in outcomes])


def warn_of_losses(name: str, outcomes: Sequence[Outcome]) -> None:
    """Say why there are rewards missing, where logging is not set up too."""
    lost = [each.detail for each in outcomes if each.verdict is Verdict.INFRASTRUCTURE_ERROR]
    if lost:
        LOGGER.warning(
            "%s: %d of %d rewards lost to infrastructure, the last because: %s",
            name,
            len(lost),
            len(outcomes),
            lost[-1] or "unknown",
        )


def summary(outcomes: Sequence[Outcome]) -> str:
    """Such as ``2 sandboxes, 1/2 passed, 1 skipped (no code), 1 lost to infrastructure``."""
    passed, skipped, lost = _counts(outcomes)
    text = f"{sum(outcome.sandboxes for outcome in outcomes)} sandboxes"
    text += f", {passed}/{len(outcomes) - skipped - lost} passed"
    if skipped:
        text += f", {skipped} skipped (no code)"
    if lost:
        text += f", {lost} lost to infrastructure"
    return text


def metrics(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """``pass_rate`` is of the completions that have a reward; the others are of all."""
    passed, skipped, lost = _counts(outcomes)
    count = len(outcomes)
    rates = {
        "no_code_rate": skipped / count,
        "infra_rate": lost / count,
        "sandboxes": float(sum(outcome.sandboxes for outcome in outcomes)),
        "seconds": max(outcome.seconds for outcome in outcomes),
    }
    return rates if lost == count else {"pass_rate": passed / (count - lost), **rates}


def _counts(outcomes: Sequence[Outcome]) -> tuple[int, int, int]:
    verdicts = [outcome.verdict for outcome in outcomes]
    return (
        verdicts.count(Verdict.PASSED),
        verdicts.count(Verdict.NO_CODE),
        verdicts.count(Verdict.INFRASTRUCTURE_ERROR),
    )
