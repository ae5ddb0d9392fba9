"""An episode over an endpoint that does what it wants: always a stop reason, never a crash."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.errors import InfrastructureError
from pytest_cwsandbox.rollouts import EpisodeLimits, ModelOptions, StopReason, Submission, Tool
from pytest_cwsandbox.rollouts.episode import Episode, run_episode
from pytest_cwsandbox.rollouts.model import openai_policy
from pytest_cwsandbox.rollouts.workplace import Workplace
from tests.rollouts.endpoints import (
    CLOSE,
    HANG,
    chat_answer,
    chat_call,
    endpoint,
    failure,
    reply,
    responses_answer,
    responses_call,
    responses_text,
)

if TYPE_CHECKING:
    from cwsandbox import Sandbox

    from pytest_cwsandbox.rollouts.messages import Message

ASKED: list[Message] = [{"role": "user", "content": "Add two numbers."}]


@pytest.fixture(params=["chat", "responses"])
def api(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def submit(code: str) -> Submission:
    """Hand in the solution."""
    return Submission(code)


def scale(factor: float) -> str:
    """Scale it."""
    return f"by {factor}"


def says(api: str, content: object) -> bytes:
    if api == "chat":
        return reply(chat_answer(content))
    text = responses_text()
    text["content"] = [{"type": "output_text", "text": content, "annotations": []}]
    return reply(responses_answer(text))


def submits(
    api: str,
    *,
    arguments: str = '{"code": "x"}',
    ids: tuple[str, ...] = ("a",),
    tool: str = "submit",
) -> bytes:
    if api == "chat":
        calls = [chat_call(name, tool, arguments) for name in ids]
        return reply(chat_answer(None, finish="tool_calls", tool_calls=calls))
    return reply(responses_answer(*(responses_call(name, tool, arguments) for name in ids)))


async def episode(
    api: str,
    *replies: bytes,
    wall_seconds: float = 60.0,
    timeout_seconds: float = 60.0,
    turns: int = 3,
    retries: int = 1,
) -> Episode:
    async def take() -> Sandbox:
        raise InfrastructureError("no sandbox here")

    async with endpoint(*replies) as served:
        options = ModelOptions(
            model="toy", api=api, retries=retries, timeout_seconds=timeout_seconds, api_key="k"
        )
        policy = openai_policy(options, base_url=served.base_url)
        try:
            return await run_episode(
                policy,
                ASKED,
                [Tool.of(submit), Tool.of(scale)],
                Workplace(take, lambda _: None),
                EpisodeLimits(wall_seconds=wall_seconds, turns=turns),
            )
        finally:
            await policy.aclose()


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(reply('data: {"choices": [', kind="text/event-stream"), id="truncated SSE"),
        pytest.param(reply('{"choices": [{"mess'), id="truncated JSON"),
        pytest.param(reply({"choices": [], "output": []}), id="empty choices"),
        pytest.param(reply({"choices": None, "output": None}), id="no choices"),
        pytest.param(reply("<html>Busy</html>", kind="text/html"), id="a page of HTML"),
        pytest.param(reply(b'{"choices": "\xff\xfe"}'), id="invalid UTF-8"),
        pytest.param(reply("[1, 2]"), id="a list"),
        pytest.param(CLOSE, id="a closed connection"),
        pytest.param(failure(500), id="500"),
        pytest.param(failure(429), id="429"),
    ],
)
async def test_where_the_endpoint_fails_the_reward_is_none(api: str, said: bytes) -> None:
    ended = await episode(api, said)
    assert ended.stop_reason is StopReason.MODEL_ERROR
    assert ended.stop_reason.lost
    assert ended.detail


async def test_a_hanging_connection_is_the_endpoints_failure(api: str) -> None:
    ended = await episode(api, HANG, timeout_seconds=0.3)
    assert ended.stop_reason is StopReason.MODEL_ERROR


async def test_an_endpoint_that_still_refuses_when_the_time_is_up_has_failed(api: str) -> None:
    busy = reply({"error": {"message": "slow down"}}, status=429, retry_after="30")
    ended = await episode(api, busy, wall_seconds=1.0)
    assert ended.stop_reason is StopReason.MODEL_ERROR
    assert ended.detail == "the endpoint failed until the time was up: 429: slow down"


async def test_an_endpoint_that_went_away_before_the_time_was_up_has_failed(api: str) -> None:
    ended = await episode(api, submits(api, arguments="{"), CLOSE, wall_seconds=2.0, retries=9)
    assert ended.stop_reason is StopReason.MODEL_ERROR


async def test_an_endpoint_that_stays_silent_until_the_time_is_up_has_failed(api: str) -> None:
    said = submits(api, arguments="{")
    ended = await episode(api, said, HANG, wall_seconds=3.0, timeout_seconds=0.5, retries=9)
    assert ended.stop_reason is StopReason.MODEL_ERROR
    assert ended.detail == "the endpoint failed until the time was up: no answer in time"


async def test_a_passing_failure_excuses_no_thinking_after_it(api: str) -> None:
    replies = [submits(api, arguments="{"), failure(429), HANG]
    ended = await episode(api, *replies, wall_seconds=4.0)
    assert ended.stop_reason is StopReason.WALL_TIMEOUT


async def test_an_endpoint_that_recovers_is_not_held_against_anyone(api: str) -> None:
    busy = reply({"error": {"message": "slow down"}}, status=429, retry_after="0.01")
    ended = await episode(api, busy, submits(api))
    assert (ended.stop_reason, ended.submission) == (StopReason.SUBMITTED, "x")


@pytest.mark.parametrize("content", [None, "", "x" * (10 << 20), "\x00\ud800"])
async def test_a_bad_answer_is_the_models_own(api: str, content: str | None) -> None:
    ended = await episode(api, says(api, content))
    assert ended.stop_reason is StopReason.NO_TOOL_CALL
    json.dumps(ended.messages, ensure_ascii=False).encode()


@pytest.mark.parametrize("arguments", ["{", "[]", "", "{}", '{"code": 1}', '{"cod": "x"}'])
async def test_bad_arguments_are_told_and_the_episode_goes_on(api: str, arguments: str) -> None:
    ended = await episode(api, submits(api, arguments=arguments), submits(api, ids=("b",)))
    assert ended.stop_reason is StopReason.SUBMITTED
    told = [message["content"] or "" for message in ended.messages if message["role"] == "tool"]
    assert told[0].startswith("Error: ")


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999", "9" * 301])
async def test_a_number_that_is_none_is_told_before_any_tool_gets_it(api: str, number: str) -> None:
    odd = submits(api, arguments=f'{{"factor": {number}}}', tool="scale")
    ended = await episode(api, odd, submits(api, ids=("b",)))
    assert ended.stop_reason is StopReason.SUBMITTED
    told = [message["content"] or "" for message in ended.messages if message["role"] == "tool"]
    assert told[0].startswith("Error: the arguments of scale are not valid JSON")


async def test_duplicated_call_ids_are_told_apart(api: str) -> None:
    bad = submits(api, arguments="{", ids=("same", "same"))
    ended = await episode(api, bad, bad, submits(api, ids=("same",)))
    ids = [message["tool_call_id"] for message in ended.messages if message["role"] == "tool"]
    assert len(set(ids)) == len(ids) == 5
    assert ended.stop_reason is StopReason.SUBMITTED


async def test_a_conversation_that_grew_too_long_is_the_models_doing(api: str) -> None:
    full = failure(400, "maximum context length exceeded", code="context_length_exceeded")
    ended = await episode(api, submits(api, arguments="{"), full)
    assert ended.stop_reason is StopReason.CONTEXT_EXCEEDED
    assert not ended.stop_reason.lost


async def test_a_call_that_the_server_cannot_read_is_the_models_doing(api: str) -> None:
    said = failure(500, "The model produced output that does not match the expected format")
    assert (await episode(api, said)).stop_reason is StopReason.NO_TOOL_CALL


async def test_an_endpoint_that_never_answered_does_not_think_too_long(api: str) -> None:
    ended = await episode(api, HANG, wall_seconds=0.5)
    assert ended.stop_reason is StopReason.MODEL_ERROR


async def test_a_model_that_answered_before_and_takes_too_long_now_has_lost(api: str) -> None:
    ended = await episode(api, submits(api, arguments="{"), HANG, wall_seconds=2.0)
    assert ended.stop_reason is StopReason.WALL_TIMEOUT
