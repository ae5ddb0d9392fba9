"""Rollouts as pytest items: what a test gets, and what the run keeps of it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from .conftest import RUN_FILES
from .rollouts import AGENT, SUBMITS, folder, model_at, samples, served, trajectories

if TYPE_CHECKING:
    from .rollouts import Run

NOT_A_MODEL = "scripted answers to the bundled problems and tasks, no language model"


def test_a_rollout_is_a_sample_apart_from_the_checks(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(test_agent=AGENT)
    result = run("--cwsandbox-limit=1")
    result.assert_outcomes(passed=3)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            f"cwsandbox: model: scripted ({NOT_A_MODEL})",
            "*cwsandbox pass rates*",
            "bundled/agents *2/2*100.0%*",
            "verdicts: passed 2",
            "model scripted: 2 rollouts,*2.0 turns, 2.0 tool calls, * tokens*",
            "checks: 1 passed, 0 failed",
        ]
    )
    result.stdout.fnmatch_lines([f"model scripted: *{NOT_A_MODEL}"])
    result.stdout.no_fnmatch_line("*left over*")
    rows = samples(pytester.path)
    assert [row["id"].rpartition("::")[2] for row in rows] == [
        "test_agent[bundled-1-s0]",
        "test_agent[bundled-1-s1]",
    ]
    for number, row in enumerate(rows):
        assert (row["sample"], row["problem"], row["reward"]) == (number, "bundled-1", 1.0)
        assert row["verdict"] == "passed"
        assert row["metadata"].items() >= {
            ("model", "scripted"), ("stop_reason", "submitted"), ("turns", "2"), ("tool_calls", "2")
        }  # fmt: skip
    kept = trajectories(pytester.path)
    assert [one["metadata"]["sample"] for one in kept] == [0, 1]
    assert all(one["messages"][-1]["content"] == "submitted" for one in kept)
    names = {path.name for path in folder(pytester.path).iterdir()}
    kinds = ("samples", "trajectories")
    workers = {f"{kind}-{row['worker']}.jsonl" for row in rows for kind in kinds}
    assert names == RUN_FILES | workers


@pytest.mark.parametrize("mode", ["strict", "auto"])
def test_rollouts_are_awaited_in_either_mode_of_asyncio_and_had_by_result_without_it(
    pytester: pytest.Pytester, mode: str
) -> None:
    pytester.makepyfile(
        """
        import pytest

        def says_nothing(messages, tools): return "nothing"

        async def test_await(rollout):
            from pytest_cwsandbox.problems import load
            trajectory = await rollout(load("bundled")[0], policy=says_nothing)
            assert trajectory.stop_reason == "no_tool_call"

        @pytest.mark.problems("bundled")
        class TestProblem:
            async def test_awaits(self, problem, rollout):
                assert (await rollout(problem, policy=says_nothing)).reward == 0.0

            def test_result(self, problem, rollout):
                assert rollout(problem, policy=says_nothing).result().reward == 0.0
        """
    )
    result = pytester.runpytest_subprocess(
        "-n0", "-o", f"asyncio_mode={mode}", "--cwsandbox-limit=1"
    )
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["model says_nothing: 3 rollouts*1.0 turns, 0.0 tool calls*"])


def test_every_sample_has_an_item_and_a_seed_of_its_own(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.problems(samples=3)
        async def test_agent(problem, rollout, sample):
            trajectory = await rollout(problem)
            assert trajectory.metadata["sample"] == sample
        """
    )
    with served(SUBMITS) as endpoint:
        result = run(*model_at(endpoint), "--cwsandbox-limit=1", "--cwsandbox-seed=7")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["cwsandbox: model: toy", "*/test_agent *3/3*", "model toy: 3 *"])
    result.stdout.no_fnmatch_line(f"*{NOT_A_MODEL}*")
    assert sorted(body["seed"] for body in endpoint.bodies) == [7, 8, 9]
    assert [row["sample"] for row in samples(pytester.path)] == [0, 1, 2]


def test_a_policy_is_a_plain_function_or_anything_that_generates(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        import json
        import pytest

        pytestmark = pytest.mark.problems("bundled")

        def submits(messages, tools):
            assert {tool["function"]["name"] for tool in tools} == {
                "execute_code", "submit_solution"
            }
            code = "def count_above(numbers, limit): return sum(n > limit for n in numbers)"
            call = {
                "id": "a", "type": "function",
                "function": {"name": "submit_solution", "arguments": json.dumps({"code": code})},
            }
            return {"role": "assistant", "content": None, "tool_calls": [call]}

        async def submits_too(messages, tools):
            return submits(messages, tools)

        class Agent:
            async def generate(self, messages, tools):
                return submits(messages, tools)

        def test_function(problem, rollout):
            assert rollout(problem, policy=submits).result().reward == 1.0

        async def test_async_function(problem, rollout):
            assert (await rollout(problem, policy=submits_too)).reward == 1.0

        async def test_object(problem, rollout):
            trajectory = await rollout(problem, policy=Agent())
            assert (trajectory.reward, trajectory.metadata["model"]) == (1.0, "Agent")

        def test_its_own_mistake_fails_the_test(problem, rollout):
            def broken(messages, tools):
                raise ZeroDivisionError("a mistake of the policy")

            rollout(problem, policy=broken).result()

        def test_what_is_no_message_fails_the_test(problem, rollout):
            rollout(problem, policy=lambda messages, tools: None).result()
        """
    )
    result = pytester.runpytest_subprocess(
        "-n0", "--cwsandbox-limit=1", "--cwsandbox-min-pass-rate=1"
    )
    result.assert_outcomes(passed=3, failed=2)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "*ZeroDivisionError: a mistake of the policy",
            "*TypeError: generate must return*got None",
            "model Agent: 1 *",
            "model submits: 1 *",
            "model submits_too: 1 *",
        ]
    )


def test_a_call_may_change_the_runs_settings(pytester: pytest.Pytester) -> None:
    with served(SUBMITS) as endpoint:
        pytester.makepyfile(
            f"""
            import pytest
            from pytest_cwsandbox.rollouts.limits import EpisodeLimits

            from pytest_cwsandbox.errors import UserError

            pytestmark = pytest.mark.problems("bundled")
            MISTAKE = (TypeError, UserError)

            def test_model(problem, rollout):
                trajectory = rollout(
                    problem, model="mine", base_url="{endpoint.base_url}", temperature=0.25,
                    top_p=None, price=(0, 1_000_000), visible=1,
                ).result()
                assert trajectory.metadata["model"] == "mine"
                assert trajectory.metrics["cost"] == 3.0
                assert trajectory.messages[1]["content"].count("assert count_above") == 1

            def test_limits(problem, rollout):
                trajectory = rollout(
                    problem, policy=lambda *_: {{
                        "role": "assistant", "content": None, "tool_calls": [
                            {{"id": "a", "type": "function",
                              "function": {{"name": "none", "arguments": "{{}}"}}}}
                        ],
                    }},
                    limits=EpisodeLimits(turns=2),
                ).result()
                assert trajectory.stop_reason == "max_turns"
                assert trajectory.metrics["turns"] == 2

            def test_unknown(problem, rollout):
                with pytest.raises(MISTAKE, match=r"knows no temprature; .*temperature"):
                    rollout(problem, temprature=1.0)
            """
        )
        result = pytester.runpytest_subprocess(
            "-n0", "--cwsandbox-limit=1", "--cwsandbox-temperature=1", "--cwsandbox-top-p=0.5"
        )
    result.assert_outcomes(passed=3)
    [body] = endpoint.bodies
    assert (body["model"], body["temperature"]) == ("mine", 0.25)
    assert "top_p" not in body


def test_a_rollout_without_a_problem_of_the_marker_is_grouped_by_its_file(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(
        test_own="""
        from pytest_cwsandbox.problems import Problem

        def test_own(rollout):
            problem = Problem("7", "Add.", ("assert add(1, 2) == 3",), entry_point="add")
            trajectory = rollout(problem, policy=lambda *_: "no idea").result()
            assert trajectory.reward == 0.0

        def test_nothing_to_judge_by(rollout):
            rollout(Problem("8", "Add.", ()), policy=lambda *_: "no idea").result()
        """
    )
    result = run()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*nothing could be graded*", "test_own/test_own *0/1*"])
    [row] = samples(pytester.path)
    assert (row["group"], row["problem"], row["sample"]) == ("test_own/test_own", "7", 0)


def test_every_rollout_of_a_test_is_kept(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_agent="""
        import pytest

        @pytest.mark.problems()
        async def test_twice(problem, rollout):
            assert (await rollout(problem)).reward == 1.0
            assert (await rollout(problem, policy=lambda *_: "no")).reward == 0.0
        """
    )
    pytester.runpytest_subprocess("-n0", "--cwsandbox-limit=1").assert_outcomes(passed=1)
    first, second = trajectories(pytester.path)
    assert (first["reward"], second["reward"]) == (1.0, 0.0)
    exported = pytester.run(
        sys.executable, "-m", "pytest_cwsandbox", "export", "latest", "--to=trl", "-o=a.jsonl"
    )
    exported.stdout.fnmatch_lines(["*wrote 2 *"])
