"""What goes to an endpoint over either API, and what comes back."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import traceback
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cwsandbox import problems
from pytest_cwsandbox.errors import EndpointError
from pytest_cwsandbox.rollouts import scripted
from pytest_cwsandbox.rollouts.model import ModelOptions, openai_policy
from pytest_cwsandbox.rollouts.policy import Generation
from tests.rollouts.endpoints import (
    HANG,
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
    from collections.abc import AsyncIterator, Iterator, Sequence

    from pytest_cwsandbox.rollouts.endpoint import EndpointPolicy
    from pytest_cwsandbox.rollouts.messages import Message, ToolCall, ToolDefinition
    from tests.rollouts.endpoints import Endpoint

ASKED: list[Message] = [
    {"role": "system", "content": "You write Python."},
    {"role": "user", "content": "Add two numbers."},
]
CALLED: list[Message] = [
    {
        "role": "assistant",
        "content": "Let me see.",
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "execute_code", "arguments": '{"code": "1"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "exit code 0"},
]
TOOL: ToolDefinition = {
    "type": "function",
    "function": {
        "name": "execute_code",
        "description": "Run Python.",
        "parameters": {
            "type": "object",
            "properties": {"code": {"type": "string"}},
            "required": ["code"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}

SUBMIT: ToolDefinition = {
    "type": "function",
    "function": {**TOOL["function"], "name": "submit_solution"},
}


@pytest.fixture(params=["chat", "responses"])
def api(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@asynccontextmanager
async def policy_of(served: Endpoint, **options: Any) -> AsyncIterator[EndpointPolicy]:
    policy = openai_policy(ModelOptions(**{"model": "toy", **options}), base_url=served.base_url)
    try:
        yield policy
    finally:
        await policy.aclose()


async def sent(
    messages: list[Message], tools: list[ToolDefinition] | None = None, **options: Any
) -> dict[str, Any]:
    """The body that goes out."""
    async with (
        endpoint(answer(options.get("api", "chat"))) as served,
        policy_of(served, **options) as policy,
    ):
        await policy.generate(messages, tools or [])
    return dict(served.bodies[0])


async def read(body: object, api: str, history: list[Message] | None = None) -> Generation:
    """The generation that comes back."""
    async with endpoint(reply(body)) as served, policy_of(served, api=api) as policy:
        return await policy.generate(history or ASKED, [TOOL])


async def test_chat_goes_out_as_it_is() -> None:
    assert await sent([*ASKED, *CALLED], [TOOL]) == {
        "model": "toy",
        "messages": [*ASKED, *CALLED],
        "tools": [TOOL],
    }


async def test_responses_get_items_and_flat_tools() -> None:
    assert await sent([*ASKED, *CALLED], [TOOL], api="responses") == {
        "model": "toy",
        "store": False,
        "input": [
            {"type": "message", "role": "system", "content": "You write Python."},
            {"type": "message", "role": "user", "content": "Add two numbers."},
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Let me see."}],
            },
            {
                "type": "function_call",
                "call_id": "call_1",
                "name": "execute_code",
                "arguments": '{"code": "1"}',
            },
            {"type": "function_call_output", "call_id": "call_1", "output": "exit code 0"},
        ],
        "tools": [{"type": "function", **TOOL["function"]}],
    }


async def test_each_api_has_its_own_address(api: str) -> None:
    async with endpoint(answer(api)) as served, policy_of(served, api=api) as policy:
        await policy.generate(ASKED, [])
    assert served.paths == ["/v1/chat/completions" if api == "chat" else "/v1/responses"]


async def test_settings_go_out_under_the_names_of_each_api() -> None:
    settings: dict[str, Any] = {"temperature": 0.0, "top_p": 0.9, "max_tokens": 64}
    chat = await sent(ASKED, **settings, seed=3, extra_body={"top_k": 5, "top_p": 0.5})
    assert {name: chat[name] for name in chat if name not in {"model", "messages"}} == {
        "temperature": 0.0,
        "top_p": 0.5,
        "max_tokens": 64,
        "seed": 3,
        "top_k": 5,
    }
    responses = await sent(ASKED, **settings, api="responses", extra_body={"top_k": 5})
    assert responses["max_output_tokens"] == 64
    assert responses["top_k"] == 5


async def test_samples_differ_in_their_seed() -> None:
    async with endpoint(answer("chat")) as served, policy_of(served, seed=40) as policy:
        for sample in range(3):
            await policy.for_sample(sample).generate(ASKED, [])
    assert [body["seed"] for body in served.bodies] == [40, 41, 42]


def test_without_a_seed_samples_have_none() -> None:
    assert ModelOptions().for_sample(3) == ModelOptions()


async def test_unknown_keys_are_never_sent(api: str) -> None:
    odd: Any = [{**message, "note": "ours"} for message in [*ASKED, *CALLED]]
    body = await sent(odd, api=api)
    assert "ours" not in str(body)


async def test_what_servers_refuse_in_a_history_is_mended(api: str) -> None:
    history: list[Message] = [
        *ASKED,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "", "arguments": '{"co'}},
                {"id": "2", "type": "function", "function": {"name": "a b", "arguments": "[]"}},
            ],
        },
        {"role": "tool", "tool_call_id": "1", "content": "no JSON"},
        {"role": "tool", "tool_call_id": "2", "content": "half: \ud800"},
        {"role": "assistant", "content": None},
    ]
    body = await sent(history, api=api)
    if api == "chat":
        calls = [call["function"] for call in body["messages"][2]["tool_calls"]]
        assert body["messages"][-2]["content"] == "half: \ufffd"
        assert body["messages"][-1] == {"role": "assistant", "content": ""}
    else:
        calls = [item for item in body["input"] if item["type"] == "function_call"]
        assert body["input"][-1]["output"] == "half: \ufffd"
    assert [(call["name"], call["arguments"]) for call in calls] == [
        ("unnamed", '{"invalid_json": "{\\"co"}'),
        ("a_b", '{"invalid_json": "[]"}'),
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        '{"code": NaN}',
        '{"code": [-Infinity]}',
        '{"code": 1e999}',
        '{"code": ' + "9" * 301 + "}",
        '{"a": ' * 60 + "1" + "}" * 60,
        "[" * 100_000,
    ],
)
async def test_arguments_that_strict_servers_refuse_are_wrapped(arguments: str, api: str) -> None:
    call: ToolCall = {
        "id": "1",
        "type": "function",
        "function": {"name": "execute_code", "arguments": arguments},
    }
    history: list[Message] = [
        *ASKED,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "no JSON"},
    ]
    body = await sent(history, api=api)
    if api == "chat":
        (said,) = [call["function"] for call in body["messages"][2]["tool_calls"]]
    else:
        (said,) = [item for item in body["input"] if item["type"] == "function_call"]
    assert json.loads(said["arguments"]) == {"invalid_json": arguments}


async def test_an_answer_in_full_over_chat() -> None:
    body = chat_answer(
        "Hm.", finish="tool_calls", tool_calls=[chat_call("c1")], reasoning_content="I think."
    )
    logprobs: dict[str, object] = {
        "content": [{"token": "Hm", "logprob": -0.5, "bytes": None, "top_logprobs": []}]
    }
    choices: Any = body["choices"]
    choices[0] |= {"logprobs": logprobs, "token_ids": [5, 6]}
    generation = await read({**body, "prompt_token_ids": [1, 2, 3]}, "chat")
    assert generation == Generation(
        {
            "role": "assistant",
            "content": "Hm.",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "execute_code", "arguments": '{"code": "1"}'},
                }
            ],
            "reasoning_content": "I think.",
        },
        finish_reason="tool_calls",
        tokens_in=7,
        tokens_out=3,
        logprobs=logprobs,
        token_ids=(5, 6),
        prompt_token_ids=(1, 2, 3),
    )


async def test_an_answer_in_full_over_responses() -> None:
    text = responses_text("Hm.")
    logprobs = [{"token": "Hm", "logprob": -0.5, "bytes": [], "top_logprobs": []}]
    parts: Any = text["content"]
    parts[0]["logprobs"] = logprobs
    reasoning: dict[str, object] = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "I think."}],
    }
    generation = await read(responses_answer(reasoning, text, responses_call("c1")), "responses")
    assert generation == Generation(
        {
            "role": "assistant",
            "content": "Hm.",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "execute_code", "arguments": '{"code": "1"}'},
                }
            ],
            "reasoning_items": [reasoning],
            "reasoning_content": "I think.",
        },
        finish_reason="tool_calls",
        tokens_in=7,
        tokens_out=3,
        logprobs={"content": logprobs},
    )


async def test_a_refusal_is_told_apart_from_content() -> None:
    chat = await read(chat_answer(None, refusal="I cannot."), "chat")
    item = {**responses_text(), "content": [{"type": "refusal", "refusal": "I cannot."}]}
    responses = await read(responses_answer(item), "responses")
    assert chat.message == responses.message
    assert chat.message == {"role": "assistant", "content": None, "refusal": "I cannot."}


@pytest.mark.parametrize(
    ("reason", "finish"), [("max_output_tokens", "length"), ("content_filter", "content_filter")]
)
async def test_an_incomplete_response_says_why(reason: str, finish: str) -> None:
    body = responses_answer(
        responses_text(), status="incomplete", incomplete_details={"reason": reason}
    )
    assert (await read(body, "responses")).finish_reason == finish


async def test_an_id_of_an_earlier_turn_is_not_used_again(api: str) -> None:
    if api == "chat":
        body = chat_answer(None, tool_calls=[chat_call("call_1")])
    else:
        body = responses_answer(responses_call("call_1"))
    generation = await read(body, api, [*ASKED, *CALLED])
    assert [call["id"] for call in generation.message["tool_calls"]] == ["call_1_2"]


async def test_content_in_parts_is_joined() -> None:
    parts = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "he"}]
    body = chat_answer([*parts, {"type": "text", "text": "llo"}])
    assert (await read(body, "chat")).message["content"] == "hello"


async def test_reasoning_goes_back_to_where_it_came_from() -> None:
    item: dict[str, object] = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "encrypted_content": "xyz",
        "status": None,
    }
    said: Message = {"role": "assistant", "content": "Hm.", "reasoning_items": [item]}
    body = await sent([*ASKED, said], api="responses")
    assert body["input"][2] == {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "encrypted_content": "xyz",
    }
    assert "include" not in body  # only OpenAI itself is sure to know it
    assert "reasoning" not in str(await sent([*ASKED, said], api="chat"))


async def test_cancelling_passes_through(api: str) -> None:
    async with endpoint(HANG) as served, policy_of(served, api=api) as policy:
        task = asyncio.create_task(policy.generate(ASKED, []))
        await served.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def test_a_policy_serves_one_event_loop_after_the_other() -> None:
    async def once() -> str | None:
        async with endpoint(answer("chat")) as served:
            policy.endpoint._base_url = served.base_url
            try:
                return (await policy.generate(ASKED, [])).message["content"]
            finally:
                await policy.aclose()

    policy = openai_policy(ModelOptions(model="toy"), base_url="http://127.0.0.1:1/v1")
    assert [asyncio.run(once()), asyncio.run(once())] == ["hello", "hello"]


async def test_a_proxy_does_not_stand_before_this_machine(
    api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert await sent(ASKED, api=api)


async def test_the_key_goes_out_and_a_missing_one_is_made_up() -> None:
    async with endpoint(answer("chat")) as served:
        for key in ["sk-mine", ""]:
            async with policy_of(served, api_key=key) as policy:
                await policy.generate(ASKED, [])
    assert [headers["authorization"] for headers in served.headers] == [
        "bearer sk-mine",
        "bearer no-key",
    ]


def test_openai_itself_is_spoken_to_in_responses_and_all_others_in_chat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    options = ModelOptions(model="toy")
    assert openai_policy(options).api == "responses"
    assert openai_policy(options, base_url="https://eu.api.openai.com/v1").api == "responses"
    assert openai_policy(options, base_url="http://127.0.0.1:8000/v1").api == "chat"
    monkeypatch.setenv("OPENAI_BASE_URL", "https://example.com/v1")
    assert openai_policy(options).api == "chat"


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        (ModelOptions(model="toy"), "OPENAI_API_KEY.*--cwsandbox-model-base-url"),
        (ModelOptions(model="", base_url="http://127.0.0.1/v1"), "--cwsandbox-model$"),
        (ModelOptions(model="toy", base_url="localhost:8000/v1"), "--cwsandbox-model-base-url"),
        (ModelOptions(model="toy", base_url="http://host:port/v1"), "--cwsandbox-model-base-url"),
        (ModelOptions(model="toy", base_url="http://☃.de/v1"), "--cwsandbox-model-base-url"),
        (ModelOptions(model="toy", api_key="sk", extra_body={"model": "x"}), "-extra-body.* model"),
        (ModelOptions(model="toy", api_key="sk", extra_body={"input": []}), "-extra-body.* input"),
        (
            ModelOptions(model="toy", api_key="sk", extra_body={"stream": True, "messages": []}),
            "--cwsandbox-extra-body may not set messages, stream",
        ),
        (
            ModelOptions(model="toy", api_key="sk", extra_body={"x": float("nan")}),
            "--cwsandbox-extra-body",
        ),
        (ModelOptions(model="toy", api="grpc", api_key="sk"), "--cwsandbox-model-api"),
        (ModelOptions(model="toy", api_key="sk", seed=1), "--cwsandbox-seed"),
        (ModelOptions(model="toy", api_key="sk-ä"), "OPENAI_API_KEY"),
    ],
)
def test_settings_that_cannot_work_name_the_remedy(options: ModelOptions, remedy: str) -> None:
    with pytest.raises(EndpointError, match=remedy):
        openai_policy(options)


def test_secrets_stay_out_of_what_is_printed() -> None:
    options = ModelOptions(
        base_url="https://me:SECRET@host/v1?token=SECRET",
        extra_body={"auth": "SECRET"},
        api_key="SECRET",
    )
    assert "SECRET" not in repr(options)


@pytest.mark.parametrize(
    "base_url",
    [
        "me:SECRET@host/v1",
        "http://me:SECRET@host:port/v1",
        "http://me:SECRET?SECRET@host:port/v1?token=SECRET",
        "http://me:SEC/RET@host/v1",
        "htp://host/v1?token=SECRET#SECRET",
    ],
)
def test_an_address_that_is_none_is_shown_without_its_secrets(base_url: str) -> None:
    with pytest.raises(EndpointError) as caught:
        openai_policy(ModelOptions(model="toy", base_url=base_url))
    assert "host" in str(caught.value)
    assert "RET" not in str(caught.value)


def secrets_in_sight(error: BaseException) -> list[str]:
    """The functions whose local variables a traceback would show with a secret in them."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)][1:]
    return [frame.f_code.co_name for frame in frames if "SECRET" in repr(frame.f_locals)]


def test_settings_that_cannot_work_leave_no_secret_in_a_traceback() -> None:
    for options in [
        ModelOptions(model="", api_key="SECRET", base_url="http://me:SECRET@host/v1"),
        ModelOptions(model="toy", api_key="SECRET", base_url="http://me:SECRET@host:port/v1"),
        ModelOptions(model="toy", api_key="SECRET\0"),
        ModelOptions(model="toy", api_key="SECRET", extra_body={"model": "SECRET"}),
    ]:
        with pytest.raises(EndpointError) as caught:
            openai_policy(options, base_url=options.base_url, api_key=options.api_key)
        assert secrets_in_sight(caught.value) == []


async def test_a_refused_request_leaves_no_secret_in_a_traceback(api: str) -> None:
    async with (
        endpoint(failure(401, "no such key: SECRET")) as served,
        policy_of(served, api=api, api_key="SECRET", extra_body={"auth": "SECRET"}) as policy,
    ):
        with pytest.raises(EndpointError) as caught:
            await policy.generate(ASKED, [])
    assert secrets_in_sight(caught.value) == []
    assert caught.value.__context__ is None


def test_the_client_is_not_imported_before_it_is_needed() -> None:
    check = (
        "import sys; from pytest_cwsandbox.rollouts import model, chat, responses; "
        "print('openai' in sys.modules)"
    )
    output = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=True
    )
    assert output.stdout == "False\n"


@pytest.fixture(scope="module")
def script_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[scripted.Endpoint]:
    folder = tmp_path_factory.mktemp("run")
    yield scripted.join_or_start(folder, lifeline=os.getpid())
    scripted.stop(folder)


@pytest.mark.parametrize(
    "model",
    [
        "scripted",
        "scripted-thinks",
        "scripted-parallel",
        "scripted-same-ids",
        "scripted-bad-json",
        "scripted-cut-off",
        "scripted-no-tool",
        "scripted-says-nothing",
        "scripted-refuses",
    ],
)
async def test_a_conversation_is_the_same_over_both_apis(
    model: str, script_server: scripted.Endpoint
) -> None:
    chat, responses = [
        await converse(ModelOptions(model=model, api=api), script_server)
        for api in ["chat", "responses"]
    ]
    assert chat == responses


async def converse(options: ModelOptions, server: scripted.Endpoint) -> list[Generation]:
    """Talk until the model calls no tool; nothing here runs any, all are said to be done."""
    policy = openai_policy(options, base_url=server.address, api_key=server.token)
    messages: list[Message] = [{"role": "user", "content": problems.load("bundled")[0].prompt}]
    generations: list[Generation] = []
    calls: Sequence[ToolCall] = ()
    try:
        while calls or not generations:
            generation = await policy.generate(messages, [TOOL, SUBMIT])
            # Only one API has these; the thoughts in them both APIs show.
            generation.message.pop("reasoning_items", None)
            generations.append(generation)
            messages.append(generation.message)
            calls = generation.message.get("tool_calls", ())
            messages += [
                {"role": "tool", "tool_call_id": call["id"], "content": "done"} for call in calls
            ]
    finally:
        await policy.aclose()
    return generations
