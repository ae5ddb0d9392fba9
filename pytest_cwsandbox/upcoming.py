"""Which items this process runs next, as far as it can be known."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    import pytest


REFUSAL_SECONDS = 0.2


class _Queue(Protocol):
    def lock(self) -> AbstractContextManager[list[object]]: ...


class _Interactor(Protocol):
    """xdist's part in a worker. Its queue holds indices into ``session.items``."""

    torun: _Queue
    nextitem_index: object
    steal: Callable[[Sequence[int]], None]


class Upcoming:
    """Of one session: what follows an item, in the order in which pytest comes to it.

    Under xdist the worker's queue, which only the controller fills; where that cannot be read
    ``nextitem`` alone. Without xdist ``session.items``, walked by a pointer: a copy of the rest per
    item costs twice the run of as many empty tests.
    """

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._worker = hasattr(session.config, "workerinput")
        self._interactor = _interactor(session.config) if self._worker else None
        self._at = 0

    def after(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[pytest.Item]:
        """The items after ``item``, the next one first."""
        if nextitem is None:
            return
        if not self._worker:
            yield from self._listed(item)
        elif self._interactor is None:
            yield nextitem
        else:
            yield from self._queued(self._interactor)

    def keep(self, is_kept: Callable[[pytest.Item], bool]) -> None:
        """Let other workers take only what is not kept; ``is_kept`` is asked in another thread."""
        interactor = self._interactor
        if interactor is None:
            return
        steal = interactor.steal

        def free(indices: Sequence[int]) -> list[int]:
            return [index for index in indices if not is_kept(self._session.items[index])]

        def give(indices: Sequence[int]) -> None:
            if len(free(indices)) < len(indices):
                time.sleep(REFUSAL_SECONDS)  # the controller asks again at once
            with interactor.torun.lock():  # as in `has`: it is either here or given away
                steal(free(indices))

        interactor.steal = give

    def has(self, item: pytest.Item) -> bool:
        """Whether an item that is kept from now on is still here, and no other worker has it."""
        return self._interactor is None or item in self._queued(self._interactor)

    def _listed(self, item: pytest.Item) -> Iterator[pytest.Item]:
        items = self._session.items
        if not (self._at < len(items) and items[self._at] is item):
            following = range(self._at + 1, len(items))
            self._at = next((at for at in following if items[at] is item), self._at)
        for at in range(self._at + 1, len(items)):
            yield items[at]

    def _queued(self, interactor: _Interactor) -> Iterator[pytest.Item]:
        with interactor.torun.lock() as queue:
            indices = [interactor.nextitem_index, *queue]
        for index in indices:
            if not isinstance(index, int):  # the mark of the end
                return
            yield self._session.items[index]


def _interactor(config: pytest.Config) -> _Interactor | None:
    for plugin in config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor" and hasattr(plugin, "torun"):
            return cast("_Interactor", plugin)
    return None
