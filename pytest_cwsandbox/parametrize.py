"""`@pytest.mark.problems` and `tasks`: every problem or task, or sample of it, becomes an item."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.errors import UserError
from pytest_cwsandbox.options import NAMED_SOURCES
from pytest_cwsandbox.problems import load

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_cwsandbox.problems import Problem
    from pytest_cwsandbox.rollouts.tasks import Task
    from pytest_cwsandbox.settings import Settings

PROBLEMS_MARKER = (
    "problems(source=None, samples=1, group=None): run the test once per problem and sample. "
    "The source is bundled, toy or a path; without one it comes from --cwsandbox-problems, which "
    "knows mbpp and mbpp-sanitized too. "
    "`group` names the samples in the report."
)
TASKS_MARKER = (
    "tasks(source=None, samples=1, group=None): run the test once per task and sample. The source "
    "is bundled or a path; without one it comes from --cwsandbox-tasks."
)
# What a marker parametrizes, by the marker's name.
ARGUMENTS = {"problems": "problem", "tasks": "task"}
# Coroutine tests that ask for one of these are run by pytest-asyncio, whatever its mode.
FIXTURES = frozenset(
    {
        "cwsandbox_session",
        "grade",
        "grade_exit_code",
        "problem",
        "record_reward",
        "rollout",
        "sandbox",
        "sandbox_factory",
        "task",
    }
)
COROUTINES = pytest.StashKey[bool]()  # whether any marked test is one
ASYNC_MARKERS = ("asyncio", "anyio", "trio")
_OFFLINE_SOURCES = ("bundled", "toy")


@dataclass(frozen=True, slots=True)
class Marked:
    """What a ``problems`` or ``tasks`` marker says."""

    source: str | None
    samples: int
    group: str | None

    @classmethod
    def of(cls, mark: pytest.Mark) -> Marked:
        """Check the marker's arguments; raises ``ValueError`` with one line."""

        def signature(
            source: str | None = None, samples: int = 1, group: str | None = None
        ) -> Marked:
            return cls(source, samples, group)

        try:
            marked = signature(*mark.args, **mark.kwargs)
        except TypeError:
            raise ValueError(
                f"the marker takes {mark.name}(source=None, samples=1, group=None)"
            ) from None
        if marked.source is not None and (not isinstance(marked.source, str) or not marked.source):
            raise ValueError(f"source must be a name or a path, got {marked.source!r}")
        online = marked.source in NAMED_SOURCES and marked.source not in _OFFLINE_SOURCES
        if mark.name == "problems" and online:
            raise ValueError(
                f"{marked.source} is fetched from the network, which a marker must not do: "
                f"leave source out and run with --cwsandbox-problems={marked.source}"
            )
        if type(marked.samples) is not int or marked.samples < 1:
            raise ValueError(
                f"samples must be a whole number of at least 1, got {marked.samples!r}"
            )
        if marked.group is not None and (not isinstance(marked.group, str) or not marked.group):
            raise ValueError(f"group must be a non-empty text, got {marked.group!r}")
        return marked


def is_marked(marks: Iterable[pytest.Mark | pytest.MarkDecorator]) -> bool:
    """Whether one of these is a marker of ours."""
    return any(mark.name in ARGUMENTS for mark in marks)


def uses_ours(obj: object) -> bool:
    """Whether a test function or class is marked, or is a coroutine that asks for our fixtures."""
    obj = getattr(obj, "__func__", obj)  # of a static method
    marks = getattr(obj, "pytestmark", [])
    if is_marked(marks if isinstance(marks, list) else [marks]):
        return True
    return inspect.iscoroutinefunction(obj) and not FIXTURES.isdisjoint(
        inspect.signature(obj).parameters
    )


def mark_coroutine(collector: pytest.Collector, obj: object) -> None:
    """Mark a coroutine test for pytest-asyncio if it has our marker or uses a fixture of ours."""
    if not inspect.iscoroutinefunction(obj):
        return
    if any(mark.name in ASYNC_MARKERS for mark in getattr(obj, "pytestmark", [])):
        return
    if uses_ours(obj) or is_marked(collector.iter_markers()):
        pytest.mark.asyncio()(obj)


def marker(item: pytest.Item) -> pytest.Mark | None:
    """The item's ``problems`` or ``tasks`` marker."""
    return next(filter(None, map(item.get_closest_marker, ARGUMENTS)), None)


def parametrize(metafunc: pytest.Metafunc, settings: Settings) -> None:
    """Give a marked test its problem or task, and ``sample``.

    A bad marker is one collection error.
    """
    marks = [mark for name in ARGUMENTS if (mark := metafunc.definition.get_closest_marker(name))]
    if not marks:
        return
    mark = marks[0]
    try:
        if len(marks) > 1:
            raise ValueError("a test takes problems or tasks, not both")
        marked = Marked.of(mark)
        load_goals = _problems if mark.name == "problems" else _tasks
        goals = load_goals(metafunc, marked, settings)
    except (ValueError, UserError) as error:
        raise pytest.Collector.CollectError(
            f"{metafunc.definition.nodeid}: @pytest.mark.{mark.name}: {error}"
        ) from None
    if inspect.iscoroutinefunction(metafunc.function):
        metafunc.config.stash[COROUTINES] = True
    # An item exists per goal and sample whether or not the test asks for them by name.
    argument = ARGUMENTS[mark.name]
    for name in (argument, "sample"):
        if name not in metafunc.fixturenames:
            metafunc.fixturenames.append(name)
    metafunc.parametrize((argument, "sample"), list(_cases(goals, marked.samples)))


def _cases(goals: Sequence[Problem | Task], samples: int) -> Iterator[object]:
    for goal in goals:
        for sample in range(samples):
            suffix = f"-s{sample}" if samples > 1 else ""
            yield pytest.param(goal, sample, id=goal.id + suffix)


def _problems(metafunc: pytest.Metafunc, marked: Marked, settings: Settings) -> list[Problem]:
    if marked.source is None:
        return load(settings.problems, split=settings.split, limit=settings.limit)
    if marked.source in NAMED_SOURCES:
        return load(marked.source, limit=settings.limit)
    path = metafunc.config.rootpath / marked.source
    return load(str(path), limit=settings.limit)


def _tasks(metafunc: pytest.Metafunc, marked: Marked, settings: Settings) -> list[Task]:
    from pytest_cwsandbox.rollouts.tasks import load_tasks

    source = marked.source or settings.tasks
    if marked.source and marked.source != "bundled":
        source = str(metafunc.config.rootpath / marked.source)
    return load_tasks(source, limit=settings.limit)
