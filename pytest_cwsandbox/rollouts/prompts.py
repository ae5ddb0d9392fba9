"""What the model is asked: a problem with the asserts that it may see, or a task."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_cwsandbox.problems import Problem
    from pytest_cwsandbox.rollouts.messages import Message
    from pytest_cwsandbox.rollouts.tasks import Task

SOLVE = """\
You solve programming problems in Python. You have a sandbox, which you use through tools:
- execute_code runs Python code in it and shows you what it prints. Files that the code writes stay.
- submit_solution hands in your solution and ends the task. Only what you submit is judged.
Try your solution with execute_code before you submit it. Submit complete code: imports, helpers and
the function that is asked for."""

# For tools that we do not know: their definitions say what they do.
SOLVE_WITH_OTHERS = """\
You solve programming problems in Python with the tools that you are given. Only what you hand in
with them is judged: complete code, with imports, helpers and the function that is asked for."""

WORK_WITH_OTHERS = """\
You work with the tools that you are given. Do what you are asked, check that it works, and then
answer without calling a tool, which ends the task."""

WORK = """\
You work on a computer through tools: a shell, and a way to read and to write files. Files and
programs stay as you leave them. Do what you are asked, check that it works, and then answer without
calling a tool, which ends the task. The state of the files is what counts."""


def problem_messages(
    problem: Problem, *, visible: int | None, held_out: bool, system_prompt: str
) -> list[Message]:
    """The beginning of an episode about a problem.

    ``visible`` is how many of ``test_list`` the model sees, None for all; ``held_out`` says that
    ``challenge_test_list`` counts too. The prompt says what it does not show.
    """
    shown = problem.test_list if visible is None else problem.test_list[:visible]
    hidden = len(problem.test_list) - len(shown)
    hidden += len(problem.challenge_test_list) if held_out else 0
    parts = [problem.prompt.rstrip()]
    if problem.entry_point and problem.entry_point not in problem.prompt:
        parts.append(f"The function is called `{problem.entry_point}`.")
    if shown:
        before = [*problem.test_imports, *problem.test_setup_code.rstrip().splitlines()]
        code = "\n".join([*before, *shown])
        parts.append(f"Your solution is checked with:\n```python\n{code}\n```")
        if hidden:
            parts.append(f"and with {_asserts(hidden, 'more ')} that you do not see.")
    else:
        parts.append(f"Your solution is checked with {_asserts(hidden)} that you do not see.")
    return [
        {"role": "system", "content": system_prompt},
        {"role": "user", "content": "\n\n".join(parts)},
    ]


def task_messages(task: Task, *, system_prompt: str) -> list[Message]:
    """The beginning of an episode about a task."""
    return [
        {"role": "system", "content": task.system_prompt or system_prompt},
        {"role": "user", "content": task.prompt},
    ]


def _asserts(count: int, more: str = "") -> str:
    return f"1 {more}assert" if count == 1 else f"{count} {more}asserts"
