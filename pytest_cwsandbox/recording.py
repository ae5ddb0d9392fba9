"""From what a test recorded to what travels on its report.

A **sample** is an item that recorded a reward; everything else is a check. One JSON text per
report, ``report.cwsandbox``, carries what the controller needs; it crosses xdist unchanged.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, SupportsFloat

import pytest

from pytest_cwsandbox.errors import EndpointError, InfrastructureError, UserError
from pytest_cwsandbox.findings import Finding
from pytest_cwsandbox.outcome import Outcome, SampleRecord, Verdict
from pytest_cwsandbox.parametrize import FIXTURES, Marked, marker
from pytest_cwsandbox.problems import Problem
from pytest_cwsandbox.rollouts.scripted import CANNOT
from pytest_cwsandbox.rollouts.tasks import Task
from pytest_cwsandbox.rollouts.trajectory import StopReason
from pytest_cwsandbox.runs.identity import RUN

if TYPE_CHECKING:
    from pytest_cwsandbox.rollouts.trajectory import Trajectory

# What the SDK raises when the service itself failed; it is not imported to find that out.
SERVICE_FAILURES = frozenset({"SandboxUnavailableError", "SandboxResourceExhaustedError"})

Status = Literal["", "infra", "low reward"]
STOPPED = "stopped"  # in the run's folder, made by the item that ends the run
ROLLOUT_METRICS = (
    "turns",
    "tool_calls",
    "tokens_in",
    "tokens_out",
    "cost",
)  # that a sample carries


@dataclass(slots=True)
class Recorded:
    """What is known of an item while it runs. ``reward`` is None for an infrastructure failure."""

    rewarded: bool = False
    reward: float | None = None
    verdict: str = ""
    detail: str = ""
    seconds: float = 0.0
    infrastructure: str = ""
    problem: str = ""
    rollouts: int = 0
    metadata: dict[str, str] = field(default_factory=dict)


FINDING = pytest.StashKey[Finding]()
RECORDED = pytest.StashKey[Recorded]()


def begin(item: pytest.Item) -> None:
    """Forget what an earlier attempt of the same item recorded."""
    item.stash[RECORDED] = Recorded()
    if FINDING in item.stash:
        del item.stash[FINDING]


def of(item: pytest.Item) -> Recorded:
    """The item's record, empty at first."""
    return item.stash.setdefault(RECORDED, Recorded())


def record(item: pytest.Item, value: Outcome | float | None, detail: str) -> None:
    """Note the item's reward; a later one replaces it. ``ValueError`` for NaN and infinity."""
    recorded = of(item)
    if isinstance(value, Outcome):
        recorded.reward = value.reward
        recorded.verdict = value.verdict.value
        recorded.detail = detail or value.detail
    else:
        if value is not None and not _is_finite(value):
            raise ValueError(f"a reward must be a finite number or None, got {value!r:.80}")
        recorded.reward = None if value is None else float(value)
        recorded.verdict = Verdict.INFRASTRUCTURE_ERROR.value if value is None else ""
        recorded.detail = detail
    recorded.rewarded = True
    lost = recorded.detail or "no reward was recorded"
    recorded.infrastructure = lost if recorded.reward is None else ""


def trajectory_id(item: pytest.Item) -> str:
    """The id of the item's next trajectory: a test may roll out more than once."""
    recorded = of(item)
    recorded.rollouts += 1
    return item.nodeid if recorded.rollouts == 1 else f"{item.nodeid}#{recorded.rollouts}"


def record_trajectory(item: pytest.Item, goal: Problem | Task, trajectory: Trajectory) -> None:
    """Note the reward of a rollout; a later one replaces it."""
    recorded = of(item)
    recorded.rewarded = True
    recorded.reward = trajectory.reward
    recorded.verdict = trajectory.verdict or trajectory.stop_reason.value
    recorded.detail = trajectory.detail
    recorded.problem = goal.id
    lost = trajectory.detail or "the rollout failed"
    recorded.infrastructure = lost if trajectory.reward is None else ""
    recorded.metadata = {
        "model": str(trajectory.metadata["model"]),
        "stop_reason": trajectory.stop_reason.value,
        **{
            name: f"{trajectory.metrics[name]:g}"
            for name in ROLLOUT_METRICS
            if name in trajectory.metrics
        },
    }
    if any(message["content"] == CANNOT for message in trajectory.messages):
        recorded.metadata["unknown"] = "yes"


def _is_finite(value: object) -> bool:
    try:
        return isinstance(value, SupportsFloat) and abs(float(value)) < float("inf")
    except (OverflowError, ValueError):
        return False


def annotate(
    item: pytest.Item,
    call: pytest.CallInfo[None],
    report: pytest.TestReport,
    *,
    gated: bool,
    worker: str,
) -> None:
    """Complete the report of one phase.

    With a gate set, an AssertionError in an item that recorded less than full reward is data: the
    report passes with the status "low reward". An infrastructure failure stays failed, so that
    ``--lf`` runs it again, with the status "infra". The teardown report carries the sample.
    """
    recorded = of(item)
    if call.when == "call":
        recorded.seconds = report.duration
    status: Status = ""
    if call.excinfo is not None:
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
            status = "infra"
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
            status = "low reward"
    sample = _sample(item, recorded, worker) if call.when == "teardown" else None
    finding = item.stash.get(FINDING, None) if call.when == "teardown" else None
    # Said before the call: a worker that dies in it says nothing afterwards.
    group = ""
    if call.when == "setup" and not FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
        group = group_of(item, _goal(item))
    if status or sample or finding or group:
        report.cwsandbox = json.dumps(  # type: ignore[attr-defined]  # reports carry what plugins add
            {
                "status": status,
                "group": group,
                "detail": recorded.infrastructure if status == "infra" else "",
                "sample": sample.to_json() if sample else None,
                "finding": finding.to_json() if finding else None,
            }
        )


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


def one_line(error: BaseException) -> str:
    """The error's message on one line."""
    return " ".join(str(error).split()) or type(error).__name__


def _sample(item: pytest.Item, recorded: Recorded, worker: str) -> SampleRecord | None:
    if not recorded.rewarded and not recorded.infrastructure:
        return None
    reward = None if recorded.infrastructure else recorded.reward
    goal = _goal(item)
    number = _parameters(item).get("sample")
    return SampleRecord(
        id=item.nodeid,
        group=group_of(item, goal),
        problem=recorded.problem or (goal.id if goal else ""),
        sample=number if isinstance(number, int) else 0,
        reward=reward,
        verdict=recorded.verdict if reward is not None else _lost_by(recorded),
        detail=recorded.infrastructure or recorded.detail,
        seconds=round(recorded.seconds, 4),
        worker=worker,
        metadata=recorded.metadata,
    )


def _lost_by(recorded: Recorded) -> str:
    """Why there is no reward: the endpoint's failure is told from that of the sandboxes."""
    by_model = recorded.verdict == StopReason.MODEL_ERROR.value
    return recorded.verdict if by_model else Verdict.INFRASTRUCTURE_ERROR.value


def _parameters(item: pytest.Item) -> dict[str, object]:
    callspec = getattr(item, "callspec", None)
    return dict(callspec.params) if callspec else {}


def _goal(item: pytest.Item) -> Problem | Task | None:
    """The item's problem or task; a test may have parameters of these names that are not ours."""
    given = _parameters(item)
    goals = (given.get("problem"), given.get("task"))
    return next((goal for goal in goals if isinstance(goal, Problem | Task)), None)


def group_of(item: pytest.Item, goal: Problem | Task | None) -> str:
    """``source/test function``, or ``source/NAME`` where the marker names the group."""
    name = getattr(item, "originalname", None) or item.name
    mark = marker(item)
    if mark is not None:
        name = Marked.of(mark).group or name
    source = goal.source if goal and mark else item.path.stem
    return f"{source}/{name}"
