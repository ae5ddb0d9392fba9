"""The agent loop: what ends an episode, and what is said in it."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.errors import (
    ContextExceededError,
    EndpointError,
    InfrastructureError,
    ModelError,
)
from pytest_cwsandbox.rollouts import EpisodeLimits, Generation, StopReason, Submission, Tool
from pytest_cwsandbox.rollouts.episode import Episode, run_episode
from pytest_cwsandbox.rollouts.policy import as_policy
from pytest_cwsandbox.rollouts.workplace import Workplace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cwsandbox import Sandbox

    from pytest_cwsandbox.rollouts.messages import (
        AssistantMessage,
        Message,
        ToolCall,
        ToolDefinition,
    )

PROMPT: list[Message] = [{"role": "user", "content": "Go."}]


def echo(text: str) -> str:
    """Say it again."""
    return f"heard {text}"


def submit(answer: str) -> Submission:
    """Hand it in."""
    return Submission(answer)


def look(sandbox: Sandbox) -> str:
    """Look into the sandbox."""
    return str(sandbox)


TOOLS = (Tool.of(echo), Tool.of(submit), Tool.of(look))


def call(name: str, number: int = 1, **arguments: object) -> ToolCall:
    return {
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments)},
    }


def says(*calls: ToolCall, content: str | None = None) -> AssistantMessage:
    message: AssistantMessage = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = list(calls)
    return message


class Script:
    """Says one thing after another, then raises or repeats the last."""

    def __init__(self, *answers: AssistantMessage | Generation | Exception) -> None:
        self._answers = list(answers)
        self.seen: list[Sequence[Message]] = []

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition]
    ) -> Generation | AssistantMessage:
        assert [tool["function"]["name"] for tool in tools] == ["echo", "submit", "look"]
        self.seen.append(messages)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def nowhere() -> Workplace:
    """No sandbox is to be had here."""

    async def take() -> Sandbox:
        raise InfrastructureError("no sandbox started")

    return Workplace(take, lambda _: None, retries=0)


async def play(script: Script, limits: EpisodeLimits | None = None) -> Episode:
    return await run_episode(script, PROMPT, TOOLS, nowhere(), limits or EpisodeLimits())


def told(episode: Episode) -> list[str | None]:
    return [message["content"] for message in episode.messages if message["role"] == "tool"]


async def test_an_episode_ends_with_the_submission() -> None:
    script = Script(says(call("echo", text="a")), says(call("submit", 2, answer="42")))
    episode = await play(script)
    assert (episode.stop_reason, episode.submission) == (StopReason.SUBMITTED, "42")
    assert told(episode) == ["heard a", "submitted"]
    assert (episode.tool_calls, len(episode.choices)) == (2, 2)


async def test_the_policy_sees_all_that_was_said() -> None:
    script = Script(says(call("echo", text="a")), says(call("submit", 2, answer="42")))
    await play(script)
    assert script.seen == [
        tuple(PROMPT),
        (
            *PROMPT,
            says(call("echo", text="a")),
            {"role": "tool", "tool_call_id": "call_1", "content": "heard a"},
        ),
    ]


async def test_parallel_calls_are_answered_in_order() -> None:
    calls = [call("echo", number, text=str(number)) for number in range(1, 5)]
    episode = await play(Script(says(*calls), says()))
    assert told(episode) == ["heard 1", "heard 2", "heard 3", "heard 4"]
    ids = [message["tool_call_id"] for message in episode.messages if message["role"] == "tool"]
    assert ids == ["call_1", "call_2", "call_3", "call_4"]


async def test_calls_after_a_submission_are_answered_but_not_executed() -> None:
    script = Script(says(call("submit", 1, answer="a"), call("submit", 2, answer="b")))
    episode = await play(script)
    assert episode.submission == "a"
    assert told(episode) == ["submitted", "not executed: the episode has ended"]


async def test_the_limit_of_tool_calls_ends_an_episode_within_a_turn() -> None:
    calls = [call("echo", number, text="x") for number in range(1, 4)]
    episode = await play(Script(says(*calls)), EpisodeLimits(tool_calls=2))
    assert (episode.stop_reason, episode.tool_calls) == (StopReason.MAX_TOOL_CALLS, 2)
    assert told(episode) == ["heard x", "heard x", "not executed: the episode has ended"]


async def test_twenty_tool_calls_are_allowed_by_default() -> None:
    episode = await play(Script(says(call("echo", text="x"))))
    assert (episode.stop_reason, episode.tool_calls) == (StopReason.MAX_TOOL_CALLS, 20)


async def test_the_last_allowed_call_may_be_the_submission() -> None:
    script = Script(says(call("echo", text="x")), says(call("submit", answer="a")))
    episode = await play(script, EpisodeLimits(tool_calls=2, turns=2))
    assert episode.stop_reason is StopReason.SUBMITTED


async def test_the_tools_of_the_last_turn_are_used() -> None:
    episode = await play(Script(says(call("echo", text="x"))), EpisodeLimits(turns=3))
    assert episode.stop_reason is StopReason.MAX_TURNS
    assert told(episode) == ["heard x"] * 3


async def test_the_limit_of_tokens_counts_prompts_and_answers() -> None:
    script = Script(Generation(says(call("echo", text="x")), tokens_in=60, tokens_out=20))
    episode = await play(script, EpisodeLimits(total_tokens=200))
    assert episode.stop_reason is StopReason.MAX_TOTAL_TOKENS
    assert (episode.tokens_in, episode.tokens_out, episode.tool_calls) == (180, 60, 2)
    assert told(episode)[-1] == "not executed: the episode has ended"


async def test_an_answer_without_a_call_ends_it() -> None:
    episode = await play(Script(says(content="I am done.\nReally.")))
    assert (episode.stop_reason, episode.detail) == (
        StopReason.NO_TOOL_CALL,
        "I am done. Really.",
    )


async def test_an_answer_of_nothing_ends_it_too() -> None:
    assert (await play(Script(says()))).stop_reason is StopReason.NO_TOOL_CALL


async def test_a_refusal_is_told_apart() -> None:
    refusal: AssistantMessage = {"role": "assistant", "content": None, "refusal": "I will not."}
    episode = await play(Script(refusal))
    assert (episode.stop_reason, episode.detail) == (StopReason.REFUSAL, "I will not.")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ModelError("broken"), StopReason.MODEL_ERROR),
        (ContextExceededError("too long"), StopReason.CONTEXT_EXCEEDED),
        (InfrastructureError("lost"), StopReason.INFRASTRUCTURE_ERROR),
    ],
)
async def test_a_failure_is_a_stop_reason(error: Exception, reason: StopReason) -> None:
    episode = await play(Script(says(call("echo", text="x")), error))
    assert (episode.stop_reason, episode.detail) == (reason, str(error))


async def test_where_no_sandbox_starts_the_infrastructure_is_to_blame() -> None:
    episode = await play(Script(says(call("look"))))
    assert (episode.stop_reason, episode.detail) == (
        StopReason.INFRASTRUCTURE_ERROR,
        "no sandbox started",
    )


async def test_a_submission_needs_no_sandbox() -> None:
    assert (await play(Script(says(call("submit", answer="a"))))).submission == "a"


async def test_an_endpoint_that_refuses_everything_is_no_episode() -> None:
    with pytest.raises(EndpointError):
        await play(Script(EndpointError("no key")))


async def test_a_mistake_of_the_policy_is_no_episode() -> None:
    with pytest.raises(ZeroDivisionError):
        await play(Script(ZeroDivisionError()))


async def test_a_policy_that_returns_no_message_is_told_so() -> None:
    with pytest.raises(TypeError, match="must return a Generation or an assistant message"):
        await run_episode(
            as_policy(lambda *_: {"content": "no role"}),  # type: ignore[arg-type]  # the mistake
            PROMPT,
            TOOLS,
            nowhere(),
            EpisodeLimits(),
        )


async def test_a_plain_function_is_a_policy() -> None:
    episode = await run_episode(
        as_policy(lambda messages, _: f"{len(messages)} messages"),
        PROMPT,
        TOOLS,
        nowhere(),
        EpisodeLimits(),
    )
    assert episode.detail == "1 messages"


async def test_an_unknown_tool_is_an_observation() -> None:
    episode = await play(Script(says(call("rm")), says()))
    assert told(episode) == ["Error: there is no tool 'rm'; the tools are echo, submit, look"]


async def test_what_the_endpoint_says_of_an_answer_is_kept() -> None:
    generation = Generation(
        says(),
        finish_reason="stop",
        tokens_in=1,
        tokens_out=2,
        logprobs={"content": []},
        token_ids=(3, 4),
        prompt_token_ids=(5,),
    )
    [choice] = (await play(Script(generation))).choices
    assert (choice.finish_reason, choice.logprobs, choice.token_ids, choice.prompt_token_ids) == (
        "stop",
        {"content": []},
        (3, 4),
        (5,),
    )


class Slow(Script):
    """Takes its time with every answer."""

    def __init__(self, seconds: float) -> None:
        super().__init__(says(call("echo", text="x")))
        self._seconds = seconds

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition]
    ) -> Generation | AssistantMessage:
        await asyncio.sleep(self._seconds)
        return await super().generate(messages, tools)


async def test_a_model_that_thinks_too_long_has_lost() -> None:
    episode = await play(Slow(60), EpisodeLimits(wall_seconds=0.05))
    assert (episode.stop_reason, episode.detail) == (
        StopReason.WALL_TIMEOUT,
        "more than 0.05 s",
    )


async def test_the_time_of_all_turns_counts() -> None:
    limits = EpisodeLimits(wall_seconds=0.2, tool_calls=None)
    episode = await play(Slow(0.02), limits)
    assert episode.stop_reason is StopReason.WALL_TIMEOUT
    assert 1 <= len(episode.choices) <= 10


async def test_a_tool_is_cut_off_when_the_time_is_up() -> None:
    async def wait() -> str:
        """Wait for long."""
        await asyncio.sleep(60)
        return "never"

    script = as_policy(lambda *_: says(call("wait")))
    limits = EpisodeLimits(wall_seconds=0.1)
    episode = await run_episode(script, PROMPT, [Tool.of(wait)], nowhere(), limits)
    assert episode.stop_reason is StopReason.WALL_TIMEOUT
    assert told(episode) == ["not executed: the episode has ended"]


async def test_the_wait_for_a_sandbox_is_not_the_models_time() -> None:
    async def take() -> Sandbox:
        await asyncio.sleep(0.4)
        raise InfrastructureError("after a while")

    workplace = Workplace(take, lambda _: None, retries=0)
    script = Script(says(call("look")))
    episode = await run_episode(script, PROMPT, TOOLS, workplace, EpisodeLimits(wall_seconds=0.2))
    assert (episode.stop_reason, episode.detail) == (
        StopReason.INFRASTRUCTURE_ERROR,
        "after a while",
    )
    assert episode.tool_seconds < 0.2


async def test_a_cancelled_episode_is_cancelled() -> None:
    running = asyncio.ensure_future(play(Slow(60)))
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


@pytest.mark.parametrize(
    "message",
    [
        pytest.param({"role": "assistant", "refusal": None, "tool_calls": None}, id="null fields"),
        pytest.param({"role": "assistant"}, id="no content"),
        pytest.param(
            {"role": "assistant", "content": [{"type": "text", "text": "done"}]}, id="parts of text"
        ),
    ],
)
async def test_messages_in_other_forms_are_understood(message: object) -> None:
    episode = await run_episode(
        as_policy(lambda *_: message),  # type: ignore[arg-type]  # what others write
        PROMPT,
        TOOLS,
        nowhere(),
        EpisodeLimits(),
    )
    assert episode.stop_reason is StopReason.NO_TOOL_CALL
    assert "refusal" not in episode.messages[-1]


async def test_calls_without_an_id_or_with_an_object_for_arguments_are_understood() -> None:
    asked = {"function": {"name": "echo", "arguments": {"text": "a"}}}
    message = {"role": "assistant", "content": None, "tool_calls": [asked, asked]}
    episode = await run_episode(
        as_policy(lambda *_: message),  # type: ignore[arg-type]  # what others write
        PROMPT,
        TOOLS,
        nowhere(),
        EpisodeLimits(turns=2),
    )
    assert told(episode) == ["heard a"] * 4
    ids = [message["tool_call_id"] for message in episode.messages if message["role"] == "tool"]
    assert ids == ["call_1", "call_2", "call_3", "call_4"]


async def test_a_policy_cannot_change_what_is_recorded() -> None:
    def meddles(messages: Sequence[Message], _: object) -> AssistantMessage:
        messages[0]["content"] = "changed"
        for message in messages:
            for asked in message.get("tool_calls", ()):  # type: ignore[attr-defined]  # any message
                asked["function"]["arguments"] = "changed"
        return says(call("echo", text="a"))

    episode = await run_episode(
        as_policy(meddles), PROMPT, TOOLS, nowhere(), EpisodeLimits(turns=3)
    )
    assert "changed" not in json.dumps(episode.messages)


async def test_a_policy_that_blocks_holds_nobody_else_up() -> None:
    def thinks(*_: object) -> str:
        time.sleep(0.2)
        return "done"

    policy = as_policy(thinks)
    limits = EpisodeLimits(wall_seconds=0.5)
    ended = await asyncio.gather(
        *(run_episode(policy, PROMPT, TOOLS, nowhere(), limits) for _ in range(8))
    )
    assert {episode.stop_reason for episode in ended} == {StopReason.NO_TOOL_CALL}
    assert max(episode.model_seconds for episode in ended) < 0.5
