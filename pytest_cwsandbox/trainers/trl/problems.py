"""What a small model is first trained on, and rows of a dataset as TRL takes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_cwsandbox import problems
from pytest_cwsandbox.errors import ConfigurationError
from pytest_cwsandbox.problems.mbpp import CONFIGS
from pytest_cwsandbox.rollouts.prompts import problem_messages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_cwsandbox.problems import Problem

    Row = dict[str, object]

SYSTEM_PROMPT = """\
You solve coding problems by writing Python code.
Put your code inside <answer> tags like this: <answer>print("hello")</answer>
Only include the code, no explanations."""


@dataclass(frozen=True, slots=True)
class PrintingProblem:
    """A program is asked for, and judged by what it prints."""

    task_id: str
    prompt: str
    expected_output: str
    reference_solution: str


TOY = (
    PrintingProblem(
        "sum",
        "Print the sum of the integers from 1 to 100.",
        "5050",
        "print(sum(range(1, 101)))",
    ),
    PrintingProblem(
        "reversed",
        'Print the word "sandbox" backwards.',
        "xobdnas",
        'print("sandbox"[::-1])',
    ),
    PrintingProblem(
        "squares",
        "Print the squares of the integers from 1 to 5 on one line, separated by spaces.",
        "1 4 9 16 25",
        "print(*(n * n for n in range(1, 6)))",
    ),
    PrintingProblem(
        "vowels",
        'Print how many vowels the text "reinforcement learning" has.',
        "8",
        'print(sum(letter in "aeiou" for letter in "reinforcement learning"))',
    ),
    PrintingProblem(
        "countdown",
        "Print the integers from 5 down to 1, each on a line of its own.",
        "5\n4\n3\n2\n1",
        "for n in range(5, 0, -1):\n    print(n)",
    ),
)


def rows(source: str, *, split: str = "", limit: int | None = None) -> list[Row]:
    """The dataset of a source: ``toy``, or as ``pytest --cwsandbox-problems``.

    MBPP by name gives its train split unless told otherwise: the test split is for measuring.
    """
    if source == "toy":
        if split:
            raise ConfigurationError(f"the problems toy have no splits: leave --split {split} out")
        return [printing_row(problem) for problem in TOY[:limit]]
    problems.materialize(source)
    split = split or ("train" if source in CONFIGS else "")
    return [problem_row(problem) for problem in problems.load(source, split=split, limit=limit)]


def problem_row(problem: Problem) -> Row:
    """The prompt, and the columns that ``code_reward`` reads."""
    return {
        "prompt": problem_messages(
            problem, visible=None, held_out=True, system_prompt=SYSTEM_PROMPT
        ),
        "task_id": problem.id,
        "test_list": list(problem.test_list),
        "challenge_test_list": list(problem.challenge_test_list),
        "test_imports": list(problem.test_imports),
        "test_setup_code": problem.test_setup_code,
        "entry_point": problem.entry_point,
        "reference_solution": problem.reference_solution,
    }


def printing_row(problem: PrintingProblem) -> Row:
    return {
        "prompt": [
            {"role": "system", "content": SYSTEM_PROMPT},
            {"role": "user", "content": problem.prompt},
        ],
        "task_id": problem.task_id,
        "expected_output": problem.expected_output,
        "reference_solution": problem.reference_solution,
    }


def columns(of: Sequence[Row]) -> dict[str, list[object]]:
    """The rows as a trainer passes them to a reward function, the prompt left out."""
    return {name: [row[name] for row in of] for name in of[0] if name != "prompt"}
