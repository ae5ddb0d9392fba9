"""Tools: typed functions that a model may call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_cwsandbox.rollouts.workplace import ToolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_cwsandbox.rollouts.messages import ToolDefinition
    from pytest_cwsandbox.rollouts.workplace import Workplace

__all__ = ["Submission", "Tool", "ToolError"]


@dataclass(frozen=True, slots=True)
class Submission:
    """Returned by a tool, it ends the episode."""

    answer: str


class Tool:
    """A function, and its definition for a model."""

    def __init__(self, definition: ToolDefinition) -> None:
        self.definition = definition
        self.name = definition["function"]["name"]

    @classmethod
    def of(
        cls,
        function: Callable[..., object],
        *,
        name: str | None = None,
        description: str | None = None,
    ) -> Tool:
        raise NotImplementedError

    async def call(self, arguments: str, workplace: Workplace) -> str | Submission:
        raise NotImplementedError
