"""How the scripts solve what is bundled: the calls to make, one after the other."""

from __future__ import annotations

import functools
import shlex
import zlib
from dataclasses import dataclass

from pytest_cwsandbox import problems
from pytest_cwsandbox.problems import Problem
from pytest_cwsandbox.rollouts.scripted.conversation import Step
from pytest_cwsandbox.rollouts.tasks import Task, load_tasks


@dataclass(frozen=True, slots=True)
class Plan:
    """``steps`` solve it, and ``last_words`` follow them. ``stumbles`` says that one step fails."""

    steps: tuple[Step, ...]
    last_words: str
    stumbles: bool = False


def find(asked: str) -> Problem | Task | None:
    """The bundled problem or task that is asked for; the longest, where one asks for another."""
    return max(
        (known for prompt, known in bundled() if prompt in asked),
        key=lambda known: len(known.prompt),
        default=None,
    )


@functools.cache
def bundled() -> tuple[tuple[str, Problem | Task], ...]:
    """All that the scripts can solve, by prompt; read once."""
    known: list[Problem | Task] = [*problems.load("bundled"), *load_tasks("bundled")]
    return tuple((one.prompt.strip(), one) for one in known)


def solution(known: Problem | Task) -> Plan:
    """The way to the right answer; of some, with a draft that fails first."""
    return _of_problem(known) if isinstance(known, Problem) else _of_task(known)


def submission(problem: Problem) -> Step:
    return Step("submit_solution", {"code": problem.reference_solution})


def trial(problem: Problem) -> Step:
    """Run the reference solution on the first assert that is not held out."""
    return _execute(problem, problem.reference_solution)


def misspelt(code: str) -> str:
    """The same with a colon or a bracket missing, as in a draft that nobody ran."""
    for right in (":\n", "; then\n", ")"):
        if right in code:
            return code.replace(right, "\n" if right.endswith("\n") else "", 1)
    return f"{code}("


def _of_problem(problem: Problem) -> Plan:
    stumbles = _share(problem.task_id, 4)
    draft = [_execute(problem, misspelt(problem.reference_solution))] if stumbles else []
    return Plan((*draft, trial(problem), submission(problem)), "I have submitted it.", stumbles)


def _of_task(task: Task) -> Plan:
    files = task.reference_solution
    stumbles = _share(task.task_id, 3)
    draft: list[Step] = []
    if stumbles:
        path = next(iter(files))
        draft = [_write(path, misspelt(files[path])), _bash(_check(path))]
    steps = (
        _bash("ls"),
        *draft,
        *(_write(path, text) for path, text in files.items()),
        _bash(" && ".join(map(_check, files))),
    )
    return Plan(steps, "It is done.", stumbles)


def _share(key: str, of: int) -> bool:
    """True for one key in ``of``, always the same ones."""
    return zlib.crc32(key.encode()) % of == 0


def _execute(problem: Problem, solution_code: str) -> Step:
    parts = [
        *problem.test_imports,
        solution_code,
        problem.test_setup_code,
        *problem.test_list[:1],
        'print("the first assert holds")',
    ]
    return Step("execute_code", {"code": "\n".join(filter(None, parts))})


def _write(path: str, content: str) -> Step:
    return Step("write_file", {"path": path, "content": content})


def _bash(command: str) -> Step:
    return Step("bash", {"command": command})


def _check(path: str) -> str:
    """A command that fails when a file's syntax is wrong."""
    word = shlex.quote(path)
    if path.endswith(".py"):
        return f"python3 -m ast {word} > /dev/null && echo {word} is fine"
    if path.endswith(".sh"):
        return f"bash -n {word} && echo {word} is fine"
    return f"wc -c {word}"
