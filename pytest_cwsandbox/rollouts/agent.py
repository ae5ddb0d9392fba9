"""Episodes of a general agent: a task, a sandbox, and a look at the state it leaves."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pytest_cwsandbox.errors import ConfigurationError, InfrastructureError
from pytest_cwsandbox.outcome import Outcome, Verdict
from pytest_cwsandbox.rollouts import runaway
from pytest_cwsandbox.rollouts.episode import run_episode
from pytest_cwsandbox.rollouts.judged import judged
from pytest_cwsandbox.rollouts.options import RolloutOptions
from pytest_cwsandbox.rollouts.policy import as_policy
from pytest_cwsandbox.rollouts.prompts import WORK, WORK_WITH_OTHERS, task_messages
from pytest_cwsandbox.rollouts.sandbox_tools import named_tools
from pytest_cwsandbox.rollouts.task_reward import grade_task, place_files
from pytest_cwsandbox.rollouts.trajectory import StopReason
from pytest_cwsandbox.rollouts.workplace import ToolError, Workplace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cwsandbox import Sandbox

    from pytest_cwsandbox.rollouts.options import TaskGrader
    from pytest_cwsandbox.rollouts.policy import Policy, PolicyFunction
    from pytest_cwsandbox.rollouts.tasks import Task
    from pytest_cwsandbox.rollouts.tools import Tool
    from pytest_cwsandbox.rollouts.trajectory import Trajectory


async def run_agent_episode(
    policy: Policy | PolicyFunction,
    task: Task,
    sandbox: Sandbox,
    *,
    tools: Sequence[Tool] = (),
    grader: TaskGrader | None = None,
    options: RolloutOptions | None = None,
) -> Trajectory:
    """Run one episode in the caller's own sandbox, which stays the caller's to stop.

    The task's files are placed first. The state that the agent leaves is judged by ``grader``, else
    by the task's ``test_command``. Whichever way the episode ended its state counts, but for a
    refusal, which earns 0.0, and for failures of the endpoint or the sandbox, which earn None.
    """
    options = options or RolloutOptions()
    options = replace(
        options, tools=tuple(tools) or options.tools, task_grader=grader or options.task_grader
    )
    check_task(task, options)
    workplace = Workplace.over(sandbox, prepare=partial(place_files, files=task.files))
    return await work(as_policy(policy), task, workplace, options)


def check_task(task: Task, options: RolloutOptions) -> None:
    """A task that nothing judges would earn a meaningless reward: ``ConfigurationError``."""
    if options.task_grader is None and not task.test_command:
        raise ConfigurationError(
            f"task {task.id} has no test_command: give it one, or pass a grader"
        )


async def work(
    policy: Policy, task: Task, workplace: Workplace, options: RolloutOptions
) -> Trajectory:
    """Run an episode in a workplace that has the task's files."""
    tools = options.tools or named_tools(task.tools, timeout_seconds=options.tool_seconds)
    usual = WORK_WITH_OTHERS if options.tools else WORK
    turns = task.max_steps if options.limits.turns is None else options.limits.turns
    episode = await run_episode(
        policy,
        task_messages(task, system_prompt=options.system_prompt or usual),
        tools,
        workplace,
        replace(options.limits, turns=min(turns, task.max_steps)),
        watch=runaway.watch(task, workplace, options),
    )
    grading = time.monotonic()
    grade: Outcome | float | None = None
    if not (episode.stop_reason.lost or episode.stop_reason is StopReason.REFUSAL):
        grade = await _judge(task, workplace, options.task_grader)
    return judged(
        episode,
        grade,
        policy=policy,
        goal=task,
        tools=tools,
        workplace=workplace,
        grade_seconds=time.monotonic() - grading,
        options=options,
    )


async def _judge(task: Task, workplace: Workplace, grader: TaskGrader | None) -> Outcome | float:
    try:
        if grader is None:
            return await grade_task(task, workplace)
        given = await workplace.use(lambda sandbox: grader(task, sandbox))
    except InfrastructureError as error:
        return Outcome(Verdict.INFRASTRUCTURE_ERROR, str(error))
    except ToolError as error:  # what the agent did to its sandbox keeps the grader from working
        return Outcome(Verdict.SANDBOX_KILLED, str(error))
    if isinstance(given, Outcome):
        return given
    if isinstance(given, int | float) and math.isfinite(given):
        return float(given)
    raise ConfigurationError(
        f"the grader of task {task.id} must return an Outcome or a finite number, got {given!r:.80}"
    )
