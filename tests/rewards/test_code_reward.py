"""The reward for code as a trainer calls it, without a trainer."""

from __future__ import annotations

import inspect
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.connections import connected
from pytest_cwsandbox.errors import ConfigurationError, InfrastructureError
from pytest_cwsandbox.outcome import Outcome, Verdict
from pytest_cwsandbox.rewards import (
    AsyncCodeReward,
    CodeReward,
    FractionReward,
    async_code_reward,
    session,
)
from pytest_cwsandbox.rewards.log import metrics, summary
from pytest_cwsandbox.rewards.versions import complaint_about

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCAL = BackendOptions("local")
RIGHT = "<answer>def double(n): return 2 * n</answer>"
WRONG = "<answer>def double(n): return n + 2</answer>"
ASSERTS = ["assert double(2) == 4", "assert double(5) == 10"]


@pytest.fixture(scope="module", autouse=True)
def _ended_session() -> Iterator[None]:
    yield
    session.close()


def message(text: str) -> list[dict[str, object]]:
    return [{"role": "assistant", "content": text}]


def graded(reward: Any, completions: list[Any], **columns: object) -> list[float | None]:
    given = {"test_list": [ASSERTS] * len(completions), **columns}
    rewards: list[float | None] = reward(["p"] * len(completions), completions, **given)
    return rewards


def test_standard_and_conversational_completions_earn_the_same() -> None:
    completions = [RIGHT, message(RIGHT), WRONG, message(WRONG), "no code", message("no code")]
    assert graded(CodeReward(backend=LOCAL), completions) == [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]


async def test_the_asynchronous_form_is_a_coroutine_function_as_trl_looks_for_it() -> None:
    reward = AsyncCodeReward(backend=LOCAL)
    assert inspect.iscoroutinefunction(reward.__call__)
    assert inspect.iscoroutinefunction(async_code_reward)
    rewards = await reward(["p"] * 2, [RIGHT, WRONG], test_list=[ASSERTS] * 2)
    assert rewards == [1.0, 0.0]


def test_held_out_asserts_count_unless_told_otherwise() -> None:
    lookup = "<answer>def double(n): return {2: 4, 5: 10}[n]</answer>"
    held_out = [["assert double(7) == 14"]]
    assert graded(CodeReward(backend=LOCAL), [lookup], challenge_test_list=held_out) == [0.0]
    visible = CodeReward(backend=LOCAL, held_out=False)
    assert graded(visible, [lookup], challenge_test_list=held_out) == [1.0]


@pytest.mark.parametrize(
    ("program", "reward"),
    [
        ("print(sum(range(101)))", 1.0),
        ("print('5050  ')\nprint()", 1.0),
        ("print(5051)", 0.0),
        ("print(5050)\nraise SystemExit(1)", 0.0),
        ("print(5050", 0.0),
        ("import sys; print(sys.stdin.read() or 5050)", 1.0),
        ("import sys; print(5050, file=sys.stderr)", 0.0),
        ("import os; os.write(1, b'5050'); os._exit(0)", 1.0),
        ("import threading; threading.Timer(0.1, print, [5050]).start()", 1.0),
    ],
)
def test_a_row_without_asserts_is_graded_by_what_its_program_prints(
    program: str, reward: float
) -> None:
    columns = {"test_list": [None], "expected_output": ["5050\n"]}
    answer = f"<answer>{program}</answer>"
    assert graded(CodeReward(backend=LOCAL), [answer], **columns) == [reward]


def test_the_expected_output_is_nowhere_in_the_sandbox() -> None:
    spy = (
        "<answer>import os, sys\n"
        "found = ' '.join(sys.orig_argv) + repr(os.environ) + repr(sys._getframe(1).f_locals)\n"
        "print('secret-' + 'output' if 'secret-' + 'output' in found else 'nothing')</answer>"
    )
    (outcome,) = CodeReward(backend=LOCAL).outcomes([spy], expected_output=["secret-output"])
    assert outcome.verdict is Verdict.WRONG_ANSWER
    assert outcome.detail == "it printed 'nothing'"


def test_asserts_win_over_an_expected_output() -> None:
    printed = "<answer>print(5050)</answer>"
    assert graded(CodeReward(backend=LOCAL), [printed], expected_output=["5050"]) == [0.0]


@pytest.mark.parametrize(
    ("held_out", "rewards"), [(True, [1.0, 0.0, 0.0]), (False, [0.0, 0.0, 1.0])]
)
def test_held_out_asserts_win_over_an_expected_output_where_they_count(
    held_out: bool,  # noqa: FBT001 - a parameter of the test
    rewards: list[float],
) -> None:
    completions = [RIGHT, WRONG, "<answer>print(5050)</answer>"]
    columns: dict[str, object] = {
        "test_list": [[]] * 3,
        "challenge_test_list": [["assert double(7) == 14"]] * 3,
        "expected_output": ["5050"] * 3,
    }
    assert graded(CodeReward(backend=LOCAL, held_out=held_out), completions, **columns) == rewards


@pytest.mark.parametrize("output", ["", " \n"])
def test_an_empty_output_is_no_gift_for_a_program_that_does_nothing(output: str) -> None:
    row = {"task_id": "a", "test_list": [], "expected_output": output}
    with pytest.raises(ConfigurationError, match="problem a: there are no asserts, and expected_"):
        CodeReward(backend=LOCAL).check(row)
    with pytest.raises(ConfigurationError, match="problem 0: there are no asserts, and expected_"):
        graded(
            CodeReward(backend=LOCAL),
            ["<answer>pass</answer>"],
            expected_output=[output],
            test_list=None,
        )
    assert graded(CodeReward(backend=LOCAL), [RIGHT], expected_output=[output]) == [1.0]


def test_a_dataset_without_either_column_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r'"test_list".*"expected_output"'):
        CodeReward(backend=LOCAL)(["p"], [RIGHT])


def test_partly_right_code_earns_the_share_of_asserts_that_hold() -> None:
    tests = [
        [
            "assert double(2) == 4",
            "assert double(5) == 10",
            "assert abs(double(0.5) - 1.0) < 1e-9",
            "assert sorted([double(3), 0]) == [0, 6]",
        ]
    ]
    answers = {
        "def double(n): return 2 * n": 1.0,
        "def double(n): return n + 2": 0.25,
        "def double(n): return {5: 10, 3: 6}[n]": 0.5,
        "def double(n): return None": 0.0,
        "def double(n): import os; os._exit(0)": 0.0,
        "def double(n: return 2 * n": 0.0,
    }
    completions = [f"<answer>{code}</answer>" for code in answers]
    reward = FractionReward(backend=LOCAL)
    rewards = graded(reward, [*completions, "no code"], test_list=tests * 7)
    assert rewards == [*answers.values(), 0.0]


def test_a_lookup_table_of_the_visible_asserts_earns_their_share_only() -> None:
    lookup = "<answer>def double(n): return {2: 4, 5: 10}[n]</answer>"
    held_out = [[f"assert double({n}) == {2 * n}" for n in (7, 8, 9)]]
    reward = FractionReward(backend=LOCAL)
    assert graded(reward, [lookup], challenge_test_list=held_out) == [pytest.approx(2 / 5)]


def test_each_call_says_a_line_and_gives_its_numbers_to_the_trainer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reward = CodeReward(backend=LOCAL)
    numbers: dict[str, float] = {}
    columns: dict[str, list[object]] = {}
    with caplog.at_level(logging.INFO, "pytest_cwsandbox.rewards"):
        graded(reward, ["no code"])
        graded(
            reward,
            [RIGHT, WRONG, "no code"],
            log_metric=numbers.__setitem__,
            log_extra=columns.__setitem__,
        )
    lines = [r.message for r in caplog.records if r.name == "pytest_cwsandbox.rewards"]
    assert lines == [
        "Reward call 1: 0 sandboxes, 0/0 passed, 1 skipped (no code)",
        "Reward call 2: 2 sandboxes, 1/2 passed, 1 skipped (no code)",
    ]
    assert numbers.pop("code_reward/seconds") > 0
    assert numbers == {
        "code_reward/pass_rate": pytest.approx(1 / 3),
        "code_reward/no_code_rate": pytest.approx(1 / 3),
        "code_reward/infra_rate": 0.0,
        "code_reward/sandboxes": 2.0,
    }
    assert columns["code_reward/verdict"] == ["passed", "wrong_answer", "no_code"]


def test_what_is_lost_to_infrastructure_is_no_part_of_the_pass_rate() -> None:
    lost = Outcome(Verdict.INFRASTRUCTURE_ERROR, sandboxes=3)
    passed = Outcome(Verdict.PASSED, sandboxes=1)
    assert summary([passed, lost]) == "4 sandboxes, 1/1 passed, 1 lost to infrastructure"
    assert metrics([passed, lost])["pass_rate"] == 1.0
    assert "pass_rate" not in metrics([lost])


@pytest.mark.parametrize("beside_others", [False, True])
def test_failing_sandboxes_earn_none_or_raise_as_asked(beside_others: bool) -> None:  # noqa: FBT001 - a parameter of the test
    session.close()
    others = connected(LOCAL) if beside_others else nullcontext()
    with others, connected(LOCAL, faults=["exec-unavailable"]):
        assert graded(CodeReward(retries=0), [RIGHT, "no code"]) == [None, 0.0]
        assert graded(FractionReward(retries=0), [RIGHT, "no code"]) == [None, 0.0]
        with pytest.raises(InfrastructureError):
            graded(CodeReward(retries=0, on_infrastructure="raise"), [RIGHT])
        session.close()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("concurrency", 0),
        ("concurrency", 1.5),
        ("retries", -1),
        ("retries", None),
        ("tags", "abc"),
        ("tags", [1]),
        ("tags", None),
        ("backend", "local"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_at_once(setting: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=rf"^{setting} must be .*, got "):
        CodeReward(**{setting: value})


def test_tags_may_be_a_list() -> None:
    assert graded(CodeReward(backend=LOCAL, tags=["one", "two"]), [RIGHT]) == [1.0]


def test_it_goes_on_after_its_session_was_closed() -> None:
    reward = CodeReward(backend=LOCAL)
    assert graded(reward, [RIGHT]) == [1.0]
    session.close()
    assert graded(reward, [RIGHT]) == [1.0]


def test_several_threads_may_call_one_reward_at_once() -> None:
    session.close()
    reward = CodeReward(backend=LOCAL)
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(graded, reward, [RIGHT, WRONG]) for _ in range(4)]
        assert [call.result() for call in calls] == [[1.0, 0.0]] * 4


@pytest.mark.parametrize(
    ("version", "fine"),
    [("1.16.0", True), ("1.6.0", True), ("2.0.0", True), ("1.5.1", False), ("0.27.1", False)],
)
def test_a_trl_that_counts_none_as_zero_is_complained_about(version: str, *, fine: bool) -> None:
    complaint = complaint_about(version)
    assert (complaint == "") is fine
    assert fine or "trl>=1.6" in complaint
