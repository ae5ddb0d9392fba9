"""Five toy programs, graded by their exit code, as in CoreWeave's reward example: 3.0 of 5."""

import cwsandbox
import pytest
from cwsandbox import Process, Session

from pytest_cwsandbox.fixtures import GradeExitCode, RecordReward
from pytest_cwsandbox.problems import Problem
from pytest_cwsandbox.problems.toy import TOY_COMPLETIONS

EXPECTED = {toy.name: toy.expected_reward for toy in TOY_COMPLETIONS}


@pytest.mark.problems("toy", group="exit-code")
async def test_toy_completion_earns_its_reward(
    problem: Problem, grade_exit_code: GradeExitCode, record_reward: RecordReward
) -> None:
    outcome = await grade_exit_code(problem.reference_solution)
    record_reward(outcome)
    assert outcome.reward == EXPECTED[problem.task_id]


def test_toy_completions_in_parallel_earn_3_of_5(cwsandbox_session: Session) -> None:
    processes = {
        cwsandbox_session.sandbox().exec(["python", "-c", toy.code], timeout_seconds=60): toy.name
        for toy in TOY_COMPLETIONS
    }
    rewards: dict[str, float] = {}
    while waiting := [ref for ref, name in processes.items() if name not in rewards]:
        [process], _ = cwsandbox.wait(waiting, num_returns=1)
        assert isinstance(process, Process)
        name = processes[process]
        rewards[name] = 1.0 if process.result().returncode == 0 else 0.0
        word = "PASS" if rewards[name] else "FAIL"
        print(f"[{len(rewards)}/{len(processes)}] {name}: {word}")  # noqa: T201 - pytest -s shows it
    assert rewards == EXPECTED
    assert sum(rewards.values()) == 3.0
