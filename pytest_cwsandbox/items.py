"""What an item is of: its problem or task, its group, its sample number."""

from __future__ import annotations

import pytest

from pytest_cwsandbox.parametrize import Marked, marker
from pytest_cwsandbox.problems import Problem
from pytest_cwsandbox.rollouts.tasks import Task

REPLAYED = pytest.StashKey[bool]()


def runs_tests(config: pytest.Config) -> bool:
    """Whether this run is for running tests, and not only for showing what it would do."""
    only_shows = ("collectonly", "setuponly", "setupplan")  # those of plugins that are not blocked
    return not any(config.getoption(name, default=False) for name in only_shows)


def is_replayed(item: pytest.Item) -> bool:
    """Whether it only repeats what the journal of a continued run says: it needs no fixture."""
    return item.stash.get(REPLAYED, False)


def _parameters(item: pytest.Item) -> dict[str, object]:
    callspec = getattr(item, "callspec", None)
    return dict(callspec.params) if callspec else {}


def number_of(item: pytest.Item) -> int:
    """Which sample of its problem or task it is, from 0."""
    number = _parameters(item).get("sample")
    return number if isinstance(number, int) and not isinstance(number, bool) else 0


def goal_of(item: pytest.Item) -> Problem | Task | None:
    """The item's problem or task; a test may have parameters of these names that are not ours."""
    given = _parameters(item)
    goals = (given.get("problem"), given.get("task"))
    return next((goal for goal in goals if isinstance(goal, Problem | Task)), None)


def group_of(item: pytest.Item, goal: Problem | Task | None) -> str:
    """``source/test function``, or ``source/NAME`` where the marker names the group."""
    name = getattr(item, "originalname", None) or item.name
    mark = marker(item)
    if mark is not None:
        name = Marked.of(mark).group or name
    source = goal.source if goal and mark else item.path.stem
    return f"{source}/{name}"


def about(goal: Problem | Task | None) -> dict[str, str]:
    """What a sample's metadata say of its problem or task."""
    if goal is None:
        return {}
    return {name: value for name in ("source", "split") if (value := getattr(goal, name))}
