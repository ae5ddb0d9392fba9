"""Completing pytest's reports: what became of an item, in one JSON text that crosses xdist."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import pytest

from pytest_cwsandbox.errors import EndpointError, InfrastructureError, UserError, one_line
from pytest_cwsandbox.items import goal_of, group_of
from pytest_cwsandbox.parametrize import FIXTURES
from pytest_cwsandbox.recording import (
    FINDING,
    NOTICES,
    TROUBLE,
    Recorded,
    conclude,
    entry_of,
    of,
)
from pytest_cwsandbox.runs.identity import RUN

if TYPE_CHECKING:
    from pytest_cwsandbox.runs.journal import Entry

# What the SDK raises when the service itself failed; it is not imported to find that out.
SERVICE_FAILURES = frozenset({"SandboxUnavailableError", "SandboxResourceExhaustedError"})

Status = Literal["", "infra", "low reward", "subtest lost"]
STOPPED = "stopped"  # in the run's folder, made by the item that ends the run


def annotate(
    item: pytest.Item,
    call: pytest.CallInfo[None],
    report: pytest.TestReport,
    *,
    gated: bool,
) -> None:
    """Complete the report of one phase.

    With a gate set, an AssertionError in an item that recorded less than full reward is data: the
    report passes with the status "low reward". An infrastructure failure stays failed, so that
    ``--lf`` runs it again, with the status "infra". The teardown report carries the sample.
    """
    recorded = of(item)
    if not recorded.replayed and (call.when == "call" or call.excinfo is not None):
        _note_end(call, report, recorded)
    status = _status(item, call, report, recorded, gated=gated)
    told: dict[str, object] = {"status": status} if status else {}
    if status == "infra":
        told["detail"] = recorded.infrastructure
    # Said before the call: a worker that dies in it says nothing afterwards.
    if call.when == "setup" and not FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
        told["group"] = group_of(item, goal_of(item))
    if call.when == "teardown":
        told |= _conclude(item, report, recorded)
    if recorded.replayed:
        told["replayed"] = True
        if report.failed and call.when == "call":
            report.longrepr = f"replayed from the journal\n{recorded.failure}"
    if told:
        report.cwsandbox = json.dumps(told)  # type: ignore[attr-defined]  # reports carry what plugins add


def _conclude(
    item: pytest.Item, report: pytest.TestReport, recorded: Recorded
) -> dict[str, object]:
    """What the last report of an item tells."""
    told: dict[str, object] = {}
    try:
        conclude(item)
    except UserError as error:
        report.outcome = "failed"
        report.longrepr = f"cwsandbox: {error}"
    else:
        if entry := entry_of(item):
            told["sample"] = _light(entry).to_json()
    if finding := item.stash.get(FINDING, None):
        told["finding"] = finding.to_json()
    if recorded.made_good and not recorded.replayed:
        told["retries"] = recorded.made_good
    if trouble := item.config.stash.get(TROUBLE, ""):
        told["trouble"] = trouble
    if notices := item.config.stash.get(NOTICES, []):
        told["notices"] = [*notices]
        notices.clear()
    return told


def note_ahead(item: pytest.Item, error: BaseException | None, seconds: float) -> None:
    """Write down how the coroutine of a sample ended before its turn, if that says it all.

    A process that is killed before the turn loses nothing then.
    """
    recorded = of(item)
    if not recorded.rewarded or recorded.reward is None or any(item.iter_markers("xfail")):
        return
    if error is not None:
        failed = isinstance(error, Exception | pytest.fail.Exception)
        ends = EndpointError | pytest.exit.Exception  # the run, at the item's turn
        if not failed or isinstance(error, ends | pytest.xfail.Exception):
            return
        if is_infrastructure(error):
            return
    recorded.seconds = seconds
    recorded.asserted = isinstance(error, AssertionError)
    recorded.ending = "passed" if error is None else "failed"
    if error is not None:
        recorded.failure = str(item.repr_failure(pytest.ExceptionInfo.from_exception(error)))
    with suppress(UserError):  # the turn brings it up again
        conclude(item)
    recorded.ending, recorded.failure, recorded.asserted = "", "", False


def _note_end(call: pytest.CallInfo[None], report: pytest.TestReport, recorded: Recorded) -> None:
    """Note how the test function ended, or why a fixture failed.

    A subtest comes here as a call too, before the test that it is of: that fails where one has.
    """
    error = call.excinfo.value if call.excinfo else None
    before = recorded.failure if call.when == "call" and recorded.ending == "failed" else ""
    if call.when == "call":
        recorded.seconds = report.duration
        # One before the reward is no word on it.
        asserted = isinstance(error, AssertionError) and recorded.rewarded
        recorded.asserted = (
            (asserted or error is None) and recorded.asserted if before else asserted
        )
    else:
        recorded.asserted = False
    if before:
        recorded.failure = "\n\n".join(filter(None, (before, report.longreprtext)))
    elif report.skipped and hasattr(report, "wasxfail"):  # by pytest.xfail, or by a marker
        recorded.ending, recorded.failure = "xfailed", str(report.wasxfail)
    elif isinstance(error, pytest.skip.Exception):
        recorded.ending, recorded.failure = "skipped", str(error.msg)
    elif error is not None:
        recorded.ending, recorded.failure = "failed", report.longreprtext
    else:
        recorded.ending, recorded.failure = "passed", ""


def _status(
    item: pytest.Item,
    call: pytest.CallInfo[None],
    report: pytest.TestReport,
    recorded: Recorded,
    *,
    gated: bool,
) -> Status:
    """What the phase is called, where that is not pytest's own word; the report is made to fit."""
    if call.excinfo is None:
        none = recorded.rewarded and recorded.reward is None  # the test said so itself
        lost = call.when == "call" and recorded.infrastructure and not none
        return "subtest lost" if lost else ""
    error = call.excinfo.value
    if isinstance(error, EndpointError) and "rollout" in getattr(item, "fixturenames", ()):
        _stop(item, error, report)
    elif isinstance(error, UserError):  # its message says what and the remedy
        report.longrepr = f"{_line_of(item, call.excinfo)}cwsandbox: {error}"
    elif is_infrastructure(error):
        # Also where the test is expected to fail: this says nothing of what it tests.
        report.outcome = "failed"
        if hasattr(report, "wasxfail"):
            del report.wasxfail
        recorded.infrastructure = one_line(error)
        return "infra"
    elif (
        gated
        and report.outcome == "failed"
        and call.when == "call"
        and isinstance(error, AssertionError)
        and recorded.rewarded
        and recorded.reward is not None
        and recorded.reward < 1
    ):
        report.outcome = "passed"
        report.longrepr = None
        return "low reward"
    return ""


def _line_of(item: pytest.Item, failure: pytest.ExceptionInfo[BaseException]) -> str:
    """Where in the test's own file it happened, such as "test_agent.py:7: "."""
    lines = [entry.lineno + 1 for entry in failure.traceback if entry.path == item.path]
    return f"{item.path.name}:{lines[-1]}: " if lines else ""


def _stop(item: pytest.Item, error: EndpointError, report: pytest.TestReport) -> None:
    """Every other rollout would fail alike: end the run, and say why once in all its processes."""
    reason = f"cwsandbox: {error}"
    folder = item.config.stash[RUN].folder
    folder.mkdir(parents=True, exist_ok=True)
    try:
        (folder / STOPPED).touch(exist_ok=False)
        report.longrepr = reason
    except FileExistsError:
        report.outcome = "skipped"
        report.longrepr = (str(item.path), 0, "Skipped: another item has stopped the run")
    item.session.shouldstop = "cwsandbox: the model's endpoint refuses every request"


def is_infrastructure(error: BaseException) -> bool:
    """Whether only the infrastructure is to blame, also inside exception groups."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_infrastructure(inner) for inner in error.exceptions)
    return isinstance(error, InfrastructureError) or any(
        cls.__module__ == "cwsandbox.exceptions" and cls.__name__ in SERVICE_FAILURES
        for cls in type(error).__mro__
    )


def _light(entry: Entry) -> Entry:
    """The entry without what is too much for a report: that is in the journal."""
    return replace(entry, record=replace(entry.record, completion=""), failure="")
