"""The plan of a run, written down once its samples are collected."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from pytest_cwsandbox.items import goal_of, group_of, number_of, runs_tests
from pytest_cwsandbox.problems import Problem
from pytest_cwsandbox.recording import TROUBLE, unwritable
from pytest_cwsandbox.rollouts.tasks import Task
from pytest_cwsandbox.runs import plan
from pytest_cwsandbox.runs.identity import RUN
from pytest_cwsandbox.runs.plan import Planned
from pytest_cwsandbox.runs.redaction import sample_id
from pytest_cwsandbox.settings import SETTINGS

if TYPE_CHECKING:
    import pytest

SAMPLED = frozenset({"rollout", "record_reward"})  # an item with one of these may be a sample


def write_plan(session: pytest.Session) -> None:
    """Write down which samples were collected; the first process of the run does."""
    run = session.config.stash[RUN]
    if run.worker not in {"main", "gw0"} or not runs_tests(session.config):
        return
    if session.testsfailed and not session.config.option.continue_on_collection_errors:
        return  # pytest runs nothing
    if run.orphaned:
        return  # the folder may by now be of a run that continues this one
    planned = []
    problems: dict[str, Problem] = {}
    tasks: dict[str, dict[str, object]] = {}
    for item in session.items:
        if SAMPLED.isdisjoint(getattr(item, "fixturenames", ())):
            continue
        goal = goal_of(item)
        if isinstance(goal, Problem):
            problems[goal.id] = goal
        if isinstance(goal, Task):
            tasks[goal.id] = asdict(goal)
        name = goal.id if goal else ""
        node = sample_id(item.nodeid)
        planned.append(Planned(node, group_of(item, goal), name, number_of(item)))
    if not (planned or session.config.stash[SETTINGS].resume):
        return
    try:
        plan.write(run.folder, planned, problems, tasks)
    except OSError as error:
        session.config.stash[TROUBLE] = unwritable(run.folder, error)
