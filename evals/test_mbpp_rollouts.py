"""An agent solves problems with tools in a sandbox. Which one: --cwsandbox-model.

Problems come from --cwsandbox-problems; MBPP by name is its test split. The scripted model, which
plays when no other is chosen, solves the bundled problems only.
"""

import pytest

from pytest_cwsandbox.problems import Problem
from pytest_cwsandbox.rollout_fixture import Rollout


@pytest.mark.problems(samples=2, group="rollouts")
async def test_agent_solves_problem(problem: Problem, rollout: Rollout) -> None:
    trajectory = await rollout(problem)
    assert trajectory.reward == 1.0, f"{trajectory.stop_reason}: {trajectory.detail}"
