"""Single-use sandboxes with a shared limit and retried starts."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from pytest_cwsandbox.errors import InfrastructureError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from cwsandbox import Sandbox, Session

BACKOFF_SECONDS = 0.2  # before the first retry; doubles, with jitter


async def backoff(attempt: int) -> None:
    """Wait before retry number ``attempt``, which counts from 1."""
    await asyncio.sleep(BACKOFF_SECONDS * 2 ** (attempt - 1) * random.uniform(0.5, 1.5))  # noqa: S311 - jitter, not a secret


class Counting(Protocol):
    """Whoever counts the failures of the infrastructure that were made good for it."""

    retries: int


class SandboxPool:
    """Hands out running sandboxes of one SDK session, each to one holder, at most ``size`` at once.

    Belongs to one event loop. ``environment`` is the same for all its sandboxes. ``created`` counts
    the sandboxes that started, ``failed_starts`` those that did not.
    """

    def __init__(
        self,
        session: Session,
        *,
        size: int = 32,
        retries: int = 2,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._session = session
        self._slots = asyncio.Semaphore(size)
        self._retries = retries
        self._environment = dict(environment or {})
        self.created = 0
        self.failed_starts = 0

    @asynccontextmanager
    async def lease(self, tally: Counting | None = None) -> AsyncIterator[Sandbox]:
        """A sandbox that is removed when the block ends; raises as ``take`` does."""
        sandbox = await self.take(tally=tally)
        try:
            yield sandbox
        finally:
            self.give_back(sandbox)

    async def take(
        self,
        *,
        tags: Sequence[str] = (),
        annotations: Mapping[str, str] | None = None,
        working_dir: str | None = None,
        tally: Counting | None = None,
    ) -> Sandbox:
        """A running sandbox, to be given back; ``tags`` are added to the session's.

        ``tally`` learns how many starts failed before it, if one did not.
        Raises ``InfrastructureError`` when none started in ``1 + retries`` attempts.
        """
        await self._slots.acquire()
        try:
            sandbox, failed = await self._start(tuple(tags), dict(annotations or {}), working_dir)
        except BaseException:
            self._slots.release()
            raise
        if tally is not None:
            tally.retries += failed
        return sandbox

    def give_back(self, sandbox: Sandbox) -> None:
        """Remove the sandbox; the holder need not wait, the session's close does."""
        sandbox.stop(graceful_shutdown_seconds=0, missing_ok=True)
        self._slots.release()

    async def _start(
        self, tags: tuple[str, ...], annotations: dict[str, str], working_dir: str | None
    ) -> tuple[Sandbox, int]:
        """A running sandbox, and how many starts failed before."""
        from cwsandbox import CWSandboxError

        for attempt in range(self._retries + 1):
            if attempt:
                await backoff(attempt)
            sandbox = self._session.sandbox(
                environment_variables=self._environment,
                tags=list(tags),
                annotations=annotations,
                working_dir=working_dir,
            )
            try:
                await _running(sandbox)
            except BaseException as error:
                sandbox.stop(graceful_shutdown_seconds=0, missing_ok=True)
                if not isinstance(error, CWSandboxError):
                    raise
                self.failed_starts += 1
                failure = error
            else:
                self.created += 1
                return sandbox, attempt
        raise InfrastructureError(
            f"no sandbox started in {self._retries + 1} attempts: {failure}"
        ) from failure


async def _running(sandbox: Sandbox) -> None:
    """Start it and wait until it runs, so that a failed start shows here.

    Cancelled, it waits until the service has answered the request to create the sandbox: one that
    nobody knows cannot be removed.
    """

    async def start() -> None:
        await sandbox

    starting = asyncio.ensure_future(start())
    try:
        await asyncio.shield(starting)
    except asyncio.CancelledError:
        while not starting.done() and sandbox.sandbox_id is None:
            await asyncio.wait((starting,), timeout=0.01)
        starting.cancel()
        raise
