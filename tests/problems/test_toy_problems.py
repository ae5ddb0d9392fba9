from __future__ import annotations

import re
import subprocess
import sys

import pytest

from pytest_cwsandbox.problems import TOY_COMPLETIONS, ToyCompletion, load


def test_the_expected_rewards_are_three_of_five() -> None:
    assert [toy.expected_reward for toy in TOY_COMPLETIONS] == [1.0, 1.0, 0.0, 0.0, 1.0]
    assert [toy.name for toy in TOY_COMPLETIONS] == [
        "slow-sum",
        "string-ops",
        "delayed-error",
        "syntax-error",
        "slow-list",
    ]


@pytest.mark.parametrize("toy", TOY_COMPLETIONS, ids=lambda toy: toy.name)
def test_the_exit_code_earns_the_expected_reward(toy: ToyCompletion) -> None:
    awake = re.sub(r"time\.sleep\(\d\)", "pass", toy.code)
    done = subprocess.run([sys.executable, "-I", "-c", awake], capture_output=True, check=False)
    assert (done.returncode == 0) == (toy.expected_reward == 1.0)


def test_slow_completions_sleep_as_long_as_their_story_says() -> None:
    naps = {t.name: re.findall(r"sleep\((\d)\)", t.code) for t in TOY_COMPLETIONS}
    assert naps == {
        "slow-sum": ["2"],
        "string-ops": [],
        "delayed-error": ["1"],
        "syntax-error": [],
        "slow-list": ["3"],
    }


def test_toy_problems_carry_their_completion_and_no_asserts() -> None:
    problems = load("toy")
    assert [problem.id for problem in problems] == [f"toy-{toy.name}" for toy in TOY_COMPLETIONS]
    assert [problem.reference_solution for problem in problems] == [t.code for t in TOY_COMPLETIONS]
    assert all(problem.prompt and problem.test_list == () for problem in problems)
