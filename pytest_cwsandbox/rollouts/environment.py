"""Where episodes run: a problem or a task in, a trajectory with its reward out."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pytest_cwsandbox.admission import Kind
from pytest_cwsandbox.errors import InfrastructureError, check_count
from pytest_cwsandbox.grading.submission import grade_submission
from pytest_cwsandbox.outcome import Outcome, Verdict
from pytest_cwsandbox.pool import SandboxPool
from pytest_cwsandbox.problems import Problem
from pytest_cwsandbox.rollouts import runaway
from pytest_cwsandbox.rollouts.agent import check_task, work
from pytest_cwsandbox.rollouts.episode import run_episode
from pytest_cwsandbox.rollouts.judged import judged, model_name
from pytest_cwsandbox.rollouts.options import RolloutOptions
from pytest_cwsandbox.rollouts.prompts import SOLVE, SOLVE_WITH_OTHERS, problem_messages
from pytest_cwsandbox.rollouts.sandbox_tools import FOLDER, named_tools
from pytest_cwsandbox.rollouts.task_reward import place_files
from pytest_cwsandbox.rollouts.workplace import Workplace
from pytest_cwsandbox.tags import tag

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    from cwsandbox import Sandbox, Session

    from pytest_cwsandbox.grading import Grader
    from pytest_cwsandbox.rollouts.policy import Policy
    from pytest_cwsandbox.rollouts.tasks import Task
    from pytest_cwsandbox.rollouts.trajectory import Trajectory

SOLVER_TOOLS = ("execute_code", "submit_solution")
# Python takes a compiled file for current if its source had the same size in the same second: a
# quick agent would see its old code.
ENVIRONMENT = {"PYTHONDONTWRITEBYTECODE": "1"}


class Environment:
    """Runs episodes in sandboxes of ``session``, at most ``concurrency`` at once.

    ``tags`` are those of the session; the trajectories name them.

    ``grader`` judges what is submitted, in sandboxes of its own. Belongs to one event loop. Raises
    ``ConfigurationError`` for counts that are none.
    """

    def __init__(
        self,
        session: Session,
        grader: Grader,
        *,
        retries: int = 2,
        concurrency: int = 32,
        tags: Sequence[str] = (),
    ) -> None:
        check_count("retries", retries, at_least=0)
        check_count("concurrency", concurrency, at_least=1)
        self._tags = tuple(tags)
        self._grader = grader
        self._retries = retries
        self._pool = SandboxPool(
            session,
            size=concurrency,
            retries=retries,
            environment=ENVIRONMENT,
            kind=Kind.AGENT,
        )

    async def rollout(
        self,
        policy: Policy,
        goal: Problem | Task,
        options: RolloutOptions | None = None,
        *,
        annotations: Mapping[str, str] | None = None,
    ) -> Trajectory:
        """Run one episode and judge it. No sandbox of it is left, however it ends.

        Raises ``ConfigurationError`` for what cannot be judged, before anything runs, and
        ``EndpointError`` where the model's endpoint refuses every request.
        """
        options = options or RolloutOptions()
        model = tag(f"model:{model_name(policy)}")
        workplace = self._workplace(goal, model, dict(annotations or {}))
        try:
            if isinstance(goal, Problem):
                trajectory = await self._solve(policy, goal, workplace, options)
            else:
                check_task(goal, options)
                trajectory = await work(policy, goal, workplace, options)
        finally:
            await asyncio.shield(workplace.close())
        return replace(trajectory, metadata={**trajectory.metadata, "tags": [*self._tags, model]})

    def _workplace(
        self, goal: Problem | Task, model: str, annotations: dict[str, str]
    ) -> Workplace:
        sandbox = {"tags": [model], "annotations": annotations, "working_dir": FOLDER}

        def take() -> Awaitable[Sandbox]:
            return self._pool.take(sandbox, tally=workplace)

        workplace = Workplace(
            take,
            self._pool.give_back,
            prepare=None if isinstance(goal, Problem) else partial(place_files, files=goal.files),
            retries=self._retries,
        )
        return workplace

    async def _solve(
        self, policy: Policy, problem: Problem, workplace: Workplace, options: RolloutOptions
    ) -> Trajectory:
        self._grader.check(problem, held_out=options.held_out)
        tools = options.tools or named_tools(SOLVER_TOOLS, timeout_seconds=options.tool_seconds)
        messages = problem_messages(
            problem,
            visible=options.visible,
            held_out=options.held_out,
            system_prompt=options.system_prompt or (SOLVE_WITH_OTHERS if options.tools else SOLVE),
        )
        watch = runaway.watch(problem, workplace, options)
        episode = await run_episode(policy, messages, tools, workplace, options.limits, watch=watch)
        grading = time.monotonic()
        grade = None
        if episode.submission is not None:
            await workplace.close()  # its slot and memory are free while the grade runs
            grade = await self._judge(problem, episode.submission, held_out=options.held_out)
        return judged(
            episode,
            grade,
            policy=policy,
            goal=problem,
            tools=tools,
            workplace=workplace,
            grade_seconds=time.monotonic() - grading,
            options=options,
        )

    async def _judge(self, problem: Problem, answer: str, *, held_out: bool) -> Outcome:
        try:
            return await grade_submission(self._grader, problem, answer, held_out=held_out)
        except InfrastructureError as error:
            return Outcome(Verdict.INFRASTRUCTURE_ERROR, str(error))
