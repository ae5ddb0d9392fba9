"""The bundled tasks tell a perfect agent from an idle one, through the SDK in real sandboxes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.connections import grading_session
from pytest_cwsandbox.outcome import Verdict
from pytest_cwsandbox.rollouts.task_reward import grade_task, place_files
from pytest_cwsandbox.rollouts.tasks import load_tasks
from pytest_cwsandbox.rollouts.workplace import Workplace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cwsandbox import Session

    from pytest_cwsandbox.outcome import Outcome
    from pytest_cwsandbox.rollouts.tasks import Task

TASKS = load_tasks()
every_task = pytest.mark.parametrize("task", TASKS, ids=[task.task_id for task in TASKS])


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with grading_session(BackendOptions("local")) as session:
        yield session


async def outcome_of(task: Task, session: Session, *, solved: bool) -> Outcome:
    """The grade of an agent that writes the reference solution, or does nothing."""
    async with session.sandbox() as sandbox:
        await place_files(sandbox, task.files)
        if solved:
            await place_files(sandbox, task.reference_solution)
        return await grade_task(task, Workplace.over(sandbox))


def test_there_are_at_least_eight() -> None:
    assert len(TASKS) >= 8


@every_task
async def test_reference_solution_passes(task: Task, session: Session) -> None:
    outcome = await outcome_of(task, session, solved=True)
    assert (outcome.verdict, outcome.detail) == (Verdict.PASSED, "")


@every_task
async def test_idle_agent_fails(task: Task, session: Session) -> None:
    outcome = await outcome_of(task, session, solved=False)
    assert outcome.verdict is Verdict.WRONG_ANSWER
    assert "FAILED" in outcome.detail


@every_task
def test_agent_is_given_files_but_not_what_decides(task: Task) -> None:
    assert task.files
    assert task.test_files
    for path, text in task.test_files.items():
        assert task.files.get(path) != text, path


@every_task
def test_reference_solution_leaves_the_tests_alone(task: Task) -> None:
    assert not set(task.reference_solution) & set(task.test_files)


@every_task
def test_prompt_names_what_is_to_be_written(task: Task) -> None:
    folders = {path.split("/")[0] for path in (*task.files, *task.reference_solution)}
    assert len(folders) == 1
    assert folders.pop() in task.prompt
