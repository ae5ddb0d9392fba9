"""Whole episodes on a real runner: problems, tasks, groups, failures, and nothing left behind."""

from __future__ import annotations

import asyncio
import json
import os
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest
from cwsandbox import Sandbox

from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.connections import grading_session
from pytest_cwsandbox.errors import ConfigurationError, EndpointError
from pytest_cwsandbox.grading import Grader
from pytest_cwsandbox.outcome import Outcome, Verdict
from pytest_cwsandbox.problems import Problem, load
from pytest_cwsandbox.rollouts import (
    EpisodeLimits,
    ModelOptions,
    RolloutOptions,
    StopReason,
    Task,
    load_tasks,
    run_agent_episode,
    run_group,
)
from pytest_cwsandbox.rollouts.environment import Environment
from pytest_cwsandbox.rollouts.policy import as_policy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cwsandbox import Session

    from pytest_cwsandbox.rollouts.messages import (
        AssistantMessage,
        Message,
        ToolCall,
        ToolDefinition,
    )
    from pytest_cwsandbox.rollouts.policy import PolicyFunction
    from pytest_cwsandbox.rollouts.trajectory import Trajectory

LOCAL = BackendOptions("local")
DOUBLE = Problem(
    task_id="1",
    prompt="Write a function `double(n)` that returns twice n.",
    test_list=("assert double(1) == 2", "assert double(2) == 4"),
    challenge_test_list=("assert double(10) == 20",),
    entry_point="double",
    source="own",
)
RIGHT = "def double(n):\n    return 2 * n\n"
TABLE = "def double(n):\n    return {1: 2, 2: 4}.get(n)\n"


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with grading_session(LOCAL, sandbox_tags=("test:rollouts",)) as session:
        yield session


def calls(*tools: tuple[str, dict[str, object]]) -> AssistantMessage:
    asked: list[ToolCall] = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for number, (name, arguments) in enumerate(tools)
    ]
    return {"role": "assistant", "content": None, "tool_calls": asked}


def plays(*answers: AssistantMessage | str) -> PolicyFunction:
    """A policy that gives these answers, by the turn of the conversation."""

    def answer(
        messages: Sequence[Message], tools: Sequence[ToolDefinition]
    ) -> AssistantMessage | str:
        turn = sum(message["role"] == "assistant" for message in messages)
        return answers[min(turn, len(answers) - 1)]

    return answer


def submits(code: str) -> PolicyFunction:
    return plays(
        calls(("execute_code", {"code": "print(6 * 7)"})),
        calls(("submit_solution", {"code": code})),
    )


async def solve(
    session: Session,
    policy: PolicyFunction,
    problem: Problem = DOUBLE,
    options: RolloutOptions | None = None,
) -> Trajectory:
    [[trajectory]] = await run_group(policy, [problem], session=session, options=options)
    return trajectory


async def left(tag: str = "test:rollouts") -> list[str]:
    """Sandboxes with the tag that are still there after a moment for those being removed."""
    deadline = time.monotonic() + 10
    while True:
        there = await Sandbox.list(tags=[tag])
        if not there or time.monotonic() > deadline:
            return [str(box.sandbox_id) for box in there]
        await asyncio.sleep(0.05)


async def test_a_right_submission_earns_full_reward(session: Session) -> None:
    trajectory = await solve(session, submits(RIGHT))
    assert (trajectory.reward, trajectory.verdict) == (1.0, "passed")
    assert trajectory.stop_reason is StopReason.SUBMITTED
    assert trajectory.messages[3] == {
        "role": "tool",
        "tool_call_id": "call_0",
        "content": "exit=0\n42\n",
    }
    assert await left() == []


async def test_a_wrong_submission_earns_nothing(session: Session) -> None:
    trajectory = await solve(session, submits("def double(n):\n    return n\n"))
    assert (trajectory.reward, trajectory.verdict) == (0.0, "wrong_answer")


async def test_a_whole_message_may_be_submitted(session: Session) -> None:
    assert (await solve(session, submits(f"```python\n{RIGHT}```"))).reward == 1.0


async def test_a_lookup_table_of_the_visible_asserts_earns_nothing(session: Session) -> None:
    assert (await solve(session, submits(TABLE))).reward == 0.0
    seen_only = RolloutOptions(held_out=False)
    assert (await solve(session, submits(TABLE), options=seen_only)).reward == 1.0


async def test_without_a_submission_nothing_is_earned(session: Session) -> None:
    trajectory = await solve(session, plays("The answer is 2 * n."))
    assert (trajectory.reward, trajectory.verdict) == (0.0, "")
    assert trajectory.stop_reason is StopReason.NO_TOOL_CALL


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (RolloutOptions(), "double(2) == 4\n```\n\nand with 1 more assert that you do not see."),
        (RolloutOptions(held_out=False), "double(2) == 4\n```"),
        (RolloutOptions(visible=1), "== 2\n```\n\nand with 2 more asserts that you do not see."),
        (RolloutOptions(visible=0), "Your solution is checked with 3 asserts that you do not see."),
    ],
)
async def test_the_prompt_says_which_asserts_the_model_sees(
    session: Session, options: RolloutOptions, said: str
) -> None:
    trajectory = await solve(session, plays("no"), options=options)
    content = trajectory.messages[1]["content"]
    assert content is not None
    assert content.endswith(said)
    assert "double(10)" not in content


async def test_a_problem_that_cannot_be_graded_is_refused_before_the_model_is_asked(
    session: Session,
) -> None:
    def never(*_: object) -> str:
        raise AssertionError("asked")

    untested = Problem(task_id="1", prompt="Do something.", test_list=())
    with pytest.raises(ConfigurationError):
        await solve(session, never, untested)


async def test_a_trajectory_says_what_it_cost(session: Session) -> None:
    trajectory = await solve(session, submits(RIGHT), options=RolloutOptions(price=(1, 2)))
    assert trajectory.metrics.keys() == {
        "turns",
        "tool_calls",
        "tokens_in",
        "tokens_out",
        "model_seconds",
        "tool_seconds",
        "sandbox_start_seconds",
        "grade_seconds",
        "seconds",
        "retries",
        "cost",
    }
    assert (trajectory.metrics["turns"], trajectory.metrics["tool_calls"]) == (2, 2)
    assert trajectory.metadata["task_id"] == "1"
    assert trajectory.metadata["model"] == "answer"
    assert len(trajectory.metadata["sandbox_ids"]) == 1  # type: ignore[arg-type]  # a list, in JSON


async def test_files_stay_between_calls(session: Session) -> None:
    policy = plays(
        calls(("execute_code", {"code": "open('note', 'w').write('kept')"})),
        calls(("execute_code", {"code": "print(open('note').read())"})),
        "done",
    )
    trajectory = await solve(session, policy)
    assert trajectory.messages[5]["content"] == "exit=0\nkept\n"


async def test_what_is_submitted_runs_in_a_sandbox_of_its_own(session: Session) -> None:
    planted = "import pathlib\npathlib.Path('double.py').write_text('x')\n"
    code = "import os\ndef double(n):\n    return 2 * n if not os.path.exists('double.py') else 0\n"
    policy = plays(
        calls(("execute_code", {"code": planted})), calls(("submit_solution", {"code": code}))
    )
    assert (await solve(session, policy)).reward == 1.0


# Groups


async def test_a_group_has_its_samples_in_the_order_of_the_problems(session: Session) -> None:
    problems = load("bundled", limit=2)
    groups = await run_group(plays("no"), problems, samples=3, session=session)
    assert [[t.metadata["task_id"] for t in group] for group in groups] == [["1"] * 3, ["2"] * 3]
    assert [t.metadata["sample"] for t in groups[0]] == [0, 1, 2]


async def test_a_group_needs_nothing_but_a_model() -> None:
    [[solved], [worked]] = await run_group(
        ModelOptions("scripted"), [*load("bundled", limit=1), load_tasks(limit=1)[0]], backend=LOCAL
    )
    assert (solved.reward, worked.reward) == (1.0, 1.0)
    assert "model:scripted" in solved.metadata["tags"]  # type: ignore[operator]  # a list, in JSON


async def test_never_more_episodes_than_asked_for_run_at_once(session: Session) -> None:
    running: list[int] = [0, 0]

    async def counts(*_: object) -> str:
        running[0] += 1
        running[1] = max(running)
        await asyncio.sleep(0.05)
        running[0] -= 1
        return "no"

    await run_group(counts, load("bundled", limit=8), session=session, concurrency=3)
    assert running == [0, 3]


async def test_an_endpoint_that_refuses_everything_ends_the_group(session: Session) -> None:
    async def refuses(messages: Sequence[Message], _: object) -> AssistantMessage:
        if messages[-1]["role"] == "tool":
            raise EndpointError("the key is wrong")
        return calls(("execute_code", {"code": "print(1)"}))

    with pytest.raises(EndpointError, match="the key is wrong"):
        await run_group(refuses, load("bundled", limit=4), samples=2, session=session)
    assert await left() == []


async def test_a_group_that_is_cancelled_leaves_no_sandbox(session: Session) -> None:
    working = asyncio.Event()

    async def waits(messages: Sequence[Message], _: object) -> AssistantMessage:
        if messages[-1]["role"] == "tool":
            working.set()
            await asyncio.sleep(600)
        return calls(("execute_code", {"code": "print(1)"}))

    group = asyncio.ensure_future(
        run_group(waits, load("bundled", limit=4), samples=2, session=session)
    )
    await asyncio.wait_for(working.wait(), 60)
    group.cancel()
    with pytest.raises(asyncio.CancelledError):
        await group
    assert await left() == []


# Tasks


WRITE = Task(
    task_id="write",
    prompt="Write yes into answer.txt.",
    files={"question.txt": "yes or no?"},
    test_command=("grep", "-q", "yes", "answer.txt"),
)


async def test_an_agent_works_in_the_callers_sandbox(session: Session) -> None:
    with session.sandbox() as sandbox:
        policy = plays(
            calls(("bash", {"command": "cat question.txt"})),
            calls(("write_file", {"path": "answer.txt", "content": "yes"})),
            "I have written it.",
        )
        trajectory = await run_agent_episode(policy, WRITE, sandbox)
        assert trajectory.messages[3]["content"] == "exit=0\nyes or no?"
        assert (trajectory.reward, trajectory.stop_reason) == (1.0, StopReason.NO_TOOL_CALL)
        assert (await sandbox.exec(["cat", "/workspace/answer.txt"])).stdout == "yes"


async def test_an_agent_that_does_nothing_earns_nothing(session: Session) -> None:
    with session.sandbox() as sandbox:
        trajectory = await run_agent_episode(plays("Done."), WRITE, sandbox)
    assert (trajectory.reward, trajectory.verdict) == (0.0, "wrong_answer")


async def test_the_state_counts_also_when_the_turns_are_used_up(session: Session) -> None:
    policy = plays(calls(("write_file", {"path": "answer.txt", "content": "yes"})))
    with session.sandbox() as sandbox:
        trajectory = await run_agent_episode(policy, WRITE, sandbox)
    assert (trajectory.reward, trajectory.stop_reason) == (1.0, StopReason.MAX_TURNS)
    assert trajectory.metrics["turns"] == WRITE.max_steps


async def test_an_agent_that_refuses_earns_nothing_whatever_the_state(session: Session) -> None:
    refusal: AssistantMessage = {"role": "assistant", "content": None, "refusal": "No."}
    policy = plays(calls(("write_file", {"path": "answer.txt", "content": "yes"})), refusal)
    with session.sandbox() as sandbox:
        trajectory = await run_agent_episode(policy, WRITE, sandbox)
    assert (trajectory.reward, trajectory.stop_reason) == (0.0, StopReason.REFUSAL)


async def test_a_grader_may_take_the_place_of_the_test_command(session: Session) -> None:
    async def half(task: Task, sandbox: Sandbox) -> float:
        listed = await sandbox.exec(["ls", "/workspace"])
        return 0.5 if task is WRITE and listed.stdout == "question.txt\n" else 0.0

    async def outcome(*_: object) -> Outcome:
        return Outcome(Verdict.TIMEOUT, "too slow")

    with session.sandbox() as sandbox:
        trajectory = await run_agent_episode(plays("Done."), WRITE, sandbox, grader=half)
        judged = await run_agent_episode(plays("Done."), WRITE, sandbox, grader=outcome)
    assert (trajectory.reward, trajectory.verdict) == (0.5, "")
    assert (judged.reward, judged.verdict, judged.detail) == (0.0, "timeout", "too slow")


async def test_a_task_that_nothing_judges_is_refused(session: Session) -> None:
    with session.sandbox() as sandbox, pytest.raises(ConfigurationError, match="no test_command"):
        await run_agent_episode(plays("x"), Task(task_id="1", prompt="Do."), sandbox)


# Failures of the service


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service without room for a while has failed."""
    monkeypatch.setattr("pytest_cwsandbox.pool.REFUSED_SECONDS", 0.5)


@pytest.mark.parametrize(
    "fault",
    ["create-unavailable", "create-exhausted", "start-failed", "exec-unavailable", "exec-lost"],
)
async def test_a_service_that_fails_always_is_no_reward(fault: str) -> None:
    with grading_session(LOCAL, faults=[fault]) as session:
        trajectory = await solve(session, plays(calls(("execute_code", {"code": "1"})), "done"))
    assert (trajectory.reward, trajectory.stop_reason) == (None, StopReason.INFRASTRUCTURE_ERROR)


async def test_a_service_that_fails_at_first_is_tried_again() -> None:
    # With this seed the first sandbox is lost at its first command, later ones work.
    with grading_session(LOCAL, faults=["start-failed@0.4", "exec-unavailable@0.2"]) as session:
        groups = await run_group(
            submits(RIGHT), [DOUBLE] * 4, session=session, options=RolloutOptions()
        )
    rewards = {trajectory.reward for group in groups for trajectory in group}
    assert 1.0 in rewards
    assert 0.0 not in rewards


@pytest.mark.parametrize("fault", ["exec-lost@0.5", "exec-dropped@0.5", "exec-unavailable@0.5"])
async def test_a_failure_in_mid_episode_never_becomes_a_zero(fault: str) -> None:
    policy = plays(
        *(calls(("execute_code", {"code": f"print({number})"})) for number in range(4)),
        calls(("submit_solution", {"code": RIGHT})),
    )
    with grading_session(LOCAL, faults=[fault]) as session:
        groups = await run_group(policy, [DOUBLE] * 8, session=session)
    trajectories = [trajectory for group in groups for trajectory in group]
    assert {trajectory.reward for trajectory in trajectories} <= {1.0, None}
    assert any(t.stop_reason is StopReason.INFRASTRUCTURE_ERROR for t in trajectories)


async def test_a_grade_that_fails_is_no_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost(*_: object, **__: object) -> Outcome:
        return Outcome(Verdict.INFRASTRUCTURE_ERROR, "the grader's sandboxes failed")

    with grading_session(LOCAL) as session:
        grader = Grader(session)
        monkeypatch.setattr(grader, "grade_code", lost)
        environment = Environment(session, grader)
        trajectory = await environment.rollout(as_policy(submits(RIGHT)), DOUBLE)
        grader.close()
    assert (trajectory.reward, trajectory.verdict) == (None, "infrastructure_error")


async def test_the_limits_of_an_episode_are_those_asked_for(session: Session) -> None:
    options = RolloutOptions(limits=EpisodeLimits(tool_calls=1))
    trajectory = await solve(session, submits(RIGHT), options=options)
    assert (trajectory.reward, trajectory.stop_reason) == (0.0, StopReason.MAX_TOOL_CALLS)


@pytest.mark.parametrize(
    "whole",
    [
        "Here it is:\n```python\n{}```\nBye.",
        "<think>\ndef double(n): return 0\n</think>\n<answer>{}</answer>",
        "~~~\n{}~~~",
    ],
)
async def test_the_code_in_a_whole_message_counts(session: Session, whole: str) -> None:
    assert (await solve(session, submits(whole.format(RIGHT)))).reward == 1.0


@pytest.mark.parametrize("given", [None, float("nan"), "x"])
async def test_a_grader_that_returns_no_reward_is_refused(session: Session, given: object) -> None:
    async def rubbish(*_: object) -> object:
        return given

    with session.sandbox() as sandbox, pytest.raises(ConfigurationError, match="finite number"):
        await run_agent_episode(plays("Done."), WRITE, sandbox, grader=rubbish)  # type: ignore[arg-type]  # the mistake


async def test_a_sandbox_that_is_gone_is_no_reward(session: Session) -> None:
    sandbox = session.sandbox()
    await sandbox
    await sandbox.stop(graceful_shutdown_seconds=0)
    policy = plays(calls(("bash", {"command": "ls"})), "Done.")
    trajectory = await run_agent_episode(policy, WRITE, sandbox)
    assert (trajectory.reward, trajectory.stop_reason) == (None, StopReason.INFRASTRUCTURE_ERROR)


# Processes that train


async def test_counts_that_are_none_are_refused(session: Session) -> None:
    for begin, name in (
        (partial(run_group, submits("pass"), [DOUBLE], 0), "samples"),
        (partial(run_group, submits("pass"), [DOUBLE], concurrency=0), "concurrency"),
    ):
        with pytest.raises(ConfigurationError, match=rf"^{name} must be a whole number from 1, "):
            await begin(session=session)
    for kind in (Grader, partial(Environment, grader=Grader(session))):
        with pytest.raises(ConfigurationError, match=r"^concurrency must be a whole number from 1"):
            kind(session, concurrency=0)


async def test_after_a_mistake_the_next_group_runs() -> None:
    before = dict(os.environ)

    def fails(*_: object) -> str:
        raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            await run_group(fails, load("bundled", limit=1), backend=LOCAL)
        assert dict(os.environ) == before
    [[trajectory]] = await run_group(plays("no"), [DOUBLE], backend=LOCAL)
    assert trajectory.reward == 0.0
    assert dict(os.environ) == before


async def test_groups_that_overlap_share_a_runner() -> None:
    before = dict(os.environ)
    started = asyncio.Event()

    async def waits(messages: Sequence[Message], _: object) -> AssistantMessage | str:
        if messages[-1]["role"] == "tool":
            return "done"
        await started.wait()
        return calls(("execute_code", {"code": "print(1)"}))

    async def quick() -> None:
        await run_group(plays("no"), [DOUBLE], backend=LOCAL)
        started.set()

    slow, _ = await asyncio.gather(run_group(waits, [DOUBLE], samples=2, backend=LOCAL), quick())
    assert {trajectory.reward for group in slow for trajectory in group} == {0.0}
    assert dict(os.environ) == before
