"""Which fixtures of wider scope than the function are set up now, and with what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable


@dataclass(frozen=True, slots=True)
class Live:
    """The value of a fixture; it lives as long as its node."""

    value: object
    node: pytest.Item | pytest.Collector
    param: object


@dataclass(frozen=True, slots=True)
class Wanted:
    """A fixture of wider scope, and the parameter that a test wants it with."""

    fixture: pytest.FixtureDef[object]
    param: object


class LiveFixtures:
    """A pytest plugin that keeps the table of them."""

    def __init__(self) -> None:
        self._live: dict[pytest.FixtureDef[object], Live] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # outermost: what comes out is what tests get
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        value = yield
        if fixturedef.scope != "function":
            param = getattr(request, "param", None)
            self._live[fixturedef] = Live(value, request.node, param)
        return value

    @pytest.hookimpl(tryfirst=True)
    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[object]) -> None:
        self._live.pop(fixturedef, None)

    def get(self, wanted: Wanted) -> Live | None:
        """The fixture as it is wanted, if it need not be set up."""
        live = self._live.get(wanted.fixture)
        return live if live is not None and _equal(live.param, wanted.param) else None

    def unchanged(self, wanted: Iterable[Wanted]) -> bool:
        """Whether none is torn down because an item wants it with another parameter."""
        pairs = ((self._live.get(one.fixture), one.param) for one in wanted)
        return all(live is None or _equal(live.param, param) for live, param in pairs)

    def all_outlast(self, item: pytest.Item) -> bool:
        """Whether none of them is torn down before the item comes."""
        nodes = {live.node for live in self._live.values()} - {item.session}
        return not nodes or nodes.issubset(item.listchain())


def _equal(one: object, other: object) -> bool:
    """As pytest compares parameters: arrays and the like by identity."""
    try:
        return bool(one == other)
    except (ValueError, RuntimeError):
        return one is other
