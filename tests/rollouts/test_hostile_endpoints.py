"""Whatever an endpoint does ends in one of three errors, or in an answer of the model."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.errors import ContextExceededError, EndpointError, HarnessError, ModelError
from pytest_cwsandbox.rollouts import attempts, bodies
from pytest_cwsandbox.rollouts.failures import Fault
from pytest_cwsandbox.rollouts.model import ModelOptions, client_policy, openai_policy
from tests.rollouts.endpoints import (
    CLOSE,
    HANG,
    TRICKLE,
    answer,
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
    from pytest_cwsandbox.rollouts.messages import Message
    from pytest_cwsandbox.rollouts.policy import Generation
    from tests.rollouts.endpoints import Endpoint

KEY = "sk-very-secret"
ASKED: list[Message] = [{"role": "user", "content": "Add two numbers."}]


@pytest.fixture(params=["chat", "responses"])
def api(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def ask(
    served: Endpoint, api: str, *, retries: int = 1, times: int = 1, timeout_seconds: float = 60.0
) -> Generation:
    """Ask so many times and return the last answer."""
    options = ModelOptions(
        model="toy", api=api, retries=retries, timeout_seconds=timeout_seconds, api_key=KEY
    )
    policy = openai_policy(options, base_url=served.base_url)
    try:
        for _ in range(times):
            generation = await policy.generate(ASKED, [])
    finally:
        await policy.aclose()
    return generation


async def error_of(
    *replies: bytes, api: str, retries: int = 1, times: int = 1, timeout_seconds: float = 60.0
) -> tuple[HarnessError, Endpoint]:
    async with endpoint(*replies) as served:
        with pytest.raises(HarnessError) as caught:
            await ask(served, api, retries=retries, times=times, timeout_seconds=timeout_seconds)
    message = str(caught.value)
    assert "\n" not in message
    assert KEY not in message
    assert caught.value.__cause__ is None
    return caught.value, served


TRUNCATED_STREAM = b'data: {"choices":[{"delta":{"content":"he'
EMPTY: dict[str, dict[str, object]] = {"chat": {"choices": []}, "responses": {"output": []}}


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        pytest.param(TRUNCATED_STREAM, "text/event-stream", id="truncated stream"),
        pytest.param(b'{"choices": [{"mess', "application/json", id="truncated JSON"),
        pytest.param(b"", "application/json", id="nothing"),
        pytest.param(b"null", "application/json", id="null"),
        pytest.param(b"[" * 100_000, "application/json", id="bottomless JSON"),
        pytest.param(b'{"choices": "\xff\xfe"}', "application/json", id="invalid UTF-8"),
        pytest.param(b'{"choices": "\xed\xa0\x80"}', "application/json", id="half a character"),
        pytest.param(b"<html>Welcome</html>", "text/html", id="HTML page"),
        pytest.param(b'{"choices": {}, "output": {}}', "application/json", id="ill-shaped list"),
        pytest.param(b'{"choices": [1], "output": [1]}', "application/json", id="ill-shaped item"),
        pytest.param(b'{"choices": [{}]}', "application/json", id="no message"),
        pytest.param(b'{"error": {"code": 502}}', "application/json", id="error with status 200"),
    ],
)
async def test_an_unreadable_answer_is_the_endpoints_after_another_try(
    body: bytes, kind: str, api: str
) -> None:
    error, served = await error_of(reply(body, kind=kind), api=api)
    assert type(error) is ModelError
    assert len(served.bodies) == 2


async def test_an_answer_without_choices_is_the_endpoints(api: str) -> None:
    error, _ = await error_of(reply(EMPTY[api]), api=api)
    assert type(error) is ModelError


async def test_an_unreadable_answer_is_asked_for_again(api: str) -> None:
    async with endpoint(reply('{"choices": [{"me'), answer(api)) as served:
        assert (await ask(served, api)).message["content"] == "hello"


async def test_unreadable_answers_and_failures_share_one_budget(api: str) -> None:
    replies = [failure(500), reply("<html>"), failure(500), answer(api)]
    error, served = await error_of(*replies, api=api, retries=2)
    assert type(error) is ModelError
    assert len(served.bodies) == 3


async def test_a_connection_that_hangs_is_the_endpoints(api: str) -> None:
    error, _ = await error_of(HANG, api=api, retries=0, timeout_seconds=0.2)
    assert type(error) is ModelError
    assert "no answer in time" in str(error)


async def test_an_answer_that_trickles_in_is_no_answer_in_time(api: str) -> None:
    error, _ = await error_of(TRICKLE, api=api, retries=0, timeout_seconds=0.3)
    assert type(error) is ModelError
    assert "no answer in time" in str(error)


async def test_a_connection_that_closes_at_once_is_the_endpoints(api: str) -> None:
    error, served = await error_of(CLOSE, api=api)
    assert type(error) is ModelError
    assert "no connection" in str(error)
    assert len(served.bodies) == 2


async def test_a_body_that_breaks_off_is_the_endpoints(api: str) -> None:
    error, _ = await error_of(answer(api)[:-20], api=api)
    assert type(error) is ModelError


async def test_where_nobody_listens_no_request_can_succeed(api: str) -> None:
    async with endpoint(CLOSE) as gone:
        pass
    with pytest.raises(EndpointError, match=r"cannot be reached .* start its server"):
        await ask(gone, api, retries=0)


async def test_a_server_that_went_away_is_the_endpoints_failure(api: str) -> None:
    async with endpoint(answer(api)) as served:
        options = ModelOptions(model="toy", api=api, retries=0, api_key=KEY)
        policy = openai_policy(options, base_url=served.base_url)
        await policy.generate(ASKED, [])
    with pytest.raises(ModelError, match="no connection"):
        await policy.generate(ASKED, [])
    await policy.aclose()


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503])
async def test_a_passing_failure_is_retried(status: int, api: str) -> None:
    async with endpoint(failure(status), failure(status), answer(api)) as served:
        assert (await ask(served, api, retries=2)).message["content"] == "hello"


async def test_a_rate_limit_says_how_long_to_wait(api: str) -> None:
    async with endpoint(reply({}, status=429, retry_after="1"), answer(api)) as served:
        assert (await ask(served, api)).message["content"] == "hello"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after": "2", "retry-after-ms": "50"}, 0.05),
        ({"retry-after": "86400"}, 60.0),
        ({"retry-after": "Fri, 31 Dec 2999 23:59:59 GMT"}, 60.0),
        ({"retry-after": "Fri, 31 Dec 1999 23:59:59 GMT"}, None),
        ({"retry-after": "Mon, 99 Foo 99999 99:99:99 GMT"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e999"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "soon"}, None),
    ],
)
def test_an_endpoint_may_ask_to_be_left_alone_for_a_minute(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert attempts.asked_pause(headers) == seconds


async def test_an_endpoint_that_says_so_is_not_asked_again(api: str) -> None:
    error, served = await error_of(reply({}, status=500, x_should_retry="false"), api=api)
    assert type(error) is ModelError
    assert len(served.bodies) == 1


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_failure_that_does_not_pass_is_the_endpoints(status: int, api: str) -> None:
    error, served = await error_of(failure(status), api=api, retries=2)
    assert type(error) is ModelError
    assert f"({status}" in str(error) or f"{status}: it broke" in str(error)
    assert len(served.bodies) == 3


async def test_a_page_of_a_gateway_is_the_endpoints(api: str) -> None:
    page = reply(
        "<html>\n<h1>502 Bad Gateway</h1>", status=502, kind="text/html", retry_after_ms="1"
    )
    error, _ = await error_of(page, api=api)
    assert type(error) is ModelError
    assert "502 Bad Gateway" in str(error)


async def test_a_rate_limit_on_tokens_is_not_the_conversations_length(api: str) -> None:
    error, _ = await error_of(failure(429, "too many tokens per minute"), api=api)
    assert type(error) is ModelError
    too_large = failure(413, "tokens per minute", code="rate_limit_exceeded")
    error, _ = await error_of(too_large, api=api)
    assert type(error) is ModelError


def nested(levels: int, inside: str = '"x"') -> str:
    return '{"a":' * levels + inside + "}" * levels


def with_raw(body: object, raw: str) -> bytes:
    """Put JSON that Python would not write in the place of "@@"."""
    return reply(json.dumps(body).replace('"@@"', raw))


SMILE = '"\\ud83d\\ude00"'


@pytest.mark.parametrize("raw", [nested(101), nested(400), nested(600, SMILE), nested(980)])
async def test_an_answer_nested_too_deeply_is_the_endpoints(raw: str, api: str) -> None:
    body = {"chat": chat_answer(), "responses": responses_answer(responses_text())}[api]
    error, _ = await error_of(with_raw({**body, "extra": "@@"}, raw), api=api, retries=0)
    assert type(error) is ModelError


@pytest.mark.parametrize(
    "said",
    [nested(900), nested(30, "1e999"), "9" * 5000, '{"code": "' + "9" * 5000 + '"}', "[NaN]"],
)
@pytest.mark.parametrize("status", [200, 500])
async def test_a_report_of_any_form_is_the_endpoints(said: str, status: int, api: str) -> None:
    report = reply(f'{{"error": {{"message": {said}, "code": {said}}}}}', status=status)
    error, _ = await error_of(report, api=api, retries=0)
    assert type(error) is ModelError


async def test_reports_are_cut_before_anything_is_looked_for_in_them(api: str) -> None:
    report = {"message": "max_tokens: " * 100_000}
    assert len(Fault.reported(400, report).text) < 5000
    assert len(Fault.reported(400, {"detail": [report]}).text) < 5000
    error, _ = await error_of(reply({"error": report}, status=400), api=api)
    assert type(error) is EndpointError


@pytest.mark.parametrize("number", ["-5", "1" + "0" * 400, "1" + "0" * 5000, "9" * 17, "NaN"])
async def test_a_count_of_tokens_that_is_none_counts_nothing(number: str, api: str) -> None:
    body = {"chat": chat_answer(), "responses": responses_answer(responses_text())}[api]
    usage = {"prompt_tokens": "@@", "completion_tokens": 2, "input_tokens": "@@"}
    async with endpoint(with_raw({**body, "usage": usage}, number)) as served:
        assert (await ask(served, api)).tokens_in == 0


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "-1e999", '"-1"'])
async def test_log_probabilities_that_are_none_are_left_out(number: str, api: str) -> None:
    rows = [{"token": "h", "logprob": -0.5}, {"token": "i", "logprob": "@@"}]
    if api == "chat":
        body = chat_answer()
        body["choices"][0]["logprobs"] = {"content": rows}  # type: ignore[index]  # plain JSON
    else:
        text = responses_text()
        text["content"][0]["logprobs"] = rows  # type: ignore[index]  # plain JSON
        body = responses_answer(text)
    async with endpoint(with_raw(body, number)) as served:
        generation = await ask(served, api)
    assert (generation.message["content"], generation.logprobs) == ("hello", None)


@pytest.mark.parametrize("number", ["1" + "0" * 400, "-1", "1.5"])
async def test_token_ids_that_are_none_are_left_out(number: str) -> None:
    body = chat_answer()
    body["choices"][0]["token_ids"] = [1, "@@"]  # type: ignore[index]  # plain JSON
    async with endpoint(with_raw(body, number)) as served:
        assert (await ask(served, "chat")).token_ids is None


async def test_nobody_is_asked_to_pack_an_answer(api: str) -> None:
    async with endpoint(answer(api)) as served:
        await ask(served, api)
    assert served.headers[0]["accept-encoding"] == "identity"


@pytest.mark.parametrize("packing", ["gzip", "GZIP", "x-gzip"])
async def test_an_answer_that_is_packed_all_the_same_is_read(packing: str, api: str) -> None:
    plain = answer(api).partition(b"\r\n\r\n")[2]
    async with endpoint(reply(gzip.compress(plain), Content_Encoding=packing)) as served:
        assert (await ask(served, api)).message["content"] == "hello"


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize(
    ("layers", "complaint"), [(1, "longer than 64 MiB"), (2, "packed as 'gzip, gzip'")]
)
async def test_a_bomb_is_not_unpacked(status: int, layers: int, complaint: str, api: str) -> None:
    bomb = bytes(65 << 20)
    for _ in range(layers):
        bomb = gzip.compress(bomb, 1)
    packed = reply(bomb, status=status, Content_Encoding=", ".join(["gzip"] * layers))
    error, _ = await error_of(packed, api=api, retries=0)
    assert type(error) is ModelError
    assert complaint in str(error)


async def test_an_answer_without_end_is_the_endpoints(
    api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "LONGEST", 1 << 20)
    error, _ = await error_of(answer(api, "x" * (1 << 20)), api=api, retries=0)
    assert type(error) is ModelError
    assert "longer than 1 MiB" in str(error)


async def test_what_is_no_gzip_is_the_endpoints(api: str) -> None:
    error, _ = await error_of(reply("plain", Content_Encoding="gzip"), api=api, retries=0)
    assert type(error) is ModelError


@pytest.mark.parametrize("body", ['{"choices": [{"me', "[1, 2]", "[" * 100_000, "null"])
async def test_a_client_that_reads_by_itself_fails_no_differently(body: str) -> None:
    from openai import AsyncOpenAI

    async with (
        endpoint(reply(body)) as served,
        AsyncOpenAI(base_url=served.base_url, api_key=KEY) as client,
    ):
        policy = client_policy(client, ModelOptions(model="toy", retries=0))
        with pytest.raises(ModelError):
            await policy.generate(ASKED, [])


@pytest.mark.parametrize(
    ("refusal", "remedy"),
    [
        pytest.param(failure(401, f"no such key: {KEY}"), "OPENAI_API_KEY", id="401"),
        pytest.param(failure(403), "OPENAI_API_KEY", id="403"),
        pytest.param(failure(404, "no model"), "--cwsandbox-model,", id="404"),
        pytest.param(reply("<html>", status=404), "--cwsandbox-model-base-url", id="404 page"),
        pytest.param(failure(402), "add credit", id="402"),
        pytest.param(failure(429, code="insufficient_quota"), "add credit", id="quota"),
        pytest.param(failure(400, "no such setting"), "--cwsandbox-model-api", id="400"),
        pytest.param(reply({"detail": [{"loc": "seed"}]}, status=422), "settings", id="422"),
        pytest.param(
            failure(400, "'max_tokens' is too large: 9. The maximum context length is 4"),
            "--cwsandbox-max-tokens",
            id="max tokens",
        ),
    ],
)
async def test_what_no_request_can_mend_names_the_remedy(
    refusal: bytes, remedy: str, api: str
) -> None:
    error, _ = await error_of(refusal, api=api)
    assert type(error) is EndpointError
    assert remedy in str(error)


async def test_a_server_without_the_responses_api_is_offered_chat() -> None:
    error, _ = await error_of(failure(404), api="responses")
    assert "--cwsandbox-model-api=chat" in str(error)


async def test_a_request_refused_after_an_answer_is_the_endpoints(api: str) -> None:
    error, _ = await error_of(answer(api), failure(400), api=api, times=2)
    assert type(error) is ModelError


@pytest.mark.parametrize(
    "refusal",
    [
        failure(400, "too much", code="context_length_exceeded"),
        failure(400, "This model's maximum context length is 4096 tokens."),
        failure(400, "Your input exceeds the context window of this model."),
        failure(
            400,
            "request (9000 tokens) exceeds the available context size (4096 tokens)",
            code=400,
            type="exceed_context_size_error",
        ),
        failure(500, "Context size has been exceeded.", code=500),
        failure(422, "The input is longer than the model's context length (4096 tokens)."),
        failure(400, "Prompt is too long: 9000 tokens > 4096 maximum"),
        failure(400, "too many tokens"),
        reply("<html>", status=413),
        reply({"error": "the input length exceeds the context length"}, status=400),
        reply(
            {"object": "error", "message": "maximum context length is 2048", "code": 400},
            status=400,
        ),
    ],
)
async def test_a_conversation_too_long_is_told_apart(refusal: bytes, api: str) -> None:
    error, _ = await error_of(refusal, api=api)
    assert type(error) is ContextExceededError


async def test_a_conversation_grown_too_long_for_the_answer_is_told_apart(api: str) -> None:
    full = failure(400, "'max_tokens' is too large: 9. The maximum context length is 4")
    error, _ = await error_of(answer(api), full, api=api, times=2)
    assert type(error) is ContextExceededError


@pytest.mark.parametrize(
    "refusal",
    [
        failure(400, "The prompt was filtered.", code="content_filter"),
        failure(400, "The prompt was filtered.", code="content_policy_violation"),
        failure(400, "The prompt was filtered: usage policy", code="invalid_prompt"),
    ],
)
async def test_a_filtered_prompt_is_a_refusal(refusal: bytes, api: str) -> None:
    async with endpoint(refusal) as served:
        generation = await ask(served, api)
    assert generation.finish_reason == "content_filter"
    assert generation.message["refusal"].startswith("The prompt was filtered")
    assert generation.message["content"] is None


async def test_a_failed_response_is_asked_for_again() -> None:
    failed = responses_answer(status="failed", error={"code": "server_error", "message": "oops"})
    async with endpoint(reply(failed), answer("responses")) as served:
        assert (await ask(served, "responses")).message["content"] == "hello"


async def test_a_failed_response_that_was_too_long_is_told_apart() -> None:
    body = {"code": "context_length_exceeded", "message": "too long"}
    failed = reply(responses_answer(status="failed", error=body))
    error, served = await error_of(failed, api="responses")
    assert type(error) is ContextExceededError
    assert len(served.bodies) == 1


async def test_a_choice_that_failed_is_asked_for_again() -> None:
    failed = chat_answer(finish="error")
    failed["choices"][0]["error"] = {"code": 502, "message": "upstream"}  # type: ignore[index]  # plain JSON
    async with endpoint(reply(failed), answer("chat")) as served:
        assert (await ask(served, "chat")).message["content"] == "hello"


async def test_no_content_is_an_answer(api: str) -> None:
    body = chat_answer(None) if api == "chat" else responses_answer()
    async with endpoint(reply(body)) as served:
        generation = await ask(served, api)
    assert generation.message == {"role": "assistant", "content": None}
    assert generation.finish_reason == "stop"


async def test_ten_megabytes_are_an_answer(api: str) -> None:
    long = "ä" * 5_000_000
    async with endpoint(answer(api, long)) as served:
        assert (await ask(served, api)).message["content"] == long


async def test_halves_of_characters_are_replaced(api: str) -> None:
    async with endpoint(answer(api, "a\ud800b\U0001f600\0")) as served:
        assert (await ask(served, api)).message["content"] == "a\ufffdb\U0001f600\0"


async def test_duplicate_and_missing_ids_are_made_unique(api: str) -> None:
    given = ["same", "same", None, "", 7]
    if api == "chat":
        body = chat_answer(None, tool_calls=[chat_call(identity) for identity in given])
    else:
        body = responses_answer(*(responses_call(identity) for identity in given))
    async with endpoint(reply(body)) as served:
        generation = await ask(served, api)
    ids = [call["id"] for call in generation.message["tool_calls"]]
    assert ids == ["same", "same_2", "call_1", "call_2", "7"]


@pytest.mark.parametrize("identity", ["same", ""])
async def test_of_endless_calls_the_first_are_kept_and_the_answer_counts_as_cut_short(
    identity: str, api: str
) -> None:
    if api == "chat":
        body = chat_answer(None, tool_calls=[chat_call(identity)] * 20_000)
    else:
        body = responses_answer(*([responses_call(identity)] * 20_000))
    async with endpoint(reply(body)) as served:
        generation = await ask(served, api)
    assert len({call["id"] for call in generation.message["tool_calls"]}) == 128
    assert generation.finish_reason == "length"


async def test_what_a_model_calls_badly_is_kept_as_it_said_it(api: str) -> None:
    asked = [("none", None), ("some", '{"code": '), ("text", ""), ("parsed", {"code": "1"})]
    if api == "chat":
        calls = [chat_call(name, None if name == "none" else name, text) for name, text in asked]
        body = chat_answer("", tool_calls=calls)
    else:
        items = [
            responses_call(name, None if name == "none" else name, text) for name, text in asked
        ]
        body = responses_answer(responses_text(""), *items)
    async with endpoint(reply(body)) as served:
        generation = await ask(served, api)
    functions = [call["function"] for call in generation.message["tool_calls"]]
    assert functions == [
        {"name": "", "arguments": ""},
        {"name": "some", "arguments": '{"code": '},
        {"name": "text", "arguments": ""},
        {"name": "parsed", "arguments": json.dumps({"code": "1"})},
    ]
    assert generation.message["content"] == ""


async def test_calls_of_other_kinds_are_left_out(api: str) -> None:
    if api == "chat":
        custom: dict[str, object] = {
            "id": "c",
            "type": "custom",
            "custom": {"name": "grep", "input": "x"},
        }
        body = chat_answer("hello", tool_calls=[custom])
    else:
        custom = responses_call("c") | {"type": "custom_tool_call", "input": "x"}
        body = responses_answer(responses_text(), custom)
    async with endpoint(reply(body)) as served:
        generation = await ask(served, api)
    assert generation.message == {"role": "assistant", "content": "hello"}
