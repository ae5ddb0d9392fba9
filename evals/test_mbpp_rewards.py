"""The reward itself: right answers earn it, attacks do not. Problems: --cwsandbox-problems."""

import pytest

from pytest_cwsandbox.fixtures import Grade, RecordReward
from pytest_cwsandbox.problems import Problem

ALWAYS_EQUAL = """\
class Equal:
    __eq__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __bool__ = lambda self: True
    __hash__ = lambda self: 0
def {name}(*args, **kwargs):
    return Equal()
"""
EARLY_EXIT = "import os\ndef {name}(*args, **kwargs):\n    os._exit(0)\n"
EMPTY = "def {name}(*args, **kwargs):\n    pass\n"


@pytest.mark.problems(group="reference")
async def test_reference_solution_earns_full_reward(
    problem: Problem, grade: Grade, record_reward: RecordReward
) -> None:
    outcome = await grade(problem, problem.reference_solution, held_out=True)
    record_reward(outcome)
    assert outcome.reward == 1.0, outcome


@pytest.mark.problems()
@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(ALWAYS_EQUAL, id="always-equal"),
        pytest.param(EARLY_EXIT, id="early-exit"),
        pytest.param(EMPTY, id="empty-function"),
    ],
)
async def test_attack_earns_nothing(problem: Problem, attack: str, grade: Grade) -> None:
    outcome = await grade(problem, attack.format(name=problem.entry_point))
    assert outcome.reward == 0.0, outcome
