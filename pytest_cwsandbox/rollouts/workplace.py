"""The sandbox of one episode."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from cwsandbox import Sandbox

T = TypeVar("T")


class ToolError(Exception):
    """What a tool tells the model of a failure that is the model's own: "Error: ..."."""


class Workplace:
    """Started ahead, replaced while it has no state, removed at the end."""

    def __init__(
        self,
        take: Callable[[], Awaitable[Sandbox]],
        give_back: Callable[[Sandbox], None],
        *,
        prepare: Callable[[Sandbox], Awaitable[None]] | None = None,
        retries: int = 2,
    ) -> None:
        self.sandbox_ids: list[str] = []
        self.start_seconds = 0.0

    @classmethod
    def over(cls, sandbox: Sandbox) -> Workplace:
        """The caller's own sandbox: never replaced, never removed."""
        raise NotImplementedError

    def start_ahead(self) -> None:
        """Begin to start a sandbox; whether it fails shows at the first use."""

    async def ready(self) -> None:
        """Wait until a sandbox runs and is prepared; raises ``InfrastructureError``."""

    async def use(self, action: Callable[[Sandbox], Awaitable[T]]) -> T:
        raise NotImplementedError

    async def close(self) -> None:
        """Remove the sandbox, also one that is still to start."""
