"""Values of function-scoped fixtures that run-ahead opens before pytest sets the fixture up."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar, cast

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextlib import AbstractContextManager

P = ParamSpec("P")
T = TypeVar("T")

_OPENED = pytest.StashKey[
    dict[object, tuple["AbstractContextManager[object]", object]]
]()  # of an item, by what opened them


def ahead(
    item: pytest.Item,
    opens: Callable[Concatenate[pytest.Item, P], AbstractContextManager[T]],
    *needs: P.args,
    **options: P.kwargs,
) -> T:
    """The item's value, opened now unless it is; its fixture takes it over."""
    opened = item.stash.setdefault(_OPENED, {})
    if opens not in opened:
        manager = opens(item, *needs, **options)
        opened[opens] = manager, manager.__enter__()
    return cast("T", opened[opens][1])


@contextmanager
def at_turn(
    item: pytest.Item,
    opens: Callable[Concatenate[pytest.Item, P], AbstractContextManager[T]],
    *needs: P.args,
    **options: P.kwargs,
) -> Generator[T]:
    """The value that was opened ahead, or a new one; closed in the item's teardown either way."""
    value = ahead(item, opens, *needs, **options)
    manager, _ = item.stash[_OPENED].pop(opens)
    yield value
    manager.__exit__(None, None, None)


def is_open(item: pytest.Item, opens: Callable[..., AbstractContextManager[object]]) -> bool:
    """Whether a value waits to be taken over."""
    return opens in item.stash.get(_OPENED, {})


def drop(item: pytest.Item) -> None:
    """Close what no fixture has taken over: the item does not get its turn.

    What closing has to say of the test, nobody is to hear.
    """
    for manager, _ in item.stash.get(_OPENED, {}).values():
        try:
            manager.__exit__(None, None, None)
        except pytest.fail.Exception:
            continue
    item.stash[_OPENED] = {}
