"""`@pytest.mark.problems`: every problem, or every sample of it, becomes an item."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.errors import UserError
from pytest_cwsandbox.problems import load
from pytest_cwsandbox.settings import NAMED_SOURCES, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_cwsandbox.problems import Problem

MARKER = (
    "problems(source=None, samples=1, group=None): run the test once per problem and sample. "
    "The source is bundled, toy or a path; without one it comes from --cwsandbox-problems, which "
    "knows mbpp and mbpp-sanitized too. "
    "`group` names the samples in the report."
)
# Coroutine tests that ask for one of these are run by pytest-asyncio, whatever its mode.
FIXTURES = frozenset(
    {
        "cwsandbox_session",
        "grade",
        "grade_exit_code",
        "problem",
        "record_reward",
        "sandbox",
        "sandbox_factory",
    }
)
ASYNC_MARKERS = ("asyncio", "anyio", "trio")
_OFFLINE_SOURCES = ("bundled", "toy")


@dataclass(frozen=True, slots=True)
class Marked:
    """What a ``problems`` marker says."""

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
                "the marker takes problems(source=None, samples=1, group=None)"
            ) from None
        if marked.source is not None and (not isinstance(marked.source, str) or not marked.source):
            raise ValueError(f"source must be a name or a path, got {marked.source!r}")
        if marked.source in NAMED_SOURCES and marked.source not in _OFFLINE_SOURCES:
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


def mark_coroutine(collector: pytest.Collector, obj: object) -> None:
    """Mark a coroutine test for pytest-asyncio if it has our marker or uses a fixture of ours."""
    if not inspect.iscoroutinefunction(obj):
        return
    own = getattr(obj, "pytestmark", [])
    if any(mark.name in ASYNC_MARKERS for mark in own):
        return
    problems = any(mark.name == "problems" for mark in own)
    ours = not FIXTURES.isdisjoint(inspect.signature(obj).parameters)
    if problems or ours or collector.get_closest_marker("problems"):
        pytest.mark.asyncio()(obj)


def parametrize(metafunc: pytest.Metafunc, settings: Settings) -> None:
    """Give a marked test its ``problem`` and ``sample``; a bad marker is one collection error."""
    mark = metafunc.definition.get_closest_marker("problems")
    if mark is None:
        return
    try:
        marked = Marked.of(mark)
        cases = list(_cases(metafunc, marked, settings))
    except (ValueError, UserError) as error:
        raise pytest.Collector.CollectError(
            f"{metafunc.definition.nodeid}: @pytest.mark.problems: {error}"
        ) from None
    # An item exists per problem and sample whether or not the test asks for them by name.
    for name in ("problem", "sample"):
        if name not in metafunc.fixturenames:
            metafunc.fixturenames.append(name)
    metafunc.parametrize(("problem", "sample"), cases)


def _cases(metafunc: pytest.Metafunc, marked: Marked, settings: Settings) -> Iterator[object]:
    problems = _problems(metafunc, marked, settings)
    if not problems:
        raise ValueError(f"{marked.source or settings.problems} holds no problems")
    for problem in problems:
        for sample in range(marked.samples):
            suffix = f"-s{sample}" if marked.samples > 1 else ""
            yield pytest.param(problem, sample, id=problem.id + suffix)


def _problems(metafunc: pytest.Metafunc, marked: Marked, settings: Settings) -> list[Problem]:
    if marked.source is None:
        return load(settings.problems, split=settings.split, limit=settings.limit)
    if marked.source in NAMED_SOURCES:
        return load(marked.source, limit=settings.limit)
    path = metafunc.config.rootpath / marked.source
    return load(str(path), limit=settings.limit)
