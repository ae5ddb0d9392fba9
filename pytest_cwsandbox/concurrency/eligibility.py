"""Which tests may start before their turn, and with which arguments."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import pytest

from pytest_cwsandbox import fixtures, opened, rollout_fixture, sandbox_fixtures
from pytest_cwsandbox.concurrency.live import Wanted
from pytest_cwsandbox.items import is_replayed
from pytest_cwsandbox.parametrize import ASYNC_MARKERS, marker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from pytest_cwsandbox.concurrency.live import LiveFixtures

    Definitions: TypeAlias = Mapping[str, Sequence[pytest.FixtureDef[object]]]

# The plugin's own fixtures of function scope: what opens the value for an item, and which fixtures
# it is told.
_OWN: Mapping[str, tuple[Callable[..., AbstractContextManager[object]], tuple[str, ...]]] = {
    "grade": (fixtures.grading, ("_cwsandbox_grader",)),
    "grade_exit_code": (fixtures.grading_exit_codes, ("_cwsandbox_exit_code_grader",)),
    "record_reward": (fixtures.recording_rewards, ()),
    "rollout": (rollout_fixture.rolling_out, ("_cwsandbox_rollouts", "sample")),
    "sandbox": (sandbox_fixtures.starting, ("_cwsandbox_sandboxes",)),
}
_OTHER_LOOPS = frozenset(ASYNC_MARKERS) - {"asyncio"}


def is_candidate(item: pytest.Item) -> bool:
    """Whether it is a coroutine test with a marker of ours that asyncio is to run."""
    return (
        isinstance(item, pytest.Function)
        and not getattr(item, "nofuncargs", False)  # of unittest, which runs it itself
        and inspect.iscoroutinefunction(item.function)
        and marker(item) is not None
        and not is_replayed(item)
        and not any(item.get_closest_marker(name) for name in _OTHER_LOOPS)
    )


@dataclass(frozen=True, slots=True)
class Needs:
    """What a candidate needs to start, by name: arguments, parameters, fixtures of wider scope."""

    arguments: Sequence[str] = ()
    direct: Mapping[str, object] = field(default_factory=dict)
    wider: Mapping[str, Wanted] = field(default_factory=dict)
    shares_loop: bool = False  # with all tests of the session, by the user's own word

    def met(self, live: LiveFixtures) -> bool:
        """Whether every fixture of wider scope is set up as the test wants it."""
        return all(live.get(wanted) is not None for wanted in self.wider.values())

    def values(self, item: pytest.Item, live: LiveFixtures) -> dict[str, object]:
        """The test's arguments, when its needs are met; our own fixtures are opened for it."""

        def value(name: str) -> object:
            if name in self.direct:
                return self.direct[name]
            if name in self.wider:
                found = live.get(self.wider[name])
                return found.value if found else None
            opens, told = _OWN[name]
            return opened.ahead(item, opens, *map(value, told))

        return {name: value(name) for name in self.arguments}


class IneligibleError(Exception):
    """Why a candidate cannot start before its turn, and because of what; empty: nobody is told."""

    def __init__(self, reason: str = "", of: str = "") -> None:
        super().__init__(reason, of)
        self.reason = reason
        self.of = of


FIXTURE = "tests run in order that use fixtures which are made for one test at a time"
AUTOUSE = (
    "autouse fixtures that are made for one test at a time keep tests from running ahead, give "
    "them a wider scope"
)


def needs_of(item: pytest.Function) -> Needs:
    """What a candidate needs; raises ``IneligibleError``."""
    _check_markers(item)
    try:
        info = item._fixtureinfo  # noqa: SLF001 - no public name tells which fixture is meant
        arguments, names = info.argnames, info.initialnames
        definitions: Definitions = info.name2fixturedefs
    except AttributeError:  # of another pytest
        if item.fixturenames:
            raise IneligibleError("tests with fixtures run in order on", "this pytest") from None
        return Needs()
    callspec = getattr(item, "callspec", None)
    params: Mapping[str, object] = callspec.params if callspec else {}
    reading = _Reading(item, definitions, params)
    for name in dict.fromkeys((*names, *params)):
        reading.read(name, asked=name in arguments)
    shares_loop = _with_asyncio(item) and _loop_scope(item) == "session"
    return Needs(arguments, reading.direct, reading.wider, shares_loop)


def wider_params(item: pytest.Item) -> list[Wanted]:
    """The parametrized fixtures of wider scope that an item uses, eligible or not."""
    callspec = getattr(item, "callspec", None)
    info = getattr(item, "_fixtureinfo", None)
    if callspec is None or info is None:
        return []
    named = ((info.name2fixturedefs.get(name), param) for name, param in callspec.params.items())
    return [
        Wanted(defined[-1], param)
        for defined, param in named
        if defined and defined[-1].scope != "function"
    ]


def _is_direct(fixture: pytest.FixtureDef[object]) -> bool:
    """Whether it only hands a parameter on, as pytest makes them for `parametrize`."""
    return fixture.func.__module__ == "_pytest.python"


class _Reading:
    """Sorts the fixtures that a test uses."""

    def __init__(
        self, item: pytest.Function, definitions: Definitions, params: Mapping[str, object]
    ) -> None:
        self._item = item
        self._definitions = definitions
        self._params = params
        self.direct: dict[str, object] = {}
        self.wider: dict[str, Wanted] = {}

    def read(self, name: str, *, asked: bool = True) -> None:
        defined = self._definitions.get(name)
        if not defined:  # `request`, or what does not exist
            raise IneligibleError(FIXTURE, name)
        fixture = defined[-1]
        narrow = fixture.scope == "function" or (fixture.scope == "class" and not self._item.cls)
        if not narrow:
            self.wider[name] = Wanted(fixture, self._params.get(name))
        elif name in self._params and _is_direct(fixture):
            self.direct[name] = self._params[name]
        else:
            self._read_own(name, fixture, asked=asked)

    def _read_own(self, name: str, fixture: pytest.FixtureDef[object], *, asked: bool) -> None:
        module = fixture.func.__module__
        if name in _OWN and module.startswith("pytest_cwsandbox."):
            for told in _OWN[name][1]:
                self.read(told)
            factory = self._definitions.get("sandbox_factory", (fixture,))[-1]
            if factory.func.__module__.startswith("pytest_cwsandbox."):
                return
        marks = self._item.iter_markers("usefixtures")
        if asked or name in self._params or any(name in mark.args for mark in marks):
            raise IneligibleError(FIXTURE, name)
        raise IneligibleError(AUTOUSE, f"{_known_as(name)} of {module}")


def _known_as(name: str) -> str:
    """A fixture's name, or of what pytest has made it: setup_method, setup_function."""
    return name.removeprefix("_xunit_").partition("_fixture")[0] if "_xunit_" in name else name


def _check_markers(item: pytest.Function) -> None:
    if _is_skipped(item):
        raise IneligibleError
    if any(mark.kwargs.get("run") is False for mark in item.iter_markers("xfail")):
        raise IneligibleError
    if item.get_closest_marker("filterwarnings"):
        raise IneligibleError("tests run in order that have the marker", "filterwarnings")
    if getattr(item.function, "patchings", ()):  # for the whole process, while the test runs
        raise IneligibleError("tests run in order that are decorated with", "patch")
    if _with_asyncio(item) and _loop_scope(item) not in _SCOPES:
        raise IneligibleError(
            "tests run in order that share an event loop of their", _loop_scope(item)
        )


_SCOPES = ("function", "session")


def _with_asyncio(item: pytest.Item) -> bool:
    return item.config.pluginmanager.hasplugin("asyncio")


def _loop_scope(item: pytest.Function) -> str:
    """Which other tests pytest-asyncio has it share a loop with."""
    mark = item.get_closest_marker("asyncio")
    own = mark and (mark.kwargs.get("loop_scope") or mark.kwargs.get("scope"))
    return str(own or item.config.getini("asyncio_default_test_loop_scope") or "function")


def _is_skipped(item: pytest.Function) -> bool:
    """Whether a marker skips it, or cannot be evaluated, which pytest will say."""
    try:
        from _pytest.skipping import evaluate_skip_marks
    except ImportError:  # of another pytest
        return any(item.iter_markers("skip")) or any(item.iter_markers("skipif"))
    try:
        return evaluate_skip_marks(item) is not None
    except (Exception, pytest.fail.Exception):  # noqa: BLE001 - of the user's condition
        return True
