"""A large run made up for benchmarks: its texts are pieces of the standard library's source."""

from __future__ import annotations

import json
import random
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_cwsandbox.outcome import SampleRecord
from pytest_cwsandbox.problems import Problem
from pytest_cwsandbox.rollouts.recorded import RecordedTrajectory
from pytest_cwsandbox.rollouts.trajectory import Choice, StopReason, Trajectory
from pytest_cwsandbox.runs import journal, lines, plan, summary
from pytest_cwsandbox.runs.journal import Entry
from pytest_cwsandbox.runs.plan import Planned

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_cwsandbox.rollouts.messages import Message

WORKERS = 8
WRONG = ("wrong_answer", "wrong_answer", "runtime_error", "timeout", "syntax_error")
ASKED = (
    "Solve the task with the tool run_python, then hand your solution in with submit. Think step "
    "by step, try your code on the examples that you are given, and mind the edge cases. "
)


class Texts:
    """Code that differs from piece to piece and compresses as code does."""

    def __init__(self, random_: random.Random) -> None:
        self._random = random_
        folder = Path(sysconfig.get_path("stdlib"))
        files = sorted(folder.glob("*.py")) + sorted((folder / "asyncio").glob("*.py"))
        self._lines = [line for file in files for line in file.read_text().splitlines()]

    def piece(self, characters: int) -> str:
        """About so many characters, of whole lines that follow each other."""
        start = self._random.randrange(len(self._lines) - 2000)
        taken: list[str] = []
        length = 0
        wanted = characters * self._random.uniform(0.6, 1.4)
        while length < wanted:
            taken.append(self._lines[start + len(taken)])
            length += len(taken[-1]) + 1
        return "\n".join(taken)


def write(folder: Path, *, problems: int = 1000, samples: int = 10, seed: int = 0) -> int:
    """Write the folder of a run that has ended; returns the number of its samples."""
    random_ = random.Random(seed)  # noqa: S311 - a benchmark
    texts = Texts(random_)
    known = [_problem(number, texts) for number in range(problems)]
    planned = [
        Planned(_node(problem, sample), f"mbpp/{_function(problem)}", problem.id, sample)
        for problem in known
        for sample in range(samples)
    ]
    plan.write(folder, planned, {problem.id: problem for problem in known}, {})
    prompts = {problem.id: problem.prompt for problem in known}
    skill = {problem.id: random_.betavariate(0.6, 0.4) for problem in known}
    entries = []
    for number, each in enumerate(planned):
        record = _record(each, skill[each.problem], texts, random_)
        worker = f"gw{number % WORKERS}"
        entry = Entry(record, "lost")
        if record.reward is not None:
            journal.append(folder, worker, Entry(record, "graded"))
            entry = Entry(record, "ended", ending="passed")
        journal.append(folder, worker, entry)
        entries.append(entry)
        trajectory = _trajectory(record, prompts[each.problem], texts, random_)
        told = RecordedTrajectory(each.id, each.group, each.problem, each.sample, trajectory)
        lines.append(folder / f"trajectories-{worker}.jsonl", told.to_json())
    journal.merge(folder, entries)
    records = [entry.record for entry in entries]
    summary.write(folder, summary.summarise_run(folder.name, records, keys=["split"], ks=[1, 5]))
    return len(planned)


def _problem(number: int, texts: Texts) -> Problem:
    return Problem(
        task_id=str(number),
        prompt=f"Write a function f{number} that does what this text is about.\n{texts.piece(400)}",
        test_list=tuple(f"assert f{number}({n}) == {n * number}" for n in range(3)),
        entry_point=f"f{number}",
        reference_solution=texts.piece(500),
        split="train" if number % 3 else "test",
        source="mbpp",
    )


def _function(problem: Problem) -> str:
    return f"test_agent_{int(problem.task_id) % 5}"


def _node(problem: Problem, sample: int) -> str:
    return f"evals/test_mbpp_rollouts.py::{_function(problem)}[{problem.id}-{sample}]"


def _record(planned: Planned, skill: float, texts: Texts, random_: random.Random) -> SampleRecord:
    lost = random_.random() < 0.01
    passed = random_.random() < skill
    verdict = "passed" if passed else random_.choice(WRONG)
    numbers = [random_.randrange(10_000) for _ in range(2)]
    detail = f"assert 2 of 3: f({numbers[0]}) returned {numbers[1]}" if not passed else ""
    return SampleRecord(
        id=planned.id,
        group=planned.group,
        problem=planned.problem,
        sample=planned.sample,
        reward=None if lost else float(passed),
        verdict="infrastructure_error" if lost else verdict,
        detail="the sandbox could not be created" if lost else detail,
        seconds=random_.lognormvariate(1.5, 0.8),
        metadata={
            "source": "mbpp",
            "split": "train" if random_.random() < 0.7 else "test",
            "model": "a-model-7b",
            "stop_reason": "submitted",
            "turns": "3",
            "tool_calls": "2",
            "tokens_in": str(random_.randrange(1000, 4000)),
            "tokens_out": str(random_.randrange(200, 1500)),
        },
        grader="submission",
        completion=texts.piece(1000),
    )


def _trajectory(
    record: SampleRecord, prompt: str, texts: Texts, random_: random.Random
) -> Trajectory:
    messages: list[dict[str, object]] = [
        {"role": "system", "content": ASKED},
        {"role": "user", "content": prompt},
        *_tried(1, texts.piece(1200), texts.piece(700)),
        *_tried(2, texts.piece(900), texts.piece(400)),
        *_tried(3, record.completion, "submitted"),
    ]
    tokens = int(record.metadata["tokens_out"]) // 3
    return Trajectory(
        messages=tuple(_as_messages(messages)),
        tools=(),
        stop_reason=StopReason.SUBMITTED,
        reward=record.reward,
        verdict=record.verdict,
        detail=record.detail,
        choices=tuple(Choice("tool_calls", 800, tokens) for _ in range(3)),
        metrics={"turns": 3, "tool_calls": 2, "tokens_in": 2400, "tokens_out": 3 * tokens},
        metadata={
            "model": "a-model-7b",
            "tags": ["pytest-cwsandbox"],
            "sandbox_ids": [f"{random_.getrandbits(64):016x}"],
            "submission": record.completion,
        },
    )


def _tried(turn: int, code: str, answer: str) -> Iterator[dict[str, object]]:
    call = f"call_{turn}"
    function = {"name": "run_python", "arguments": json.dumps({"code": code})}
    yield {
        "role": "assistant",
        "content": f"Let me try this, turn {turn}.",
        "tool_calls": [{"id": call, "type": "function", "function": function}],
    }
    yield {"role": "tool", "tool_call_id": call, "content": answer}


def _as_messages(rows: list[dict[str, object]]) -> list[Message]:
    return rows  # type: ignore[return-value]  # they have the form of messages
