"""The models that a run talks to, each connected once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytest_cwsandbox.rollouts import scripted
from pytest_cwsandbox.rollouts.model import openai_policy

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_cwsandbox.rollouts.chat import ChatPolicy
    from pytest_cwsandbox.rollouts.model import ModelOptions
    from pytest_cwsandbox.rollouts.responses import ResponsesPolicy


class Models:
    """Policies by their options. Belongs to one event loop.

    The scripted model's server is started when it is first asked for, in the run's ``folder``, and
    ends with the process ``lifeline``.
    """

    def __init__(self, folder: Path, *, lifeline: int) -> None:
        self._folder = folder
        self._lifeline = lifeline
        self._connected: list[tuple[ModelOptions, ChatPolicy | ResponsesPolicy]] = []
        self._connecting = asyncio.Lock()

    async def policy(
        self, options: ModelOptions, *, sample: int = 0
    ) -> ChatPolicy | ResponsesPolicy:
        """The policy of one sample; ``EndpointError`` where no request could succeed."""
        async with self._connecting:
            found = next((policy for known, policy in self._connected if known == options), None)
            if found is None:
                found = await asyncio.to_thread(self._connect, options)
                self._connected.append((options, found))
        return found.for_sample(sample)

    def _connect(self, options: ModelOptions) -> ChatPolicy | ResponsesPolicy:
        if options.base_url or not scripted.is_scripted(options.model):
            return openai_policy(options)
        server = scripted.join_or_start(self._folder, lifeline=self._lifeline)
        return openai_policy(options, base_url=server.address, api_key=server.token)

    async def aclose(self) -> None:
        """Close all connections."""
        for _, policy in self._connected:
            await policy.aclose()
        self._connected.clear()
