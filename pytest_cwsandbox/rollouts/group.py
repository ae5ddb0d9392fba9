"""A batch of episodes in plain Python, outside pytest: the rollouts of one training step."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_cwsandbox import tags
from pytest_cwsandbox.connections import connected, ended
from pytest_cwsandbox.errors import check_count
from pytest_cwsandbox.grading import Grader
from pytest_cwsandbox.rollouts import scripted
from pytest_cwsandbox.rollouts.environment import Environment
from pytest_cwsandbox.rollouts.model import ModelOptions
from pytest_cwsandbox.rollouts.models import Models
from pytest_cwsandbox.rollouts.policy import as_policy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from cwsandbox import Session

    from pytest_cwsandbox.backend import BackendOptions
    from pytest_cwsandbox.problems import Problem
    from pytest_cwsandbox.rollouts.options import RolloutOptions
    from pytest_cwsandbox.rollouts.policy import Policy, PolicyFunction
    from pytest_cwsandbox.rollouts.tasks import Task
    from pytest_cwsandbox.rollouts.trajectory import Trajectory


async def run_group(
    policy: Policy | PolicyFunction | ModelOptions,
    tasks: Sequence[Problem | Task],
    samples: int = 1,
    *,
    options: RolloutOptions | None = None,
    concurrency: int = 32,
    session: Session | None = None,
    backend: BackendOptions | None = None,
) -> list[list[Trajectory]]:
    """Run ``samples`` episodes of every problem or task, at most ``concurrency`` at once.

    Returns a group of trajectories per task, in the order of ``tasks``. Without a ``session`` it
    opens one on ``backend``, by default the hosted service where there are credentials and the
    local runner elsewhere, and closes it. Infrastructure failures are trajectories whose reward is
    None. Raises ``ConfigurationError`` for what cannot be judged and for counts that are none,
    ``EndpointError`` where the model's endpoint refuses every request, ``BackendError`` without a
    backend; what was running is then cancelled and its sandboxes removed.
    """
    from pytest_cwsandbox.sessions import agent_session, judge_session

    check_count("samples", samples, at_least=1)
    check_count("concurrency", concurrency, at_least=1)
    run = f"rollouts-{secrets.token_hex(8)}"
    folder = Path(tempfile.gettempdir(), f"cwsandbox-{run}")
    # Those of a session that is given are known to its owner.
    sandbox_tags = () if session else tags.sandbox_tags(run=run, worker="main")
    slots = asyncio.Semaphore(concurrency)
    async with contextlib.AsyncExitStack() as stack:
        if session is None:
            defaults = stack.enter_context(connected(backend, sandbox_tags=sandbox_tags))
            session = stack.enter_context(ended(agent_session(defaults)))
        grades = stack.enter_context(ended(judge_session(session)))
        grader = stack.enter_context(contextlib.closing(Grader(grades, concurrency=concurrency)))
        environment = Environment(session, grader, concurrency=concurrency, tags=sandbox_tags)
        policy_of = await stack.enter_async_context(_policies(policy, folder))

        async def rollout(task: Problem | Task, sample: int) -> Trajectory:
            async with slots:
                trajectory = await environment.rollout(await policy_of(sample), task, options)
            return replace(trajectory, metadata={**trajectory.metadata, "sample": sample})

        try:
            async with asyncio.TaskGroup() as running:
                groups = [
                    [running.create_task(rollout(task, sample)) for sample in range(samples)]
                    for task in tasks
                ]
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from failures
    return [[episode.result() for episode in group] for group in groups]


@contextlib.asynccontextmanager
async def _policies(
    policy: Policy | PolicyFunction | ModelOptions, folder: Path
) -> AsyncIterator[Callable[[int], Awaitable[Policy]]]:
    """The policy of each sample: an endpoint's samples differ in their seeds."""
    if not isinstance(policy, ModelOptions):
        own = as_policy(policy)

        async def same(_: int) -> Policy:
            return own

        yield same
        return
    models = Models(folder, lifeline=os.getpid())
    try:

        async def of_sample(sample: int) -> Policy:
            return await models.policy(policy, sample=sample)

        yield of_sample
    finally:
        await models.aclose()
        await asyncio.to_thread(scripted.stop, folder)
