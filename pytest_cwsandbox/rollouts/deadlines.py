"""A deadline of our own for calls of the SDK: some outlive the one that they were given."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable

T = TypeVar("T")

GRACE_SECONDS = 15.0  # for the SDK to tell by itself that the time is up


async def answered(call: Awaitable[T], timeout_seconds: float) -> T:
    """The answer to a call that has ``timeout_seconds``.

    Raises ``SandboxTimeoutError``, as the SDK does, when nothing has come a while later: a service
    that falls silent while a call begins is waited for without an end, or for minutes.
    """
    from cwsandbox import SandboxTimeoutError

    limit = timeout_seconds + GRACE_SECONDS
    timer = asyncio.timeout(limit)
    try:
        async with timer:
            return await call
    except TimeoutError:
        if not timer.expired():
            raise
        raise SandboxTimeoutError(f"no answer from the service in {limit:g} seconds") from None
