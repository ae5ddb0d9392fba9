"""Tools: typed functions that a model may call."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

from pytest_cwsandbox.rollouts.blame import CommandTimeoutError, ToolError
from pytest_cwsandbox.rollouts.observations import observation
from pytest_cwsandbox.rollouts.signatures import SANDBOX, ArgumentsError, Signature

if TYPE_CHECKING:
    from collections.abc import Callable

    from cwsandbox import Sandbox

    from pytest_cwsandbox.rollouts.messages import ToolDefinition
    from pytest_cwsandbox.rollouts.workplace import Workplace

THREADS = 64  # of functions that block; asyncio's own are few, and others' too

__all__ = ["CommandTimeoutError", "Submission", "Tool", "ToolError"]


@dataclass(frozen=True, slots=True)
class Submission:
    """Returned by a tool, it ends the episode."""

    answer: str


class Tool:
    """A function, and its definition for a model."""

    def __init__(self, function: Callable[..., object], signature: Signature) -> None:
        self._function = function
        self._signature = signature
        self._is_async = inspect.iscoroutinefunction(inspect.unwrap(function))
        self.name = signature.name
        self.needs_sandbox = signature.takes_sandbox
        self.definition: ToolDefinition = {
            "type": "function",
            "function": {
                "name": signature.name,
                "description": signature.description,
                "parameters": signature.schema,
                "strict": True,
            },
        }

    @classmethod
    def of(
        cls,
        function: Callable[..., object],
        *,
        name: str | None = None,
        description: str | None = None,
    ) -> Tool:
        """A tool of a typed function with a docstring, sync or async.

        A parameter named ``sandbox`` gets the episode's sandbox; the model does not see it. The
        function returns what the model is told, or a ``Submission``; it raises ``ToolError`` to
        tell of a failure. Raises ``ConfigurationError`` for a function that cannot be a tool.
        """
        return cls(function, Signature.of(function, name=name, description=description))

    async def call(self, arguments: str, workplace: Workplace) -> str | Submission:
        """Call it with the JSON that a model wrote; what to tell the model.

        Raises ``InfrastructureError``, and what a tool raises by a mistake of its own.
        """
        try:
            values = self._signature.read(arguments)
            if self.needs_sandbox:
                result = await workplace.use(
                    lambda sandbox: self._run({**values, SANDBOX: sandbox})
                )
            else:
                result = await self._run(values)
        except (ArgumentsError, ToolError) as error:
            return observation(f"Error: {error}")
        if isinstance(result, Submission):
            return result
        if isinstance(result, bytes):
            return observation(result.decode(errors="replace"))
        if isinstance(result, str):
            return observation(result)
        return observation(json.dumps(result, ensure_ascii=False, default=str))

    async def _run(self, values: dict[str, object | Sandbox]) -> object:
        if self._is_async:
            result = self._function(**values)
        else:  # it may block
            function = partial(contextvars.copy_context().run, self._function, **values)
            result = await asyncio.get_running_loop().run_in_executor(_threads(), function)
        return await result if inspect.isawaitable(result) else result


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="cwsandbox-tool")
