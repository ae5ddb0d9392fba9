"""The scripted model: a real server, asked with the real client, through both APIs."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Literal, cast

import openai
import pytest
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from pytest_cwsandbox import problems
from pytest_cwsandbox.errors import BackendError
from pytest_cwsandbox.rollouts import scripted
from pytest_cwsandbox.rollouts.tasks import Task, load_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_cwsandbox.problems import Problem
    from pytest_cwsandbox.rollouts.messages import AssistantMessage, Message, ToolCall

    Act = Callable[[str, dict[str, str]], str]

Api = Literal["chat", "responses"]
PROBLEMS = problems.load("bundled")
TASKS = load_tasks()
SOLVING = ("execute_code", "submit_solution")
WORKING = ("bash", "read_file", "write_file")
PARAMETERS = {
    "execute_code": ("code",),
    "submit_solution": ("code",),
    "bash": ("command",),
    "read_file": ("path",),
    "write_file": ("path", "content"),
}
GONE_SECONDS = 10.0  # it ends at once; a loaded machine may take longer


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[scripted.Endpoint]:
    folder = tmp_path_factory.mktemp("run")
    yield scripted.join_or_start(folder, lifeline=os.getpid())
    scripted.stop(folder)


@pytest.fixture(scope="module")
def client(endpoint: scripted.Endpoint) -> Iterator[openai.OpenAI]:
    with client_of(endpoint) as connected:
        yield connected


@pytest.fixture(params=["chat", "responses"])
def api(request: pytest.FixtureRequest) -> Api:
    return cast("Api", request.param)


def client_of(endpoint: scripted.Endpoint, **settings: object) -> openai.OpenAI:
    given = {"base_url": endpoint.address, "api_key": endpoint.token, "max_retries": 0, **settings}
    return openai.OpenAI(**given)  # type: ignore[arg-type]  # settings of many types


class Dialogue:
    """A conversation in chat format, whatever the API; ``reasons`` says why each answer ended."""

    def __init__(
        self, client: openai.OpenAI, api: Api, model: str, asked: str, tools: tuple[str, ...]
    ) -> None:
        self.client = client
        self.api = api
        self.model = model
        self.tools = tools
        self.messages: list[Message] = [{"role": "user", "content": asked}]
        self.reasons: list[str] = []
        self.usage: list[tuple[int, int]] = []

    def turn(self) -> AssistantMessage:
        message = self._chat() if self.api == "chat" else self._responses()
        self.messages.append(message)
        return message

    def calls(self) -> list[ToolCall]:
        return self.turn().get("tool_calls", [])

    def observe(self, call: ToolCall, observation: str) -> None:
        self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": observation})

    def play(self, act: Act, turns: int = 20) -> None:
        """Go on until there is no call left or something was submitted."""
        for _ in range(turns):
            calls = self.calls()
            for call in calls:
                self.observe(call, act(call["function"]["name"], arguments(call)))
            if not calls or "submit_solution" in [call["function"]["name"] for call in calls]:
                return

    def _chat(self) -> AssistantMessage:
        answer = self.client.chat.completions.create(
            model=self.model,
            messages=self.messages,  # type: ignore[arg-type]  # the same shape by other names
            tools=[
                {"type": "function", "function": definition(name)}  # type: ignore[typeddict-item]  # as above
                for name in self.tools
            ],
        )
        ChatCompletion.model_validate(answer.to_dict())  # the client itself checks nothing
        [choice] = answer.choices
        assert answer.usage is not None
        self.usage.append((answer.usage.prompt_tokens, answer.usage.completion_tokens))
        self.reasons.append(choice.finish_reason)
        message: AssistantMessage = {"role": "assistant", "content": choice.message.content}
        if choice.message.tool_calls:
            called = [call.to_dict() for call in choice.message.tool_calls]
            message["tool_calls"] = cast("list[ToolCall]", called)
        if choice.message.refusal:
            message["refusal"] = choice.message.refusal
        return message

    def _responses(self) -> AssistantMessage:
        answer = self.client.responses.create(
            model=self.model,
            input=items(self.messages),  # type: ignore[arg-type]  # the same shape by other names
            tools=[
                {"type": "function", **definition(name)}  # type: ignore[misc]  # as above
                for name in self.tools
            ],
        )
        Response.model_validate(answer.to_dict())
        assert answer.usage is not None
        self.usage.append((answer.usage.input_tokens, answer.usage.output_tokens))
        message: AssistantMessage = {"role": "assistant", "content": None}
        for item in answer.output:
            if item.type == "message":
                [part] = item.content
                if part.type == "refusal":
                    message["refusal"] = part.refusal
                else:
                    message["content"] = part.text
            if item.type == "function_call":
                called = {"name": item.name, "arguments": item.arguments}
                call = {"id": item.call_id, "type": "function", "function": called}
                message.setdefault("tool_calls", []).append(cast("ToolCall", call))
        incomplete = answer.incomplete_details
        if incomplete:
            assert (answer.status, incomplete.reason) == ("incomplete", "max_output_tokens")
            self.reasons.append("length")
        else:
            assert answer.status == "completed"
            self.reasons.append("tool_calls" if "tool_calls" in message else "stop")
        return message


def definition(name: str) -> dict[str, object]:
    properties = {parameter: {"type": "string"} for parameter in PARAMETERS[name]}
    return {
        "name": name,
        "description": f"The tool {name}.",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        },
    }


def items(messages: list[Message]) -> list[dict[str, object]]:
    """A conversation as the Responses API takes it."""
    found: list[dict[str, object]] = []
    for message in messages:
        if message["role"] == "tool":
            answered = {"call_id": message["tool_call_id"], "output": message["content"]}
            found.append({"type": "function_call_output", **answered})
            continue
        if message["content"] is not None:
            found.append({"role": message["role"], "content": message["content"]})
        if message["role"] == "assistant":
            found += [
                {"type": "function_call", "call_id": call["id"], **call["function"]}
                for call in message.get("tool_calls", ())
            ]
    return found


def arguments(call: ToolCall) -> dict[str, str]:
    return cast("dict[str, str]", json.loads(call["function"]["arguments"]))


def solving(
    client: openai.OpenAI, api: Api, model: str = "scripted", problem: Problem = PROBLEMS[0]
) -> Dialogue:
    asked = f"{problem.prompt}\n\nIt is checked with:\n" + "\n".join(problem.test_list)
    return Dialogue(client, api, model, asked, SOLVING)


class Workshop:
    """What the tools do, on this machine: what is bundled can be trusted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.submitted: list[str] = []
        self.exits: list[int] = []

    def __call__(self, tool: str, given: dict[str, str]) -> str:
        assert tuple(given) == PARAMETERS[tool]
        if tool == "execute_code":
            return self.run([sys.executable, "-c", given["code"]])
        if tool == "bash":
            return self.run(["bash", "-c", given["command"]])
        if tool == "write_file":
            return self.write(given["path"], given["content"])
        assert tool == "submit_solution"
        self.submitted.append(given["code"])
        return "submitted"

    def run(self, command: list[str]) -> str:
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        self.exits.append(done.returncode)
        return f"exit code {done.returncode}\n{done.stdout}{done.stderr}"

    def write(self, path: str, content: str) -> str:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        return "written"


def test_every_bundled_problem_is_solved_and_some_after_an_error(
    client: openai.OpenAI, tmp_path: Path
) -> None:
    stumbled = 0
    for problem in PROBLEMS:
        workshop = Workshop(tmp_path)
        dialogue = solving(client, "chat", problem=problem)
        dialogue.play(workshop)
        assert workshop.submitted == [problem.reference_solution]
        assert workshop.exits in ([0], [1, 0]), problem.id
        if len(workshop.exits) > 1:
            stumbled += 1
            [corrected] = [m for m in dialogue.messages if "That failed" in (m["content"] or "")]
            assert "SyntaxError" in (corrected["content"] or "")
    assert 0.1 < stumbled / len(PROBLEMS) < 0.4


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.task_id)
def test_every_bundled_task_is_solved(
    client: openai.OpenAI, api: Api, task: Task, tmp_path: Path
) -> None:
    workshop = Workshop(tmp_path)
    for path, content in task.files.items():
        workshop.write(path, content)
    dialogue = Dialogue(client, api, "scripted", task.prompt, WORKING)
    dialogue.play(workshop, turns=task.max_steps)
    assert dialogue.messages[-1]["content"] == "It is done."
    assert workshop.exits in ([0, 0], [0, 1, 0], [0, 2, 0])  # ls, perhaps an error, a check
    for path, content in task.test_files.items():
        workshop.write(path, content)
    said = workshop.run(list(task.test_command))
    assert workshop.exits[-1] == 0, said


def test_some_tasks_are_solved_after_an_error(client: openai.OpenAI, tmp_path: Path) -> None:
    stumbled = 0
    for task in TASKS:
        workshop = Workshop(tmp_path / task.task_id)
        workshop.folder.mkdir()
        Dialogue(client, "chat", "scripted", task.prompt, WORKING).play(workshop)
        stumbled += any(workshop.exits)
    assert 0 < stumbled < len(TASKS)


def test_both_apis_give_the_same_conversation(client: openai.OpenAI, tmp_path: Path) -> None:
    for problem in PROBLEMS[:8]:  # among them one that is solved after an error
        chat = solving(client, "chat", problem=problem)
        responses = solving(client, "responses", problem=problem)
        for dialogue in (chat, responses):
            dialogue.play(Workshop(tmp_path))
        assert chat.messages == responses.messages
        assert chat.usage == responses.usage
        assert chat.reasons == responses.reasons
        ids = [m["tool_call_id"] for m in chat.messages if m["role"] == "tool"]
        assert ids == [f"call_{number}" for number in range(1, len(ids) + 1)]


def test_after_the_submission_it_is_done(client: openai.OpenAI, api: Api, tmp_path: Path) -> None:
    dialogue = solving(client, api)
    dialogue.play(Workshop(tmp_path))
    assert dialogue.turn() == {"role": "assistant", "content": "I have submitted it."}


def test_it_says_plainly_what_it_cannot_solve(client: openai.OpenAI, api: Api) -> None:
    message = Dialogue(client, api, "scripted", "Prove the Riemann hypothesis.", SOLVING).turn()
    assert "tool_calls" not in message
    assert "I am a script and no model" in (message["content"] or "")
    assert "--cwsandbox-model" in (message["content"] or "")


def test_it_says_which_tools_it_misses(client: openai.OpenAI, api: Api) -> None:
    message = Dialogue(client, api, "scripted", PROBLEMS[0].prompt, ("execute_code",)).turn()
    assert "needs tools that are not here: ['submit_solution']" in (message["content"] or "")


class TestScripts:
    def test_never_submits(self, client: openai.OpenAI, api: Api, tmp_path: Path) -> None:
        workshop = Workshop(tmp_path)
        dialogue = solving(client, api, "scripted-never-submits")
        dialogue.play(workshop, turns=7)
        assert workshop.exits == [0] * 7
        assert not workshop.submitted
        assert "attempt 7" in (dialogue.messages[-1]["content"] or "")

    def test_loops(self, client: openai.OpenAI, api: Api, tmp_path: Path) -> None:
        dialogue = solving(client, api, "scripted-loops")
        dialogue.play(Workshop(tmp_path), turns=4)
        functions = [
            call["function"]
            for message in dialogue.messages
            if message["role"] == "assistant"
            for call in message["tool_calls"]
        ]
        assert functions == [functions[0]] * 4

    def test_uses_the_shell_where_there_is_nothing_else(
        self, client: openai.OpenAI, api: Api, tmp_path: Path
    ) -> None:
        dialogue = Dialogue(client, api, "scripted-loops", TASKS[0].prompt, WORKING)
        dialogue.play(Workshop(tmp_path), turns=1)
        assert dialogue.messages[-1]["content"] == "exit code 0\nagain\n"

    def test_no_tool(self, client: openai.OpenAI, api: Api) -> None:
        dialogue = solving(client, api, "scripted-no-tool")
        assert list(dialogue.turn()) == ["role", "content"]
        assert dialogue.reasons == ["stop"]

    def test_says_nothing(self, client: openai.OpenAI, api: Api) -> None:
        message = solving(client, api, "scripted-says-nothing").turn()
        assert message == {"role": "assistant", "content": None}

    def test_parallel(self, client: openai.OpenAI, api: Api, tmp_path: Path) -> None:
        workshop = Workshop(tmp_path)
        dialogue = solving(client, api, "scripted-parallel")
        dialogue.play(workshop)
        assert len(dialogue.reasons) == 1
        assert workshop.exits == [0, 0]
        assert workshop.submitted == [PROBLEMS[0].reference_solution]

    def test_same_ids(self, client: openai.OpenAI, api: Api, tmp_path: Path) -> None:
        workshop = Workshop(tmp_path)
        dialogue = solving(client, api, "scripted-same-ids")
        calls = dialogue.calls()
        assert [call["id"] for call in calls] == ["call_1", "call_1"]
        for call in calls:
            dialogue.observe(call, "ok")
        dialogue.play(workshop)
        assert workshop.submitted == [PROBLEMS[0].reference_solution]

    def test_bad_json(self, client: openai.OpenAI, api: Api, tmp_path: Path) -> None:
        dialogue = solving(client, api, "scripted-bad-json")
        seen = []
        for _ in range(3):
            [call] = dialogue.calls()
            seen.append((call["function"]["name"], call["function"]["arguments"]))
            dialogue.observe(call, "Error: you made a mistake")
        assert seen == [
            ("execute_code", '{"code": "print(1)'),
            ("run_program", '{"program": "print(1)"}'),
            ("execute_code", "{}"),
        ]
        workshop = Workshop(tmp_path)
        dialogue.play(workshop)
        assert workshop.submitted == [PROBLEMS[0].reference_solution]

    def test_cut_off(self, client: openai.OpenAI, api: Api, tmp_path: Path) -> None:
        dialogue = solving(client, api, "scripted-cut-off")
        [call] = dialogue.calls()
        assert dialogue.reasons == ["length"]
        with pytest.raises(json.JSONDecodeError):
            arguments(call)
        dialogue.observe(call, "Error: this is no JSON")
        workshop = Workshop(tmp_path)
        dialogue.play(workshop)
        assert workshop.submitted == [PROBLEMS[0].reference_solution]

    def test_wrong(self, client: openai.OpenAI, api: Api, tmp_path: Path) -> None:
        workshop = Workshop(tmp_path)
        solving(client, api, "scripted-wrong").play(workshop)
        [code] = workshop.submitted
        workshop.run([sys.executable, "-c", f"{code}\n{PROBLEMS[0].test_list[0]}"])
        assert workshop.exits == [1]

    def test_forgets(self, client: openai.OpenAI, api: Api, tmp_path: Path) -> None:
        workshop = Workshop(tmp_path)
        dialogue = solving(client, api, "scripted-forgets")
        dialogue.play(workshop)
        assert workshop.exits == [0]
        assert not workshop.submitted
        assert dialogue.messages[-1]["content"] == "This is how it is done."

    def test_refuses(self, client: openai.OpenAI, api: Api) -> None:
        message = solving(client, api, "scripted-refuses").turn()
        assert message == {
            "role": "assistant",
            "content": None,
            "refusal": "I cannot help with that.",
        }

    def test_outgrows(self, client: openai.OpenAI, api: Api, tmp_path: Path) -> None:
        with pytest.raises(openai.BadRequestError) as failed:
            solving(client, api, "scripted-outgrows").play(Workshop(tmp_path))
        assert failed.value.code == "context_length_exceeded"

    def test_fails(self, client: openai.OpenAI, api: Api, tmp_path: Path) -> None:
        with pytest.raises(openai.InternalServerError):
            solving(client, api, "scripted-fails").play(Workshop(tmp_path))

    def test_slow(self, client: openai.OpenAI, api: Api) -> None:
        started = time.monotonic()
        solving(client, api, "scripted-slow").turn()
        assert time.monotonic() - started >= 1

    def test_rate_limited(self, client: openai.OpenAI, api: Api) -> None:
        problem = PROBLEMS[1 if api == "chat" else 2]  # a conversation of its own
        dialogue = solving(client, api, "scripted-rate-limited", problem)
        for _ in range(2):
            with pytest.raises(openai.RateLimitError) as failed:
                dialogue.turn()
            assert float(failed.value.response.headers["Retry-After"]) < 1
        assert dialogue.calls()

    def test_rate_limited_is_what_the_client_retries(
        self, endpoint: scripted.Endpoint, api: Api
    ) -> None:
        problem = PROBLEMS[3 if api == "chat" else 4]
        with client_of(endpoint, max_retries=2) as patient:
            assert solving(patient, api, "scripted-rate-limited", problem).calls()


class TestThinking:
    def test_chat_shows_it_beside_the_message(self, client: openai.OpenAI) -> None:
        answer = client.chat.completions.create(
            model="scripted-thinks", messages=[{"role": "user", "content": "Hello"}]
        )
        extra = answer.choices[0].message.model_extra
        assert extra is not None
        assert extra["reasoning_content"].startswith("0 calls are answered")

    def test_responses_have_an_item_for_it_that_may_be_passed_back(
        self, client: openai.OpenAI
    ) -> None:
        answer = client.responses.create(model="scripted-thinks", input="Hello")
        assert [item.type for item in answer.output] == ["reasoning", "message"]
        back = [{"role": "user", "content": "Hello"}, *(i.to_dict() for i in answer.output)]
        back.append({"role": "user", "content": "Go on"})
        again = client.responses.create(model="scripted-thinks", input=back)  # type: ignore[arg-type]  # as it came
        assert again.status == "completed"


class TestDetails:
    def test_logprobs_cover_all_that_was_written(self, client: openai.OpenAI) -> None:
        answer = client.chat.completions.create(
            model="scripted-no-tool", messages=[{"role": "user", "content": "Hi"}], logprobs=True
        )
        [choice] = answer.choices
        assert choice.logprobs is not None
        tokens = choice.logprobs.content or []
        assert "".join(token.token for token in tokens) == choice.message.content
        assert answer.usage is not None
        assert len(tokens) == answer.usage.completion_tokens

    def test_responses_have_logprobs_on_request(self, client: openai.OpenAI) -> None:
        answer = client.responses.create(
            model="scripted-no-tool", input="Hi", include=["message.output_text.logprobs"]
        )
        [message] = answer.output
        assert message.type == "message"
        [part] = message.content
        assert part.type == "output_text"
        assert "".join(token.token for token in part.logprobs or []) == answer.output_text

    def test_token_ids_come_on_request(self, client: openai.OpenAI) -> None:
        answer = client.chat.completions.create(
            model="scripted-no-tool",
            messages=[{"role": "user", "content": "Hi there"}],
            extra_body={"return_token_ids": True},
        ).to_dict()
        assert len(cast("list[int]", answer["prompt_token_ids"])) == 2
        [choice] = cast("list[dict[str, list[int]]]", answer["choices"])
        usage = cast("dict[str, int]", answer["usage"])
        assert len(choice["token_ids"]) == usage["completion_tokens"]


class TestRefusals:
    def test_a_wrong_token(self, endpoint: scripted.Endpoint, api: Api) -> None:
        stranger = scripted.Endpoint(endpoint.address, "guessed")
        with client_of(stranger) as client, pytest.raises(openai.AuthenticationError) as failed:
            solving(client, api).turn()
        assert failed.value.code == "invalid_api_key"

    def test_an_unknown_model(self, client: openai.OpenAI, api: Api) -> None:
        with pytest.raises(openai.NotFoundError) as failed:
            solving(client, api, "gpt-17").turn()
        assert failed.value.code == "model_not_found"

    def test_calls_that_were_not_answered(self, client: openai.OpenAI, api: Api) -> None:
        dialogue = solving(client, api)
        dialogue.calls()
        with pytest.raises(openai.BadRequestError, match="No response to: call_1"):
            dialogue.turn()

    def test_an_answer_to_nothing(self, client: openai.OpenAI, api: Api) -> None:
        dialogue = solving(client, api)
        dialogue.messages.append({"role": "tool", "tool_call_id": "call_9", "content": ""})
        with pytest.raises(openai.BadRequestError, match="no open tool call 'call_9'"):
            dialogue.turn()

    def test_a_request_of_another_shape(self, client: openai.OpenAI) -> None:
        with pytest.raises(openai.BadRequestError, match=r"messages\.0\.role"):
            client.post(
                "/chat/completions",
                body={"model": "scripted", "messages": [{"role": "oracle"}]},
                cast_to=ChatCompletion,
            )

    def test_a_stream(self, client: openai.OpenAI) -> None:
        with pytest.raises(openai.BadRequestError, match="do not stream"):
            client.responses.create(model="scripted", input="Hello", stream=True)


def test_the_models_are_listed(client: openai.OpenAI) -> None:
    names = [model.id for model in client.models.list()]
    assert "scripted" in names
    assert all(scripted.is_scripted(name) for name in names)
    assert not scripted.is_scripted("gpt-17")


def test_latency_comes_before_each_answer(tmp_path: Path) -> None:
    endpoint = scripted.join_or_start(tmp_path, lifeline=os.getpid(), latency=0.5)
    try:
        with client_of(endpoint) as client:
            started = time.monotonic()
            solving(client, "chat", "scripted-no-tool").turn()
            assert time.monotonic() - started >= 0.5
    finally:
        scripted.stop(tmp_path)


class TestLife:
    def test_there_is_one_per_run_and_nothing_is_left(self, tmp_path: Path) -> None:
        folder = tmp_path / "runs" / "one"
        first = scripted.join_or_start(folder, lifeline=os.getpid())
        assert scripted.join_or_start(folder, lifeline=os.getpid()) == first
        rendezvous = folder / "scripted.json"
        assert rendezvous.stat().st_mode & 0o777 == 0o600
        pid = json.loads(rendezvous.read_text())["pid"]
        assert os.getsid(pid) == pid  # the terminal's Ctrl-C is not its own
        scripted.stop(folder)
        assert gone(pid)
        assert list(tmp_path.iterdir()) == [tmp_path / "runs"]
        assert not folder.exists()

    def test_stopping_what_never_started_is_nothing(self, tmp_path: Path) -> None:
        scripted.stop(tmp_path / "none")
        scripted.stop(tmp_path)
        assert not tmp_path.exists() or not list(tmp_path.iterdir())

    def test_it_ends_with_the_process_that_it_hangs_on(self, tmp_path: Path) -> None:
        folder = tmp_path / "run"
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as holder:
            endpoint = scripted.join_or_start(folder, lifeline=holder.pid, latency=3600)
            pid = json.loads((folder / "scripted.json").read_text())["pid"]
            with client_of(endpoint, timeout=0.2) as client, pytest.raises(openai.APITimeoutError):
                solving(client, "chat").turn()  # an answer on its way holds nothing up
            holder.send_signal(signal.SIGKILL)
            holder.wait()
            assert gone(pid)
        assert not folder.exists()

    def test_one_that_cannot_start_says_why(self, tmp_path: Path) -> None:
        with pytest.raises(BackendError, match="invalid float value: 'soon'") as failed:
            scripted.SERVER.join_or_start(
                tmp_path / "run", lifeline=os.getpid(), arguments=["--latency", "soon"]
            )
        assert "the scripted model ended with exit code 2" in str(failed.value)
        assert "--cwsandbox-model" in str(failed.value)

    def test_importing_the_package_loads_no_server(self) -> None:
        code = (
            "import sys; import pytest_cwsandbox.rollouts.scripted; "
            "print([name for name in ('aiohttp', 'pydantic', 'openai') if name in sys.modules])"
        )
        printed = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        assert printed.strip() == "[]"


def gone(pid: int) -> bool:
    """Whether the process ends in time."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], GONE_SECONDS)[0])
    finally:
        os.close(process)
