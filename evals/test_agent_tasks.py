"""A general agent works on files with a shell, and what it leaves is tested.

Tasks come from --cwsandbox-tasks, the agent from --cwsandbox-model.
"""

import pytest

from pytest_cwsandbox.rollout_fixture import Rollout
from pytest_cwsandbox.rollouts import Task


@pytest.mark.tasks(group="tasks")
async def test_agent_completes_task(task: Task, rollout: Rollout) -> None:
    trajectory = await rollout(task)
    assert trajectory.reward == 1.0, f"{trajectory.stop_reason}: {trajectory.detail}"
