"""From what a test recorded to what travels on its report.

A **sample** is an item that recorded a reward; everything else is a check. One JSON text per
report, ``report.cwsandbox``, carries what the controller needs; it crosses xdist unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, SupportsFloat

import pytest

from pytest_cwsandbox.errors import ConfigurationError
from pytest_cwsandbox.findings import Finding
from pytest_cwsandbox.items import about, goal_of, group_of, number_of, runs_tests
from pytest_cwsandbox.outcome import Outcome, SampleRecord, Verdict
from pytest_cwsandbox.rollouts.scripted import CANNOT
from pytest_cwsandbox.rollouts.trajectory import StopReason
from pytest_cwsandbox.runs import journal
from pytest_cwsandbox.runs.identity import RUN
from pytest_cwsandbox.runs.journal import Entry
from pytest_cwsandbox.runs.redaction import sample_id

if TYPE_CHECKING:
    from concurrent.futures import Future
    from pathlib import Path

    from pytest_cwsandbox.problems import Problem
    from pytest_cwsandbox.rollouts.tasks import Task
    from pytest_cwsandbox.rollouts.trajectory import Trajectory
    from pytest_cwsandbox.runs.journal import Ending, State

ROLLOUT_METRICS = (
    "turns",
    "tool_calls",
    "tokens_in",
    "tokens_out",
    "cost",
)  # that a sample carries


@dataclass(slots=True)
class Recorded:
    """What is known of an item while it runs. ``reward`` is None for an infrastructure failure.

    ``graded`` holds what the item's grades were of, to be found again by their outcomes;
    ``retries`` are those of anything but grades.
    """

    rewarded: bool = False
    reward: float | None = None
    verdict: str = ""
    detail: str = ""
    seconds: float = 0.0
    infrastructure: str = ""
    problem: str = ""
    rollouts: int = 0
    metadata: dict[str, str] = field(default_factory=dict)
    grader: str = ""
    completion: str = ""
    held_out: bool = False
    retries: int = 0
    attempt: int = 1
    ending: Ending = ""
    failure: str = ""
    asserted: bool = False
    replayed: bool = False
    graded: list[Graded] = field(default_factory=list)
    written: Entry | None = None  # the last in the journal

    @property
    def sample(self) -> bool:
        """Whether it is one: it has a reward, or lost it to the infrastructure."""
        return self.rewarded or bool(self.infrastructure)

    @property
    def made_good(self) -> int:
        """Failures of the infrastructure that retries made good."""
        outcomes = [graded.outcome for graded in self.graded]
        return self.retries + sum(outcome.retries for outcome in outcomes if outcome)


@dataclass(frozen=True, slots=True)
class Graded:
    """A grade that an item asked for."""

    future: Future[Outcome]
    grader: str
    problem: str
    completion: str
    held_out: bool

    @property
    def outcome(self) -> Outcome | None:
        """None while it is under way, and where it failed."""
        future = self.future
        failed = not future.done() or future.cancelled() or future.exception() is not None
        return None if failed else future.result()


FINDING = pytest.StashKey[Finding]()
RECORDED = pytest.StashKey[Recorded]()
ATTEMPTS = pytest.StashKey[int]()  # of the item that the journal knows of
_BEGUN = pytest.StashKey[bool]()  # ahead of its setup
NOTICES = pytest.StashKey[list[tuple[str, str]]]()  # on the config: to be told, and of what
TROUBLE = pytest.StashKey[str]()  # on the config: why this process cannot write the run's files


def begin_ahead(item: pytest.Item) -> None:
    """Begin an item whose coroutine starts before its setup."""
    begin(item)
    item.stash[_BEGUN] = True


def begin(item: pytest.Item) -> None:
    """Forget what an earlier attempt of the same item recorded."""
    if item.stash.get(_BEGUN, False):
        item.stash[_BEGUN] = False
        return
    item.stash[RECORDED] = Recorded(attempt=item.stash.get(ATTEMPTS, 0) + 1)
    if FINDING in item.stash:
        del item.stash[FINDING]


def of(item: pytest.Item) -> Recorded:
    """The item's record, empty at first."""
    return item.stash.setdefault(RECORDED, Recorded())


def note_grade(
    item: pytest.Item,
    future: Future[Outcome],
    *,
    grader: str,
    completion: str,
    problem: str = "",
    held_out: bool = False,
) -> None:
    """Remember what is graded, for the case that the outcome becomes the item's reward."""
    of(item).graded.append(Graded(future, grader, problem, completion, held_out))


def record(
    item: pytest.Item,
    value: Outcome | float | None,
    detail: str,
    metadata: Mapping[str, str | float] | None = None,
) -> None:
    """Note the item's reward; a later one replaces it.

    Raises ``ValueError`` for NaN and infinity, ``ConfigurationError`` for metadata and details that
    are no texts, and notes nothing then.
    """
    texts = _texts(metadata)
    if not isinstance(detail, str):
        raise ConfigurationError(f"record_reward: detail must be a text, got {_kind(detail)}")
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
    lost = recorded.detail or "the test recorded None"
    recorded.infrastructure = lost if recorded.reward is None else ""
    recorded.metadata = texts
    recorded.grader, recorded.completion, recorded.held_out = "", "", False
    for graded in recorded.graded:
        if value is not None and graded.outcome is value:
            recorded.problem = graded.problem
            recorded.grader, recorded.completion = graded.grader, graded.completion
            recorded.held_out = graded.held_out
    _write(item, _entry(item, recorded, "graded"))


def _texts(metadata: object) -> dict[str, str]:
    """What the caller gave as metadata; numbers and bools become texts."""
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise ConfigurationError(
            f"record_reward: metadata must be a dict of texts, got {_kind(metadata)}"
        )
    for name, value in metadata.items():
        if not isinstance(name, str):
            raise ConfigurationError(f"record_reward: metadata must have texts as keys: {name!r}")
        if not isinstance(value, str | Real):
            raise ConfigurationError(
                f"record_reward: metadata[{name!r}] must be a text, a number or a bool, "
                f"got {_kind(value)}"
            )
    return {str(name): str(value) for name, value in metadata.items()}


def _kind(value: object) -> str:
    return type(value).__name__


def trajectory_id(item: pytest.Item) -> str:
    """The id of the item's next trajectory: a test may roll out more than once."""
    recorded = of(item)
    recorded.rollouts += 1
    name = sample_id(item.nodeid)
    return name if recorded.rollouts == 1 else f"{name}#{recorded.rollouts}"


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
    submission = trajectory.metadata.get("submission")
    if isinstance(submission, str):
        recorded.grader, recorded.completion = "submission", submission
    recorded.held_out = bool(trajectory.metadata.get("held_out"))
    recorded.retries += int(trajectory.metrics.get("retries", 0))
    _write(item, _entry(item, recorded, "graded"))


def replay(item: pytest.Item, entry: Entry) -> None:
    """Record what the journal of an earlier run says of the item."""
    sample = entry.record
    item.stash[RECORDED] = Recorded(
        rewarded=True,
        reward=sample.reward,
        verdict=sample.verdict,
        detail=sample.detail,
        seconds=sample.seconds,
        problem=sample.problem,
        metadata=dict(sample.metadata),
        grader=sample.grader,
        completion=sample.completion,
        held_out=sample.held_out,
        retries=sample.retries,
        attempt=entry.attempt,
        ending=entry.ending,
        failure=entry.failure,
        asserted=entry.asserted,
        replayed=True,
    )


def conclude(item: pytest.Item) -> None:
    """Write down how the item ended."""
    recorded = of(item)
    if recorded.replayed:
        return
    # An item that was a sample in an earlier attempt, and now is none, says so.
    if recorded.sample or ATTEMPTS in item.stash:
        _write(item, _end_of(item, recorded))


def take_back(item: pytest.Item) -> None:
    """Let the item be none of the run: the run ends before its turn, as if it had not started."""
    item.stash[_BEGUN] = False
    begin(item)
    conclude(item)


def entry_of(item: pytest.Item) -> Entry | None:
    """The item's sample as it stands when the item ends; None when it is none."""
    recorded = of(item)
    return _end_of(item, recorded) if recorded.sample else None


def _write(item: pytest.Item, entry: Entry) -> None:
    """Put what is known of the item into this process's journal.

    A disk that takes no more does not cost a reward: reports carry it too. The run's end says so.
    Raises ``ConfigurationError`` for what no journal can hold.
    """
    recorded = of(item)
    if recorded.written == entry:
        return  # its coroutine ended before its turn, and nothing came after
    try:
        Entry.from_json(entry.to_json())
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"the sample cannot be written down: {error}") from None
    run = item.config.stash[RUN]
    if run.orphaned:
        return  # who continues the run does this item again
    if not runs_tests(item.config):
        return  # a fixture records before its test is left out
    item.stash[ATTEMPTS] = entry.attempt
    recorded.written = entry
    try:
        journal.append(run.folder, run.worker, entry)
    except OSError as error:
        item.config.stash[TROUBLE] = unwritable(run.folder, error)


def unwritable(folder: Path, error: OSError) -> str:
    """What to tell somebody whose run could not be written down."""
    return (
        f"the results could not be written to {folder}: {error.strerror}; "
        "choose another folder with --cwsandbox-report-dir"
    )


def _end_of(item: pytest.Item, recorded: Recorded) -> Entry:
    return _entry(item, recorded, "lost" if recorded.infrastructure else "ended")


def _entry(item: pytest.Item, recorded: Recorded, state: State) -> Entry:
    return Entry(
        _sample(item, recorded),
        state,
        recorded.attempt,
        recorded.ending,
        recorded.failure,
        recorded.asserted,
    )


def _is_finite(value: object) -> bool:
    try:
        return isinstance(value, SupportsFloat) and abs(float(value)) < float("inf")
    except (OverflowError, ValueError):
        return False


def _sample(item: pytest.Item, recorded: Recorded) -> SampleRecord:
    reward = None if recorded.infrastructure else recorded.reward
    goal = goal_of(item)
    return SampleRecord(
        id=sample_id(item.nodeid),
        group=group_of(item, goal),
        problem=recorded.problem or (goal.id if goal else ""),
        sample=number_of(item),
        reward=reward,
        verdict=_lost_by(recorded) if recorded.infrastructure else recorded.verdict,
        detail=recorded.infrastructure or recorded.detail,
        seconds=round(recorded.seconds, 4),
        worker=item.config.stash[RUN].worker,
        metadata={**about(goal), **recorded.metadata},
        grader=recorded.grader,
        completion=recorded.completion,
        held_out=recorded.held_out,
        retries=recorded.made_good,
    )


def _lost_by(recorded: Recorded) -> str:
    """Why there is no reward: the endpoint's failure is told from that of the sandboxes."""
    by_model = recorded.verdict == StopReason.MODEL_ERROR.value
    return recorded.verdict if by_model else Verdict.INFRASTRUCTURE_ERROR.value
