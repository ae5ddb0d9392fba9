"""The agent loop: the policy speaks, its tools answer, until it submits or a limit ends it."""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from pytest_cwsandbox.errors import ContextExceededError, InfrastructureError, ModelError
from pytest_cwsandbox.rollouts.clock import TimeIsUpError
from pytest_cwsandbox.rollouts.policy import FAILED_ATTEMPTS
from pytest_cwsandbox.rollouts.said import copies, read_answer
from pytest_cwsandbox.rollouts.tools import Submission
from pytest_cwsandbox.rollouts.trajectory import Choice, StopReason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from pytest_cwsandbox.rollouts.limits import EpisodeLimits
    from pytest_cwsandbox.rollouts.messages import AssistantMessage, Message, ToolCall
    from pytest_cwsandbox.rollouts.policy import Policy
    from pytest_cwsandbox.rollouts.tools import Tool
    from pytest_cwsandbox.rollouts.workplace import Workplace

SUBMITTED = "submitted"
NOT_RUN = "not executed: the episode has ended"


@dataclass(slots=True)
class Episode:
    """What happened. ``messages`` begins with those that the episode began with.

    ``submission`` is what was submitted, None unless ``stop_reason`` says so; ``detail`` is one
    line for people. Seconds are wall time.
    """

    messages: list[Message]
    choices: list[Choice] = field(default_factory=list)
    stop_reason: StopReason = StopReason.NO_TOOL_CALL
    detail: str = ""
    submission: str | None = None
    tool_calls: int = 0
    model_seconds: float = 0.0
    tool_seconds: float = 0.0
    seconds: float = 0.0

    @property
    def tokens_in(self) -> int:
        return sum(choice.tokens_in for choice in self.choices)

    @property
    def tokens_out(self) -> int:
        return sum(choice.tokens_out for choice in self.choices)


async def run_episode(
    policy: Policy,
    messages: Sequence[Message],
    tools: Sequence[Tool],
    workplace: Workplace,
    limits: EpisodeLimits,
    *,
    watch: Callable[[int], None] | None = None,
) -> Episode:
    """Run one episode to its end, which is never an exception.

    ``watch`` is told the number of tool calls at each of them.

    What does raise: ``EndpointError`` where no episode could go on, what a policy or a tool raises
    by a mistake of its own, and cancellation. The workplace stays the caller's to close.
    """
    episode = Episode(list(messages))
    loop = _Loop(policy, {tool.name: tool for tool in tools}, workplace, limits, episode, watch)
    started = time.monotonic()
    if any(tool.needs_sandbox for tool in tools):
        workplace.start_ahead()
    try:
        while True:
            await loop.turn()
    except _EndError as end:
        episode.stop_reason, episode.detail = end.reason, end.detail
    except ModelError as error:
        episode.stop_reason, episode.detail = StopReason.MODEL_ERROR, str(error)
    except ContextExceededError as error:
        episode.stop_reason, episode.detail = StopReason.CONTEXT_EXCEEDED, str(error)
    except InfrastructureError as error:
        episode.stop_reason, episode.detail = StopReason.INFRASTRUCTURE_ERROR, str(error)
    loop.answer_rest()
    episode.seconds = time.monotonic() - started
    return episode


class _EndError(Exception):
    """The episode ends here, and why."""

    def __init__(self, reason: StopReason, detail: str = "") -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class _Loop:
    def __init__(
        self,
        policy: Policy,
        tools: dict[str, Tool],
        workplace: Workplace,
        limits: EpisodeLimits,
        episode: Episode,
        watch: Callable[[int], None] | None,
    ) -> None:
        self._policy = policy
        self._tools = tools
        self._definitions = [tool.definition for tool in tools.values()]
        self._workplace = workplace
        self._limits = limits
        self._episode = episode
        self._watch = watch
        self._unanswered: list[ToolCall] = []

    async def turn(self) -> None:
        """One answer of the policy, and the tools that it asks for; raises ``_EndError``."""
        episode, limits = self._episode, self._limits
        if limits.turns is not None and len(episode.choices) >= limits.turns:
            raise _EndError(StopReason.MAX_TURNS, f"{limits.turns} turns")
        turn: Callable[[], AbstractAsyncContextManager[object]]
        turn = getattr(self._policy, "turn", nullcontext)
        async with turn():  # the wait for others' turns is not the model's time
            message = await self._generate()
        self._unanswered = list(message.get("tool_calls", ()))
        tokens = episode.tokens_in + episode.tokens_out
        if limits.total_tokens is not None and tokens > limits.total_tokens:
            raise _EndError(StopReason.MAX_TOTAL_TOKENS, f"{tokens} tokens used")
        if not self._unanswered:
            if "refusal" in message:
                raise _EndError(StopReason.REFUSAL, _line(message["refusal"]))
            raise _EndError(StopReason.NO_TOOL_CALL, _line(message["content"] or ""))
        while self._unanswered:
            await self._answer(self._unanswered[0])

    def answer_rest(self) -> None:
        """Calls that were not executed are answered too: APIs refuse a history without."""
        while self._unanswered:
            self._tell(NOT_RUN)

    async def _generate(self) -> AssistantMessage:
        episode = self._episode
        started = time.monotonic()
        failures: list[str] = []
        FAILED_ATTEMPTS.set(failures)
        timer = asyncio.timeout(self._left())
        try:
            async with timer:
                answer = await self._policy.generate(copies(episode.messages), self._definitions)
        except TimeoutError:
            if not timer.expired():
                raise
            self._time_is_up(time.monotonic() - started, failures)
        finally:
            episode.model_seconds += time.monotonic() - started
        generation = read_answer(answer, episode.messages)
        episode.messages.append(generation.message)
        episode.choices.append(
            Choice(
                generation.finish_reason,
                generation.tokens_in,
                generation.tokens_out,
                generation.logprobs,
                generation.token_ids,
                generation.prompt_token_ids,
            )
        )
        return generation.message

    def _time_is_up(self, waited: float, failures: Sequence[str]) -> NoReturn:
        """A model that thinks too long has lost; an endpoint that does not answer has failed."""
        if failures:
            raise ModelError(f"the endpoint failed until the time was up: {failures[-1]}")
        if not getattr(self._policy, "has_answered", True):
            raise ModelError(f"the endpoint has never answered, in {waited:.0f} s this time")
        raise self._wall_timeout()

    async def _answer(self, call: ToolCall) -> None:
        episode, limits = self._episode, self._limits
        if limits.tool_calls is not None and episode.tool_calls >= limits.tool_calls:
            raise _EndError(StopReason.MAX_TOOL_CALLS, f"{limits.tool_calls} tool calls")
        episode.tool_calls += 1
        if self._watch is not None:
            self._watch(episode.tool_calls)
        name = call["function"]["name"]
        tool = self._tools.get(name)
        if tool is None:
            known = ", ".join(self._tools)
            self._tell(f"Error: there is no tool {name[:100]!r}; the tools are {known}")
            return
        if tool.needs_sandbox:
            await self._workplace.ready()  # the wait for a sandbox is not the model's time
        clock = self._workplace.clock
        before = clock.seconds
        try:
            async with clock.running(self._left()):
                answer = await tool.call(call["function"]["arguments"], self._workplace)
        except TimeIsUpError:
            if tool.needs_sandbox:
                await self._workplace.check()
            raise self._wall_timeout() from None
        finally:
            episode.tool_seconds += clock.seconds - before
        if isinstance(answer, Submission):
            self._tell(SUBMITTED)
            episode.submission = answer.answer
            raise _EndError(StopReason.SUBMITTED)
        self._tell(answer)

    def _tell(self, observation: str) -> None:
        call = self._unanswered.pop(0)
        self._episode.messages.append(
            {"role": "tool", "tool_call_id": call["id"], "content": observation}
        )

    def _left(self) -> float | None:
        """Seconds that are left; a limit that is used up ends the episode."""
        if self._limits.wall_seconds is None:
            return None
        left = self._limits.wall_seconds - self._episode.model_seconds - self._episode.tool_seconds
        if left <= 0:
            raise self._wall_timeout()
        return left

    def _wall_timeout(self) -> _EndError:
        return _EndError(StopReason.WALL_TIMEOUT, f"more than {self._limits.wall_seconds:g} s")


def _line(text: str) -> str:
    return " ".join(text[:2000].split())[:300]
