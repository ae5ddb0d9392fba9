"""Tools: what a model may call, what it is told of bad calls, and the ones that come along."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import TYPE_CHECKING, Annotated, Literal

import pytest
import pytest_asyncio
from pydantic import BaseModel, Field

from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.connections import grading_session
from pytest_cwsandbox.errors import ConfigurationError
from pytest_cwsandbox.pool import SandboxPool
from pytest_cwsandbox.rollouts.observations import CHARACTERS, observation
from pytest_cwsandbox.rollouts.sandbox_tools import FOLDER, named_tools, sandbox_tools
from pytest_cwsandbox.rollouts.tools import Submission, Tool, ToolError
from pytest_cwsandbox.rollouts.workplace import Workplace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from cwsandbox import Sandbox, Session

    Use = Callable[..., Awaitable[str]]

TOOLS = sandbox_tools(timeout_seconds=30)


def unused() -> Workplace:
    """For tools that need no sandbox."""

    async def take() -> Sandbox:
        raise AssertionError("no sandbox was needed")

    return Workplace(take, lambda _: None)


async def call(tool: Tool, arguments: str) -> str:
    answer = await tool.call(arguments, unused())
    assert isinstance(answer, str)
    return answer


class Point(BaseModel):
    x: int
    label: str = ""


def search(
    query: str,
    kinds: list[Literal["file", "folder"]],
    depth: int = 3,
    ratio: Annotated[float | None, Field(description="A share.")] = None,
    *,
    exact: bool,
) -> str:
    """Search for something.

    Args:
        query: What to look for,
            in any case.
        kinds: What it may be.
        exact (bool): Whether it must match.
    """
    return repr((query, kinds, depth, ratio, exact))


class TestDefinition:
    def test_a_typed_function_becomes_a_strict_schema(self) -> None:
        assert Tool.of(search).definition == {
            "type": "function",
            "function": {
                "name": "search",
                "description": "Search for something.",
                "strict": True,
                "parameters": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["query", "kinds", "depth", "ratio", "exact"],
                    "properties": {
                        "query": {
                            "type": "string",
                            "description": "What to look for, in any case.",
                        },
                        "kinds": {
                            "type": "array",
                            "items": {"type": "string", "enum": ["file", "folder"]},
                            "description": "What it may be.",
                        },
                        "depth": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                        "ratio": {
                            "anyOf": [{"type": "number"}, {"type": "null"}],
                            "description": "A share.",
                        },
                        "exact": {"type": "boolean", "description": "Whether it must match."},
                    },
                },
            },
        }

    def test_openai_finds_nothing_to_make_stricter(self) -> None:
        def draw(points: list[Point], title: str | None) -> str:
            """Draw points."""
            return f"{points} {title}"

        strict = pytest.importorskip("openai.lib._pydantic")._ensure_strict_json_schema
        for tool in (Tool.of(search), Tool.of(draw), *TOOLS.values()):
            schema = tool.definition["function"]["parameters"]
            copy = json.loads(json.dumps(schema))
            assert strict(copy, path=(), root=copy) == schema

    def test_name_and_description_can_be_given(self) -> None:
        tool = Tool.of(lambda: "yes", name="agree", description="Say yes.")
        assert tool.definition["function"]["name"] == tool.name == "agree"
        assert tool.definition["function"]["description"] == "Say yes."

    def test_the_sandbox_is_not_the_models_to_pass(self) -> None:
        async def look(path: str, sandbox: Sandbox) -> str:
            """Look."""
            return f"{path} {sandbox}"

        tool = Tool.of(look)
        assert tool.needs_sandbox
        assert tool.definition["function"]["parameters"]["required"] == ["path"]
        assert not Tool.of(search).needs_sandbox

    def test_a_function_that_cannot_be_a_tool_is_named_with_the_reason(self) -> None:
        def untyped(x, y: int) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001 - what is tested
            """Do."""

        def variadic(*words: str) -> None:
            """Do."""

        def keywords(**words: str) -> None:
            """Do."""

        def mapping(words: dict[str, int]) -> None:
            """Do."""

        def anything(words: list[object]) -> None:
            """Do."""

        def unknown(words: Nowhere) -> None:  # type: ignore[name-defined]  # noqa: F821 - what is tested
            """Do."""

        def foreign(words: threading.Lock) -> None:
            """Do."""

        def undescribed(words: str) -> str:
            return words

        for function, reason in (
            (untyped, "'x' needs a type"),
            (variadic, "'words' cannot be passed by name"),
            (keywords, "'words' cannot be passed by name"),
            (mapping, "'words' may have any keys"),
            (anything, "'words' may be anything"),
            (unknown, "'Nowhere' is not defined"),
            (foreign, ""),
            (undescribed, "needs a docstring"),
        ):
            with pytest.raises(ConfigurationError) as caught:
                Tool.of(function)
            assert str(caught.value).startswith(f"{function.__name__} cannot be a tool: ")
            assert reason in str(caught.value)
            assert "\n" not in str(caught.value)
        with pytest.raises(ConfigurationError, match="<lambda> cannot be a tool: give it a name"):
            Tool.of(lambda: "", description="Nothing.")


class TestArguments:
    async def test_what_the_model_passes_reaches_the_function(self) -> None:
        given = {"query": "é", "kinds": ["file"], "depth": 1, "ratio": 2, "exact": True}
        assert await call(Tool.of(search), json.dumps(given)) == "('é', ['file'], 1, 2.0, True)"

    async def test_null_and_absence_stand_for_the_default(self) -> None:
        given: dict[str, object] = {"query": "", "kinds": [], "depth": None, "exact": False}
        assert await call(Tool.of(search), json.dumps(given)) == "('', [], 3, None, False)"

    async def test_models_and_names_that_pydantic_uses_itself_are_passed(self) -> None:
        def draw(copy: Point, json: list[Point], model_config: str) -> str:
            """Draw points."""
            return f"{copy.x} {json[0].label} {model_config}"

        given = {"copy": {"x": 1}, "json": [{"x": 2, "label": "b"}], "model_config": "c"}
        assert await call(Tool.of(draw), json.dumps(given)) == "1 b c"

    @pytest.mark.parametrize(
        ("arguments", "complaint"),
        [
            ("{", "are not valid JSON: Expecting"),
            ("run it please", "are not valid JSON"),
            ('{"command": "ls"} {"command": "ls"}', "are not valid JSON"),
            ("[" * 100_000, "are not valid JSON"),
            ("9" * 10_000, "are not valid JSON"),
            ("[]", "must be a JSON object, not an array"),
            ("null", "must be a JSON object, not null"),
            ('"ls"', "must be a JSON object, not a string"),
            ("", "are wrong: command: Field required"),
            ("{}", "are wrong: command: Field required"),
            ('{"cmd": "ls"}', "cmd: Extra inputs are not permitted"),
            ('{"command": 5}', "command: Input should be a valid string"),
            ('{"command": ["ls"]}', "command: Input should be a valid string"),
            ('{"command": null}', "command: Input should be a valid string"),
        ],
    )
    async def test_bad_ones_are_told_with_what_is_expected(
        self, arguments: str, complaint: str
    ) -> None:
        told = await call(TOOLS["bash"], arguments)
        assert told.startswith("Error: the arguments of bash ")
        assert complaint in told
        assert '"command": {"' in told

    async def test_numbers_and_words_are_not_taken_for_each_other(self) -> None:
        given = {"query": "", "kinds": ["disk"], "depth": "1", "ratio": None, "exact": 1}
        told = await call(Tool.of(search), json.dumps(given))
        assert "kinds.0: Input should be 'file' or 'folder'" in told
        assert "depth: Input should be a valid integer" in told
        assert "exact: Input should be a valid boolean" in told

    async def test_half_a_character_is_replaced(self) -> None:
        def say(text: str) -> str:
            """Say."""
            return text

        assert await call(Tool.of(say), '{"text": "a\\ud800b"}') == "a?b"
        assert await call(Tool.of(say), '{"text": "a\ud800b"}') == "a?b"

    async def test_too_long_ones_are_told_and_not_read(self) -> None:
        told = await call(TOOLS["submit_solution"], json.dumps({"code": "x" * (16 << 20)}))
        assert told.startswith("Error: the arguments of submit_solution have 16777228 characters; ")
        assert "at most 16777216 are read" in told


class TestCalling:
    async def test_a_function_that_blocks_does_not_block_the_loop(self) -> None:
        released = threading.Event()

        def wait() -> str:
            """Wait."""
            return str(released.wait(60))

        calling = asyncio.ensure_future(call(Tool.of(wait), "{}"))
        await asyncio.sleep(0)
        released.set()
        assert await calling == "True"

    async def test_many_functions_that_block_run_at_once(self) -> None:
        together = threading.Barrier(48)

        def meet() -> str:
            """Wait for the others."""
            together.wait(60)
            return "met"

        tool = Tool.of(meet)
        assert await asyncio.gather(*(call(tool, "{}") for _ in range(48))) == ["met"] * 48

    async def test_a_tool_error_is_told(self) -> None:
        def fail() -> str:
            """Fail."""
            raise ToolError("no such page")

        assert await call(Tool.of(fail), "{}") == "Error: no such page"

    @pytest.mark.parametrize("error", [ZeroDivisionError, TimeoutError, KeyError])
    async def test_a_mistake_of_the_tool_is_not_told_to_the_model(
        self, error: type[Exception]
    ) -> None:
        def fail() -> str:
            """Fail."""
            raise error

        async def fail_later() -> str:
            """Fail."""
            raise error

        for function in (fail, fail_later):
            with pytest.raises(error):
                await call(Tool.of(function), "{}")

    @pytest.mark.parametrize(
        ("result", "told"),
        [(b"\xffa", "�a"), (None, "null"), ([1, "é"], '[1, "é"]'), ("\ud800", "?"), ("", "")],
    )
    async def test_any_result_becomes_text(self, result: object, told: str) -> None:
        def give() -> object:
            """Give."""
            return result

        assert await call(Tool.of(give), "{}") == told

    async def test_a_submission_is_handed_on_whole(self) -> None:
        answer = "x" * 20_000
        submitted = await TOOLS["submit_solution"].call(json.dumps({"code": answer}), unused())
        assert submitted == Submission(answer)


class TestObservation:
    def test_a_long_one_loses_its_middle(self) -> None:
        text = "a" * 10_000 + "b" * 10_000
        told = observation(text)
        assert len(told) == CHARACTERS
        head, marker, tail = told.split("\n")
        assert set(head) == {"a"}
        assert set(tail) == {"b"}
        assert abs(len(head) - len(tail)) <= 1
        left_out = len(text) - len(head) - len(tail)
        assert marker == f"[... {left_out} characters left out ...]"

    @pytest.mark.parametrize("more", [1, 2, 10, 100, 1810, 10_000_000])
    def test_none_is_longer_than_the_limit(self, more: int) -> None:
        assert len(observation("x" * (CHARACTERS + more))) <= CHARACTERS
        assert observation("x" * CHARACTERS) == "x" * CHARACTERS


def test_tools_are_found_by_name() -> None:
    assert [tool.name for tool in named_tools(("bash", "execute_code"))] == ["bash", "execute_code"]
    with pytest.raises(ConfigurationError, match="there is no tool 'bsh'; there are execute_code"):
        named_tools(("bsh",))


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with grading_session(BackendOptions("local")) as session:
        yield session


@pytest_asyncio.fixture
async def workplace(session: Session) -> AsyncIterator[Workplace]:
    pool = SandboxPool(session)
    workplace = Workplace(lambda: pool.take({"working_dir": FOLDER}), pool.give_back)
    yield workplace
    await workplace.close()


@pytest.fixture
def use(workplace: Workplace) -> Use:
    """Calls a tool by name, as a model would."""

    async def use(name: str, seconds: float = 30, /, **arguments: str) -> str:
        tool = sandbox_tools(timeout_seconds=seconds)[name]
        answer = await tool.call(json.dumps(arguments), workplace)
        assert isinstance(answer, str)
        return answer

    return use


class TestInTheSandbox:
    async def test_a_run_tells_exit_code_and_output(self, use: Use) -> None:
        assert await use("bash", command="echo hi") == "exit=0\nhi\n"
        assert await use("bash", command="echo no >&2; exit 3") == "exit=3\nno\n"
        assert await use("bash", command="true") == "exit=0\n"
        both = "exit=0\n--- stdout ---\nhi\n--- stderr ---\nno\n"
        assert await use("bash", command="echo hi; echo no >&2") == both
        assert await use("execute_code", code="print(6 * 7)") == "exit=0\n42\n"
        told = await use("execute_code", code="1 / 0")
        assert told.startswith("exit=1\nTraceback ")
        assert told.endswith("ZeroDivisionError: division by zero\n")
        assert await use("execute_code", code="input()") != ""

    async def test_files_and_processes_remain_from_call_to_call(self, use: Use) -> None:
        assert await use("write_file", path="a/b.py", content="print('é')\n") == (
            "File written successfully"
        )
        assert await use("bash", command="pwd; python a/b.py") == f"exit=0\n{FOLDER}\né\n"
        assert await use("execute_code", code="import a.b") == "exit=0\né\n"
        assert await use("read_file", path=f"{FOLDER}/a/b.py") == "print('é')\n"
        await use("bash", command="sleep 600 & echo $! >pid")
        assert await use("bash", command="kill -0 $(cat pid)") == "exit=0\n"

    async def test_what_is_missing_is_named(self, use: Use) -> None:
        assert await use("read_file", path="gone.txt") == (
            f"Error: cannot open '{FOLDER}/gone.txt' for reading: No such file or directory"
        )
        assert "Is a directory" in await use("read_file", path="/tmp")
        assert await use("write_file", path="/tmp", content="") == "Error: /tmp: is a directory"
        denied = await use("write_file", path="/usr/x", content="")
        assert denied == "Error: /usr/x: permission denied"
        assert await use("read_file", path="") == "Error: '' is no path"
        assert (await use("read_file", path="a\0b")).startswith("Error: ")
        told = await use("bash", command="nothing-such")
        assert told.startswith("exit=127\n")
        assert "nothing-such: command not found" in told

    @pytest.mark.parametrize(
        ("path", "complaint"),
        [
            ("a" * 8200, "the path has 8211 bytes; at most 1024 can be used"),
            ("中" * 2000, "the path has 6011 bytes; at most 1024 can be used"),
            ("../" * 3000 + "x", "the path has 9012 bytes; at most 1024 can be used"),
            ("a/" + "中" * 86, "a name in the path has 258 bytes; no more than 255 exist"),
            ("\0" * 5000, f"{chr(0) * 100!r} is no path"),
        ],
    )
    async def test_a_path_that_is_too_long_is_told(
        self, use: Use, path: str, complaint: str
    ) -> None:
        assert await use("write_file", path=path, content="") == f"Error: {complaint}"
        assert await use("read_file", path=path) == f"Error: {complaint}"

    @pytest.mark.parametrize("name", ["a", "\1", "%", "中" * 50, "😀" * 50])
    async def test_the_longest_path_that_fails_is_told(self, use: Use, name: str) -> None:
        path = "/proc"
        while len(f"{path}/{name}".encode()) <= 1024:
            path += f"/{name}"
        told = await use("write_file", path=path, content="")
        assert told.startswith(f"Error: {path}: ")

    async def test_a_users_tool_may_fail_at_any_path(self, workplace: Workplace) -> None:
        async def write(path: str, sandbox: Sandbox) -> str:
            """Write."""
            await sandbox.write_file(path, b"")
            return "written"

        for path in ("/" + "a" * 20_000, "/" + "中" * 20_000):
            told = await Tool.of(write).call(json.dumps({"path": path}), workplace)
            assert str(told).startswith("Error: ")

    async def test_a_command_without_end_is_killed_and_told(self, use: Use) -> None:
        command = "echo $$ >pid; echo begun; sleep 600; echo never"
        assert await use("bash", 2, command=command) == (
            "Error: command timed out after 2 seconds; until then it wrote\nbegun\n"
        )
        gone = "for i in $(seq 300); do kill -0 $(cat pid) || exit 0; sleep 0.1; done; exit 1"
        assert (await use("bash", 60, command=gone)).startswith("exit=0\n")
        told = await use("execute_code", 2, code="while True: pass")
        assert told == "Error: command timed out after 2 seconds"

    @pytest.mark.parametrize("command", ["yes", "yes >&2", "yes & yes >&2"])
    async def test_a_flood_is_stopped_and_told(self, use: Use, command: str) -> None:
        started = time.monotonic()
        told = await use("bash", 300, command=command)
        assert time.monotonic() - started < 200
        assert told.startswith("Error: the command was stopped: it wrote more than 1 MiB\n")
        assert len(told) == CHARACTERS
        assert (await use("read_file", path="/dev/zero")).count("\0") > 4000
        assert await use("bash", command="echo on") == "exit=0\non\n"

    async def test_code_of_any_size_and_content_runs(self, use: Use) -> None:
        filler = "x" * 200_000
        code = f"import sys\nx = '{filler}'\nprint(len(x), repr(sys.path[0]), len(sys.argv))"
        assert await use("execute_code", code=code) == "exit=0\n200000 '' 1\n"
        assert await use("bash", command=f": {filler}\npwd") == f"exit=0\n{FOLDER}\n"
        told = await use("execute_code", code="print(1)\0")
        assert "null bytes" in told or told == "exit=0\n1\n"  # Python refuses it since 3.11.4
        told = await use("bash", command="echo a\0b")
        assert told.startswith("Error: a command cannot hold a NUL character")
        assert await use("execute_code", code="print('\ud800')") == "exit=0\n?\n"

    async def test_commands_run_in_the_working_folder_where_there_is_one(
        self, session: Session
    ) -> None:
        sandbox = session.sandbox()  # would run them elsewhere
        workplace = Workplace.over(sandbox)
        there = json.dumps({"command": "pwd"})
        assert await TOOLS["bash"].call(there, workplace) == f"exit=0\n{FOLDER}\n"
        elsewhere = sandbox_tools(folder="/nowhere")["bash"]
        assert await elsewhere.call(there, workplace) == "exit=0\n/\n"
        await sandbox.stop()

    async def test_undecodable_output_is_replaced(self, use: Use) -> None:
        assert await use("bash", command=r"printf 'a\377b'") == "exit=0\na�b"

    async def test_a_sync_tool_of_a_user_gets_the_sandbox(self, workplace: Workplace) -> None:
        def count(word: str, sandbox: Sandbox) -> str:
            """Count."""
            return sandbox.exec(["echo", word]).result().stdout

        assert await Tool.of(count).call('{"word": "one"}', workplace) == "one\n"

    async def test_a_tool_that_uses_the_sdk_alone_is_explained_too(
        self, workplace: Workplace
    ) -> None:
        async def slow(sandbox: Sandbox) -> str:
            """Sleep."""
            return (await sandbox.exec(["sleep", "600"], timeout_seconds=1)).stdout

        def absent(sandbox: Sandbox) -> bytes:
            """Read."""
            return sandbox.read_file("/tmp/absent").result()

        assert await Tool.of(slow).call("{}", workplace) == "Error: the command timed out"
        told = await Tool.of(absent).call("{}", workplace)
        assert told == "Error: /tmp/absent: no such file"
