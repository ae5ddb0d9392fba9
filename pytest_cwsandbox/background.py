"""Futures for callers outside, coroutines on one background loop inside."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import concurrent.futures
    from collections.abc import Awaitable, Coroutine

    from cwsandbox import OperationRef

T = TypeVar("T")


def unheard(work: Awaitable[T]) -> asyncio.Future[T]:
    """A task that may fail while nobody waits for it any more: asyncio prints nothing then."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda task: task.cancelled() or task.exception())
    return task


class Background:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="cwsandbox-background", daemon=True
        )
        self._thread.start()

    def submit(self, work: Coroutine[object, object, T]) -> OperationRef[T]:
        from cwsandbox import OperationRef

        return OperationRef(self.start(work))

    def start(self, work: Coroutine[object, object, T]) -> concurrent.futures.Future[T]:
        """As ``submit``, for those who may have to cancel it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """Cancel what still runs, and end the thread."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._cancel(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _cancel(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
