"""Episodes in sandboxes as ART's trajectories, and groups of them."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import secrets
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from pytest_cwsandbox import tags
from pytest_cwsandbox.connections import connected
from pytest_cwsandbox.errors import ConfigurationError, InfrastructureError
from pytest_cwsandbox.export.art import art_trajectory, loss, trajectory_row
from pytest_cwsandbox.grading import Grader
from pytest_cwsandbox.rollouts.environment import Environment
from pytest_cwsandbox.rollouts.model import ModelOptions, client_policy
from pytest_cwsandbox.rollouts.policy import as_policy
from pytest_cwsandbox.sessions import agent_session, judge_session

# ART's import would ask the network for the prices of models.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    import art
    from cwsandbox import Session
    from openai import AsyncOpenAI

    from pytest_cwsandbox.backend import BackendOptions
    from pytest_cwsandbox.problems import Problem
    from pytest_cwsandbox.rollouts.options import RolloutOptions
    from pytest_cwsandbox.rollouts.policy import Policy, PolicyFunction
    from pytest_cwsandbox.rollouts.tasks import Task
    from pytest_cwsandbox.rollouts.trajectory import Trajectory

    Observer = Callable[[Trajectory], object]

# A GPU that serves many rollouts at once may keep one waiting; ART's own client waits as long.
SAMPLING = ModelOptions(temperature=1.0, timeout_seconds=1200.0)


class TrainableModel(Protocol):
    """What is needed of ``art.TrainableModel``."""

    def openai_client(self) -> AsyncOpenAI: ...

    def get_inference_name(self) -> str: ...


def on_policy(model: TrainableModel, sampling: ModelOptions | None = None) -> Policy:
    """The model that is being trained, as it is served now, as a policy.

    Logprobs are asked for: ART learns from nothing else. ``sampling`` defaults to temperature 1,
    as on-policy training wants it; its model and address are not used.
    """
    options = sampling or SAMPLING
    return client_policy(
        model.openai_client(),
        replace(
            options,
            model=model.get_inference_name(),
            extra_body={"logprobs": True, **options.extra_body},
        ),
    )


@contextlib.asynccontextmanager
async def open_environment(
    *,
    backend: BackendOptions | None = None,
    extra_tags: Sequence[str] = (),
    concurrency: int = 32,
    faults: Sequence[str] = (),
) -> AsyncIterator[tuple[Environment, Session]]:
    """Where rollouts run, outside pytest, and the session that counts what agents execute.

    Sandboxes are on ``backend``, by default the hosted service where there are credentials and the
    local runner elsewhere, which is started, with ``faults`` injected, and ended. They carry
    ``extra_tags`` beside the usual ones, and at most ``concurrency`` run at once.
    """
    sandbox_tags = tags.sandbox_tags(
        run=f"art-{secrets.token_hex(8)}", worker="main", extra=tuple(extra_tags)
    )
    with (
        connected(backend, faults=faults, sandbox_tags=sandbox_tags) as defaults,
        agent_session(defaults) as agents,
        judge_session(agents) as judges,
        contextlib.closing(Grader(judges, concurrency=concurrency)) as grader,
    ):
        yield Environment(agents, grader, concurrency=concurrency, tags=sandbox_tags), agents


async def rollout(
    model: TrainableModel,
    problem: Problem | Task,
    *,
    environment: Environment,
    policy: Policy | PolicyFunction | None = None,
    options: RolloutOptions | None = None,
    sample: int = 0,
    observer: Observer | None = None,
) -> art.Trajectory:
    """Run one episode and return it as a finished trajectory of ART.

    ``policy`` speaks, by default ``on_policy(model)``. ``observer`` is shown every episode as it
    was recorded, also those that are lost. Raises ``InfrastructureError`` for an episode without a
    reward, ``ModelError`` where the endpoint was at fault: ART's group records them, if
    ``max_exceptions`` of ``gather_trajectory_groups``, by default 0, allows it.
    """
    started = datetime.now()  # noqa: DTZ005 - ART subtracts it from another naive one
    trajectory = await environment.rollout(
        as_policy(policy) if policy is not None else on_policy(model), problem, options
    )
    if observer is not None:
        observer(trajectory)
    if trajectory.reward is None:
        raise loss(trajectory)
    if not math.isfinite(trajectory.reward):
        raise ConfigurationError(
            f"{problem.task_id}: its grader returned {trajectory.reward}, rewards must be finite"
        )
    return art_trajectory(trajectory_row(trajectory, sample=sample), start_time=started).finish()


async def collect_trajectory_group(
    model: TrainableModel,
    problem: Problem | Task,
    samples: int,
    *,
    environment: Environment,
    policy: Policy | PolicyFunction | None = None,
    options: RolloutOptions | None = None,
    observer: Observer | None = None,
) -> art.TrajectoryGroup:
    """Run ``samples`` episodes of a problem, as ``rollout`` does, and return them as a group.

    Infrastructure failures become the group's exceptions, here, whatever ``max_exceptions`` says.
    Anything else is raised and cancels the rest: a group that ART gathers itself would swallow
    also a mistake in the settings, and Ctrl-C.
    """
    import art

    if samples < 1:
        raise ConfigurationError(f"samples must be at least 1, not {samples}")
    _count_on_progress_bar(samples)

    async def episode(sample: int) -> art.Trajectory | InfrastructureError:
        try:
            return await rollout(
                model,
                problem,
                environment=environment,
                policy=policy,
                options=options,
                sample=sample,
                observer=observer,
            )
        except InfrastructureError as error:
            return error

    try:
        async with asyncio.TaskGroup() as running:
            episodes = [running.create_task(episode(sample)) for sample in range(samples)]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from failures
    return art.TrajectoryGroup(
        [episode.result() for episode in episodes], metadata={"scenario_id": problem.id}
    )


def _count_on_progress_bar(samples: int) -> None:
    """ART's bar counts a group that comes as a coroutine as one, and its trajectories when done."""
    from art.gather import get_gather_context

    bar = get_gather_context().pbar
    if bar is not None and bar.total is not None:
        bar.total += samples - 1
