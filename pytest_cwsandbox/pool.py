"""Single-use sandboxes with a shared limit and retried starts."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from pytest_cwsandbox.errors import InfrastructureError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from cwsandbox import Sandbox, Session

BACKOFF_SECONDS = 0.2  # before the first retry; doubles, with jitter


class SandboxPool:
    """Hands out started sandboxes of one SDK session, each to one holder, at most ``size`` at once.

    Belongs to one event loop. ``created`` counts the sandboxes that started, ``failed_starts``
    those that did not.
    """

    def __init__(self, session: Session, *, size: int = 32, retries: int = 2) -> None:
        self._session = session
        self._slots = asyncio.Semaphore(size)
        self._retries = retries
        self.created = 0
        self.failed_starts = 0

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[Sandbox]:
        """A started sandbox that is removed when the block ends.

        Raises ``InfrastructureError`` when no sandbox started in ``1 + retries`` attempts.
        """
        async with self._slots:
            sandbox = await self._start()
            try:
                yield sandbox
            finally:
                # Removal is not the holder's concern: the session's close waits for it.
                sandbox.stop(graceful_shutdown_seconds=0, missing_ok=True)

    async def _start(self) -> Sandbox:
        from cwsandbox import CWSandboxAuthenticationError, CWSandboxError

        for attempt in range(self._retries + 1):
            sandbox = self._session.sandbox()
            try:
                await sandbox.start()
            except CWSandboxAuthenticationError:
                raise
            except CWSandboxError as error:
                self.failed_starts += 1
                sandbox.stop(graceful_shutdown_seconds=0, missing_ok=True)
                if attempt == self._retries:
                    raise InfrastructureError(
                        f"no sandbox started in {attempt + 1} attempts: {error}"
                    ) from error
                await asyncio.sleep(BACKOFF_SECONDS * 2**attempt * random.uniform(0.5, 1.5))  # noqa: S311 - jitter, not a secret
            else:
                self.created += 1
                return sandbox
        raise AssertionError("unreachable")
