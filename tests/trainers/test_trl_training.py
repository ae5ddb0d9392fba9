"""Real GRPO steps on a CPU, with a tiny model, graded on the local runner."""

from __future__ import annotations

import functools
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

trl = pytest.importorskip("trl", reason="needs trl and torch, which have their own environment")

import datasets  # noqa: E402 - after the import that may skip
import pyarrow.parquet  # noqa: E402 - likewise

from pytest_cwsandbox.backend import BackendOptions  # noqa: E402 - likewise
from pytest_cwsandbox.connections import connected, grading_session  # noqa: E402 - likewise
from pytest_cwsandbox.grading import Grader  # noqa: E402 - likewise
from pytest_cwsandbox.problems import Problem  # noqa: E402 - likewise
from pytest_cwsandbox.rewards import (  # noqa: E402 - likewise
    AsyncCodeReward,
    CodeReward,
    combine,
    format_reward,
)
from pytest_cwsandbox.rewards import session as reward_session  # noqa: E402 - likewise
from pytest_cwsandbox.trainers.trl import CodeEnvironment  # noqa: E402 - likewise
from tests.trainers import tiny_model  # noqa: E402 - likewise

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCAL = BackendOptions("local")
RIGHT = "<answer>def double(n): return 2 * n</answer>"
WRONG = "<answer>def double(n): return n + 2</answer>"
NO_CODE = "I_do_not_know"
PROBLEM = Problem(
    task_id="double",
    prompt="Write double(n).",
    test_list=("assert double(2) == 4", "assert double(5) == 10"),
    entry_point="double",
)


@pytest.fixture(autouse=True)
def _ended_session() -> Iterator[None]:
    """Each test has sessions of its own, and a runner with its own faults."""
    yield
    reward_session.close()


def rows(*, conversational: bool) -> Any:
    prompt = [{"role": "user", "content": PROBLEM.prompt}] if conversational else PROBLEM.prompt
    row = {"prompt": prompt, "test_list": list(PROBLEM.test_list), "entry_point": "double"}
    return datasets.Dataset.from_list([row] * 3)


def trained(folder: Path, reward: Any, words: tuple[str, ...], data: Any, **settings: Any) -> Any:
    tokenizer = tiny_model.tokenizer(words)
    trainer = trl.GRPOTrainer(
        model=tiny_model.model(tokenizer),
        reward_funcs=reward,
        args=tiny_model.config(folder, **settings),
        train_dataset=data,
        processing_class=tokenizer,
    )
    trainer.train()
    return trainer


def completions(folder: Path, step: int) -> list[dict[str, Any]]:
    """What TRL itself wrote about a step: one row per completion."""
    file = folder / "completions" / f"completions_{step:05d}.parquet"
    found: list[dict[str, Any]] = pyarrow.parquet.read_table(file).to_pylist()
    return found


def text(completion: Any) -> str:
    return completion if isinstance(completion, str) else str(completion[0]["content"])


@pytest.mark.parametrize("conversational", [True, False], ids=["conversational", "standard"])
@pytest.mark.parametrize("form", [CodeReward, AsyncCodeReward])
def test_the_rewards_in_the_log_are_those_of_the_grader(
    tmp_path: Path, form: Any, *, conversational: bool
) -> None:
    reward = form(backend=LOCAL)
    data = rows(conversational=conversational)
    trainer = trained(tmp_path, reward, (RIGHT, WRONG, NO_CODE), data)
    with grading_session(LOCAL) as session:
        grader = Grader(session)
        grade = functools.cache(lambda answer: grader.grade(PROBLEM, answer).result())
        seen = set()
        for step in (1, 2, 3):
            (log,) = (e for e in trainer.state.log_history if e["step"] == step and "loss" in e)
            table = completions(tmp_path, step)
            assert len(table) == 4
            for row in table:
                outcome = grade(text(row["completion"]))
                assert row["code_reward"] == outcome.reward
                assert row["code_reward/verdict"] == outcome.verdict.value
                seen.add(text(row["completion"]))
            rewards = [row["code_reward"] for row in table]
            assert log["rewards/code_reward/mean"] == log["reward"] == sum(rewards) / 4
            assert log["code_reward/pass_rate"] == sum(rewards) / 4
            assert math.isfinite(log["loss"])
        grader.close()
    assert {RIGHT, WRONG} <= seen


# What the runner's seed makes of these calls: the self-test passes, then every other grade fails.
FAULTS = ("exec-unavailable@0.5",)


def test_a_completion_whose_sandbox_failed_is_masked_and_not_counted_as_wrong(
    tmp_path: Path,
) -> None:
    reward = CodeReward(retries=0, concurrency=1)
    with connected(LOCAL, faults=FAULTS):
        trainer = trained(tmp_path, reward, (RIGHT, WRONG), rows(conversational=True), max_steps=1)
        reward_session.close()
    table = completions(tmp_path, 1)
    lost = [row for row in table if row["code_reward/verdict"] == "infrastructure_error"]
    kept = [row for row in table if row not in lost]
    assert lost
    assert len({row["code_reward"] for row in kept}) == 2, "the rest must have something to learn"
    for row in lost:
        assert row["code_reward"] is None
        assert row["advantage"] == 0.0
    mean = sum(row["code_reward"] for row in kept) / len(kept)
    for row in kept:
        assert row["code_reward"] == (text(row["completion"]) == RIGHT)
        assert row["advantage"] * (row["code_reward"] - mean) > 0
    log = trainer.state.log_history[0]
    assert log["reward"] == log["rewards/code_reward/mean"] == pytest.approx(mean)
    assert log["code_reward/infra_rate"] == len(lost) / 4
    assert math.isfinite(log["loss"])


def test_a_whole_step_without_sandboxes_moves_nothing(tmp_path: Path) -> None:
    import torch

    reward = combine((CodeReward(retries=0), 1.0), (format_reward, 0.1))
    before = tiny_model.model(tiny_model.tokenizer((RIGHT, WRONG))).state_dict()
    with connected(LOCAL, faults=("exec-unavailable",)):
        trainer = trained(tmp_path, reward, (RIGHT, WRONG), rows(conversational=True), max_steps=1)
        reward_session.close()
    assert trainer.state.log_history[0]["reward"] is None
    after = trainer.model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def called(name: str, code: str) -> str:
    """A tool call in the words of the Qwen3 template."""
    call = json.dumps({"name": name, "arguments": {"code": code}})
    return f"<tool_call>\n{call}\n</tool_call>"


def test_an_agent_trains_in_its_environment(tmp_path: Path) -> None:
    tries = called("execute_code", "print(6 * 7)")
    right = called("submit_solution", "def double(n): return 2 * n")
    wrong = called("submit_solution", "def double(n): return n + 2")
    template = Path(trl.__file__).with_name("chat_templates") / "qwen3.jinja"
    tokenizer = tiny_model.tokenizer((tries, right, wrong), template.read_text(), "<|im_end|>")
    model = tiny_model.model(tokenizer)
    model.generation_config.suppress_tokens = [0, 2]  # it may end
    trainer = trl.GRPOTrainer(
        model=model,
        environment_factory=functools.partial(CodeEnvironment, backend=LOCAL),
        args=tiny_model.config(tmp_path, max_completion_length=200),
        train_dataset=rows(conversational=True),
        processing_class=tokenizer,
    )
    trainer.train()
    rewards = []
    for step in (1, 2, 3):
        for row in completions(tmp_path, step):
            calls, results = exchanged(row["completion"])
            submitted = [code for name, code in calls if name == "submit_solution"]
            expected = float(bool(submitted) and "2 * n" in submitted[0])
            assert row["CodeEnvironment"] == expected
            rewards.append(expected)
            before = [name for name, _ in calls].index("submit_solution") if submitted else None
            for (name, _), result in list(zip(calls, results, strict=False))[:before]:
                assert (name, result) == ("execute_code", "exit=0\n42\n")
    assert set(rewards) == {0.0, 1.0}
    tags = reward_session.shared_sessions(LOCAL).agents.list().result()
    assert [box for box in tags if box.status == "running"] == []


def exchanged(completion: Any) -> tuple[list[tuple[str, str]], list[str]]:
    """The tool calls of a conversation, and what they returned."""
    calls = [call["function"] for m in completion for call in m.get("tool_calls") or ()]
    results = [message["content"] for message in completion if message["role"] == "tool"]
    return [(call["name"], call["arguments"]["code"]) for call in calls], results


def test_the_command_trains_a_local_model(tmp_path: Path) -> None:
    folder = tiny_model.save(tmp_path / "tiny", ("<answer>print(5050)</answer>", NO_CODE))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest_cwsandbox.trainers.trl",
            f"--model={folder}",
            "--max-steps=3",
            "--max-completion-length=1",
            "--backend=local",
            f"--output-dir={tmp_path / 'trained'}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("TRL GRPO Integration (job: ")
    assert f"Loading model: {folder}" in lines
    assert "  Dataset size: 5 problems" in lines
    calls = [line for line in lines if line.startswith("[CWSandbox] Reward call ")]
    assert [call.split(":")[0][-1] for call in calls] == ["1", "2", "3"]
    assert all(" sandboxes, " in call and "passed" in call for call in calls)
    assert lines[-1] == "Training completed successfully!"
    assert (tmp_path / "trained" / "model.safetensors").exists()


def test_two_ranks_train_together_and_one_speaks_for_both(tmp_path: Path) -> None:
    folder = tiny_model.save(tmp_path / "tiny", ("<answer>print(5050)</answer>", NO_CODE))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"),
            *("-m", "pytest_cwsandbox.trainers.trl", f"--model={folder}"),
            *("--max-steps=2", "--max-completion-length=1", "--backend=local"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert sum(line.startswith("TRL GRPO Integration (job: ") for line in lines) == 1
    assert sum(line == "Training completed successfully!" for line in lines) == 1
    for prefix in ("[CWSandbox]", "[CWSandbox rank 1]"):
        calls = [line for line in lines if line.startswith(f"{prefix} Reward call ")]
        assert len(calls) == 2, done.stdout


def test_a_model_that_is_nowhere_is_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest_cwsandbox.trainers.trl", "--model", str(tmp_path / "none")],
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"Error: --model {tmp_path / 'none'} cannot be loaded: ")
