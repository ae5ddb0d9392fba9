"""The `rollout` fixture: an agent's episode as a test's step, recorded as the item's sample."""

from __future__ import annotations

import asyncio
import dataclasses
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypedDict, Unpack

import pytest

from pytest_cwsandbox import items, opened, recording, tags
from pytest_cwsandbox.errors import ConfigurationError, InfrastructureError
from pytest_cwsandbox.problems import Problem
from pytest_cwsandbox.rollouts.model import ModelOptions
from pytest_cwsandbox.runs.identity import RUN
from pytest_cwsandbox.settings import SETTINGS
from pytest_cwsandbox.shares import SHARE

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from concurrent.futures import Future

    from cwsandbox import OperationRef, Session

    from pytest_cwsandbox.grading import Grader
    from pytest_cwsandbox.rollouts.limits import EpisodeLimits
    from pytest_cwsandbox.rollouts.options import RolloutOptions, TaskGrader
    from pytest_cwsandbox.rollouts.policy import Policy, PolicyFunction
    from pytest_cwsandbox.rollouts.tasks import Task
    from pytest_cwsandbox.rollouts.tools import Tool
    from pytest_cwsandbox.rollouts.trajectory import Trajectory
    from pytest_cwsandbox.settings import Settings

MODEL_FIELDS = frozenset(field.name for field in dataclasses.fields(ModelOptions))


class Changes(TypedDict, total=False):
    """What a call of ``rollout`` may set: fields of ``ModelOptions`` and ``RolloutOptions``."""

    model: str
    base_url: str
    api: str
    api_key: str
    temperature: float | None
    top_p: float | None
    max_tokens: int | None
    seed: int | None
    extra_body: dict[str, object]
    timeout_seconds: float
    retries: int
    price: tuple[float, float] | None
    alert_tool_calls: int | None
    limits: EpisodeLimits
    visible: int | None
    held_out: bool
    tools: tuple[Tool, ...]
    tool_seconds: float
    system_prompt: str
    task_grader: TaskGrader | None
    on_runaway: Callable[[str], None] | None


class Rollout(Protocol):
    """The type of the ``rollout`` fixture."""

    def __call__(
        self,
        goal: Problem | Task,
        *,
        policy: Policy | PolicyFunction | None = None,
        **changes: Unpack[Changes],
    ) -> OperationRef[Trajectory]: ...


class Rollouts:
    """What the rollouts of one process share: an event loop, connections, sandboxes."""

    def __init__(self, session: Session, grader: Grader, config: pytest.Config) -> None:
        from pytest_cwsandbox.background import Background
        from pytest_cwsandbox.rollouts.environment import Environment
        from pytest_cwsandbox.rollouts.models import Models

        run, settings = config.stash[RUN], config.stash[SETTINGS]
        self.background = Background()
        self.models = Models(run.folder, lifeline=run.controller)
        self.environment = Environment(
            session,
            grader,
            retries=settings.retries,
            concurrency=config.stash[SHARE].sandboxes,
            tags=tags.sandbox_tags(run=run.id, worker=run.worker, extra=settings.tags),
        )
        self.options = _options(settings)

    def close(self) -> None:
        self.background.submit(self.models.aclose()).result()
        self.background.close()


def _options(settings: Settings) -> RolloutOptions:
    from pytest_cwsandbox.rollouts.options import RolloutOptions

    return RolloutOptions(
        limits=settings.limits,
        visible=settings.visible_asserts,
        price=settings.model_price,
        alert_tool_calls=settings.alert_tool_calls,
    )


@pytest.fixture(scope="session")
def _cwsandbox_rollouts(
    cwsandbox_session: Session, _cwsandbox_grader: Grader, pytestconfig: pytest.Config
) -> Generator[Rollouts]:
    rollouts = Rollouts(cwsandbox_session, _cwsandbox_grader, pytestconfig)
    yield rollouts
    rollouts.close()


@pytest.fixture
def rollout(
    _cwsandbox_rollouts: Rollouts, request: pytest.FixtureRequest, sample: int
) -> Generator[Rollout]:
    """Runs an agent's episode on a problem or a task; awaited, or had with ``.result()``.

    The trajectory's reward becomes the item's, and the trajectory is kept in the run's folder.
    Raises ``InfrastructureError`` when the endpoint or the sandboxes failed after every retry,
    ``ConfigurationError`` for what cannot be judged, ``EndpointError`` (which stops the run) where
    the model's endpoint refuses every request.
    """
    with opened.at_turn(request.node, rolling_out, _cwsandbox_rollouts, sample) as start:
        yield start


@contextmanager
def rolling_out(item: pytest.Item, rollouts: Rollouts, sample: int) -> Generator[Rollout]:
    """The value of ``rollout``."""
    from pytest_cwsandbox.awaited import Awaited, check_awaited
    from pytest_cwsandbox.rollouts.runaway import RunawayWarning

    background = rollouts.background
    started: list[Future[Trajectory]] = []
    refs: list[Awaited[Trajectory]] = []
    running: set[asyncio.Task[object]] = set()
    runaways: list[str] = []
    usual = replace(rollouts.options, on_runaway=runaways.append)

    def start(
        goal: Problem | Task,
        *,
        policy: Policy | PolicyFunction | None = None,
        **changes: Unpack[Changes],
    ) -> OperationRef[Trajectory]:
        _check_goal(goal)
        if policy is not None and (asked := changes.keys() & MODEL_FIELDS):
            raise ConfigurationError(
                f"rollout() takes a policy or a model's {', '.join(sorted(asked))}, not both"
            )
        model, options = _changed(item.config.stash[SETTINGS].model, usual, changes)
        episode = _Episode(item, goal, sample, policy, model, options)
        started.append(background.start(episode.run(rollouts, running)))
        refs.append(Awaited(started[-1], "rollout"))
        return refs[-1]

    yield start
    for future in started:  # what a test left running goes with it, and its sandbox
        future.cancel()
    background.submit(_ended(running)).result()
    check_awaited(refs)
    for text in runaways:  # here, not where they happened: that is another thread
        item.warn(RunawayWarning(text))


async def _ended(running: set[asyncio.Task[object]]) -> None:
    await asyncio.gather(*running, return_exceptions=True)


def _check_goal(goal: object) -> None:
    from pytest_cwsandbox.rollouts.tasks import Task

    if not isinstance(goal, Problem | Task):
        raise ConfigurationError(f"rollout() takes a Problem or a Task, got {goal!r:.80}")


def _changed(
    model: ModelOptions, options: RolloutOptions, changes: Changes
) -> tuple[ModelOptions, RolloutOptions]:
    """The settings with a call's changes."""
    theirs = {field.name for field in dataclasses.fields(options)}
    known = sorted(MODEL_FIELDS | theirs)
    for name in changes.keys() - known:
        import difflib

        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"it knows {', '.join(known)}"
        raise ConfigurationError(f"rollout() knows no {name}; {hint}")
    mine = {name: value for name, value in changes.items() if name in MODEL_FIELDS}
    its = {name: value for name, value in changes.items() if name in theirs}
    return replace(model, **mine), replace(options, **its)  # type: ignore[arg-type]  # see Changes


@dataclasses.dataclass(frozen=True, slots=True)
class _Episode:
    item: pytest.Item
    goal: Problem | Task
    sample: int
    policy: Policy | PolicyFunction | None
    model: ModelOptions
    options: RolloutOptions

    async def run(self, rollouts: Rollouts, running: set[asyncio.Task[object]]) -> Trajectory:
        """Run it, keep its trajectory, and record its reward; ``running`` learns of the task."""
        from pytest_cwsandbox.rollouts.policy import as_policy
        from pytest_cwsandbox.rollouts.recorded import RecordedTrajectory, append

        if task := asyncio.current_task():
            running.add(task)
        policy: Policy
        if self.policy is None:
            policy = await rollouts.models.policy(self.model, sample=self.sample)
        else:
            policy = as_policy(self.policy)
        trajectory = await rollouts.environment.rollout(
            policy, self.goal, self.options, annotations={tags.TEST_ANNOTATION: self.item.nodeid}
        )
        trajectory = replace(trajectory, metadata={**trajectory.metadata, "sample": self.sample})
        group = items.group_of(self.item, self.goal)
        run = self.item.config.stash[RUN]
        append(
            run.folder,
            run.worker,
            RecordedTrajectory(
                recording.trajectory_id(self.item), group, self.goal.id, self.sample, trajectory
            ),
        )
        recording.record_trajectory(self.item, self.goal, trajectory)
        if trajectory.reward is None:
            raise InfrastructureError(trajectory.detail)
        return trajectory


@pytest.fixture
def task(request: pytest.FixtureRequest) -> Task:
    """The item's task; needs ``@pytest.mark.tasks``."""
    pytest.fail(
        f"{request.node.name} asks for `task`: mark it with @pytest.mark.tasks()", pytrace=False
    )
