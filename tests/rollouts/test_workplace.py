"""Whose fault it is: what the model is told, what is tried again, and what earns no reward."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest
from cwsandbox import Sandbox, SandboxUnavailableError

from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.connections import grading_session
from pytest_cwsandbox.errors import ConfigurationError, InfrastructureError
from pytest_cwsandbox.local.faults import NUMBERED, Kind
from pytest_cwsandbox.pool import SandboxPool
from pytest_cwsandbox.rollouts import blame, deadlines
from pytest_cwsandbox.rollouts.episode import run_episode
from pytest_cwsandbox.rollouts.limits import EpisodeLimits
from pytest_cwsandbox.rollouts.policy import as_policy
from pytest_cwsandbox.rollouts.sandbox_tools import FOLDER, named_tools, sandbox_tools
from pytest_cwsandbox.rollouts.task_reward import grade_task, place_files
from pytest_cwsandbox.rollouts.tasks import Task
from pytest_cwsandbox.rollouts.tools import Tool
from pytest_cwsandbox.rollouts.trajectory import StopReason
from pytest_cwsandbox.rollouts.workplace import ToolError, Workplace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

    from cwsandbox import Session

    from pytest_cwsandbox.rollouts.episode import Episode
    from pytest_cwsandbox.rollouts.messages import (
        AssistantMessage,
        FunctionCall,
        Message,
        ToolCall,
        ToolDefinition,
    )
    from pytest_cwsandbox.rollouts.policy import Policy

REPLACED = "Error: the sandbox was terminated; a new one is in its place, earlier files are gone"
TERMINATED = "Error: the sandbox was terminated"
STARTS = (Kind.CREATE_UNAVAILABLE, Kind.CREATE_EXHAUSTED, Kind.START_FAILED)
CALLS = tuple(kind for kind in Kind if kind not in {*STARTS, *NUMBERED})
# The main process is the first that process 1 started; a supervisor is a child of process 1, too.
KILL_MAIN = "kill -9 2; sleep 600"
KILL_SUPERVISOR = "kill -9 $PPID; sleep 600"
KILL_ALL = "kill -9 -1; sleep 600"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service without room for a while has failed."""
    monkeypatch.setattr("pytest_cwsandbox.pool.REFUSED_SECONDS", 0.5)


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with grading_session(BackendOptions("local")) as session:
        yield session


def place(
    session: Session,
    prepare: Callable[[Sandbox], Awaitable[None]] | None = None,
    *,
    retries: int = 2,
) -> Workplace:
    pool = SandboxPool(session, retries=retries)
    workplace = Workplace(
        lambda: pool.take({"working_dir": FOLDER}, tally=workplace),
        pool.give_back,
        prepare=prepare,
        retries=retries,
    )
    return workplace


@contextlib.asynccontextmanager
async def working(workplace: Workplace) -> AsyncIterator[Workplace]:
    try:
        yield workplace
    finally:
        await workplace.close()


async def call(workplace: Workplace, name: str, seconds: float = 30, /, **arguments: str) -> str:
    tool = sandbox_tools(timeout_seconds=seconds)[name]
    told = await tool.call(json.dumps(arguments), workplace)
    assert isinstance(told, str)
    return told


async def bash(workplace: Workplace, command: str, seconds: float = 30) -> str:
    return await call(workplace, "bash", seconds, command=command)


async def none_is_left(session: Session) -> bool:
    deadline = time.monotonic() + 60
    while await session.list():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.05)
    return True


class TestLife:
    async def test_a_sandbox_started_ahead_is_the_one_that_is_used(self, session: Session) -> None:
        async with working(place(session)) as workplace:
            workplace.start_ahead()
            workplace.start_ahead()
            await workplace.ready()
            assert await bash(workplace, "echo up") == "exit=0\nup\n"
            assert len(workplace.sandbox_ids) == 1
            assert workplace.start_seconds > 0
        assert await none_is_left(session)

    async def test_close_ends_a_start_in_flight_and_may_be_repeated(self, session: Session) -> None:
        workplace = place(session)
        await workplace.close()
        workplace.start_ahead()
        await asyncio.sleep(0)
        await workplace.close()
        await workplace.close()
        assert await none_is_left(session)

    async def test_a_cancelled_call_leaves_nothing(self, session: Session) -> None:
        workplace = place(session)
        calling = asyncio.ensure_future(bash(workplace, "sleep 600", 600))
        await workplace.ready()
        await asyncio.sleep(0.1)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await workplace.close()
        assert await none_is_left(session)

    async def test_an_interrupted_close_still_removes_the_sandbox(self, session: Session) -> None:
        workplace = place(session)
        workplace.start_ahead()
        starting = workplace._starting
        assert starting is not None
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(workplace.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await asyncio.wait((starting,))  # the loop lives on, as that of a run does
        assert await none_is_left(session)

    async def test_a_sandbox_is_prepared_before_its_use(self, session: Session) -> None:
        async def prepare(sandbox: Sandbox) -> None:
            await sandbox.write_file(f"{FOLDER}/task.txt", b"do it")

        async with working(place(session, prepare)) as workplace:
            assert await bash(workplace, "cat task.txt") == "exit=0\ndo it"
            assert await bash(workplace, KILL_MAIN) == REPLACED
            assert await bash(workplace, "cat task.txt") == "exit=0\ndo it"
        assert await none_is_left(session)

    async def test_a_file_that_cannot_be_placed_is_the_tasks_mistake(
        self, session: Session
    ) -> None:
        async def prepare(sandbox: Sandbox) -> None:
            await sandbox.write_file("/usr/task.txt", b"")

        async with working(place(session, prepare)) as workplace:
            with pytest.raises(ConfigurationError, match=r"/usr/task.txt: permission denied"):
                await workplace.ready()
        assert await none_is_left(session)

    async def test_a_mistake_in_an_action_passes_through(self, session: Session) -> None:
        async def fail(_: Sandbox) -> None:
            raise ZeroDivisionError

        async with working(place(session)) as workplace:
            with pytest.raises(ZeroDivisionError):
                await workplace.use(fail)
        assert await none_is_left(session)


class TestTheModelsOwnDoing:
    """None of this may end the episode without a reward."""

    @pytest.mark.parametrize("command", [KILL_MAIN, KILL_SUPERVISOR, KILL_ALL])
    async def test_a_sandbox_that_is_killed_is_replaced(
        self, session: Session, command: str
    ) -> None:
        async with working(place(session)) as workplace:
            await bash(workplace, "touch file")
            assert await bash(workplace, command) == REPLACED
            assert len(workplace.sandbox_ids) == 2
            assert (await bash(workplace, "ls -a file")).startswith("exit=2\n")
            assert await bash(workplace, command) == REPLACED
            assert await bash(workplace, "echo on") == "exit=0\non\n"
        assert await none_is_left(session)

    async def test_so_is_one_that_is_killed_at_once(self, session: Session) -> None:
        async with working(place(session)) as workplace:
            assert await bash(workplace, KILL_ALL) == REPLACED
            assert await bash(workplace, "echo on") == "exit=0\non\n"
        async with working(place(session, retries=0)) as workplace:
            assert await bash(workplace, KILL_ALL) == REPLACED
            assert await bash(workplace, "echo on") == "exit=0\non\n"

    @pytest.mark.parametrize("name", ["bash", "write_file", "read_file", "execute_code"])
    async def test_so_is_one_that_is_killed_between_two_calls(
        self, session: Session, name: str
    ) -> None:
        async with working(place(session)) as workplace:
            assert await bash(workplace, "(sleep 0.3; kill -9 2) >/dev/null 2>&1 &") == "exit=0\n"
            await asyncio.to_thread(until_over, await current(workplace))
            arguments = {
                "bash": {"command": "true"},
                "write_file": {"path": "a", "content": ""},
                "read_file": {"path": "a"},
                "execute_code": {"code": ""},
            }
            assert await call(workplace, name, **arguments[name]) == REPLACED

    async def test_a_program_that_takes_all_memory_is_told(self, session: Session) -> None:
        async with working(place(session)) as workplace:
            await bash(workplace, "true")
            code = "x = []\nwhile True: x.append(bytes(50_000_000))"
            told = await call(workplace, "execute_code", 120, code=code)
            assert told == REPLACED or told.startswith("exit=")

    async def test_processes_without_end_are_told(self, session: Session) -> None:
        async with working(place(session)) as workplace:
            bomb = ":(){ :|:& }; : >/dev/null 2>&1"
            assert (await bash(workplace, bomb, 60)).startswith(("exit=", "Error: "))
            for _ in range(3):
                assert (await bash(workplace, "echo on", 60)).startswith(("exit=", "Error: "))

    async def test_a_stopped_supervisor_is_told_as_a_timeout(self, session: Session) -> None:
        async with working(place(session)) as workplace:
            told = await bash(workplace, "kill -STOP -1; kill -STOP $PPID", 3)
            assert told == "Error: command timed out after 3 seconds"
            assert await bash(workplace, "echo on") == "exit=0\non\n"

    async def test_a_full_disk_is_told(self, session: Session) -> None:
        async with working(place(session)) as workplace:
            fill = "head -c 4G /dev/zero >/tmp/full; echo $?"
            assert (await bash(workplace, fill, 120)).startswith("exit=")
            told = await call(workplace, "write_file", path="/tmp/more", content="x" * 10_000)
            assert told == "Error: /tmp/more: cannot be read or written; perhaps the disk is full"
            told = await bash(workplace, f": {'x' * 200_000}")
            assert told.endswith("perhaps the disk is full")

    async def test_a_sandbox_that_no_longer_answers_is_replaced(
        self, session: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(blame, "PROBE", ("bash", "-c", "[ ! -e hung ] || sleep 600"))
        monkeypatch.setattr(blame, "PROBE_SECONDS", 3.0)
        async with working(place(session)) as workplace:
            await bash(workplace, "touch hung")
            assert await bash(workplace, "sleep 600", 1) == REPLACED
            assert await bash(workplace, "echo on") == "exit=0\non\n"


async def current(workplace: Workplace) -> Sandbox:
    async def itself(sandbox: Sandbox) -> Sandbox:
        return sandbox

    return await workplace.use(itself)


def until_over(sandbox: Sandbox) -> None:
    deadline = time.monotonic() + 60
    while sandbox.get_status().value == "running" and time.monotonic() < deadline:
        time.sleep(0.02)


@contextlib.contextmanager
def faulty(*faults: str) -> Iterator[Session]:
    with grading_session(BackendOptions("local"), faults=faults) as session:
        yield session


async def never(*_: object, **__: object) -> None:
    """Stands for a connection that neither comes about nor fails."""
    await asyncio.sleep(3600)


async def refuse(*_: object, **__: object) -> None:
    raise SandboxUnavailableError("no connection")


async def strike(workplace: Workplace, kind: Kind) -> str:
    if kind is Kind.FILE_UNAVAILABLE:
        return await call(workplace, "write_file", path="a", content="")
    return await bash(workplace, "echo hi")


class TestTheServicesDoing:
    """None of this may reach the model, and a reward of 0.0 with it."""

    @pytest.mark.parametrize("kind", [*STARTS, *CALLS])
    async def test_a_failure_that_stays_is_infrastructure(self, kind: Kind) -> None:
        with faulty(kind) as session:
            async with working(place(session, retries=1)) as workplace:
                with pytest.raises(InfrastructureError):
                    await strike(workplace, kind)
            assert await none_is_left(session)

    @pytest.mark.parametrize("kind", [*STARTS, *CALLS])
    async def test_without_state_a_fresh_sandbox_is_tried(self, kind: Kind) -> None:
        made_good = 0
        with faulty(f"{kind}@0.3") as session:
            for _ in range(8):
                async with working(place(session, retries=8)) as workplace:
                    assert await strike(workplace, kind) in {
                        "exit=0\nhi\n",
                        "File written successfully",
                    }
                    made_good += workplace.retries
            assert await none_is_left(session)
        # A service without room is waited for: nothing has failed.
        assert (made_good > 0) == (kind is not Kind.CREATE_EXHAUSTED)

    @pytest.mark.parametrize("kind", CALLS)
    async def test_with_state_it_is_infrastructure_and_nothing_is_repeated(
        self, kind: Kind
    ) -> None:
        lost = 0
        with faulty(f"{kind}@0.3") as session:
            for _ in range(8):
                async with working(place(session, retries=8)) as workplace:
                    told = await strike(workplace, kind)
                    used = len(workplace.sandbox_ids)
                    try:
                        for _ in range(4):
                            assert await strike(workplace, kind) == told
                    except InfrastructureError:
                        lost += 1
                    assert len(workplace.sandbox_ids) == used
            assert await none_is_left(session)
        assert lost > 0

    async def test_a_replacement_that_does_not_start_is_infrastructure(
        self, session: Session
    ) -> None:
        starts = 0
        pool = SandboxPool(session)

        async def take() -> Sandbox:
            nonlocal starts
            starts += 1
            if starts > 1:
                raise InfrastructureError("no sandbox started")
            return await pool.take()

        async with working(Workplace(take, pool.give_back)) as workplace:
            await bash(workplace, "true")
            with pytest.raises(InfrastructureError, match="no sandbox started"):
                await bash(workplace, KILL_MAIN)
        assert await none_is_left(session)

    async def test_a_service_that_runs_nothing_is_infrastructure(
        self, session: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with working(place(session)) as workplace:
            await bash(workplace, "true")
            monkeypatch.setattr(blame, "PROBE", ("sleep", "600"))
            monkeypatch.setattr(blame, "PROBE_SECONDS", 1.0)
            with pytest.raises(InfrastructureError, match="a fresh sandbox failed"):
                await bash(workplace, "sleep 600", 1)
        assert await none_is_left(session)

    async def test_a_closed_session_is_infrastructure(self) -> None:
        with grading_session(BackendOptions("local")) as session:
            workplace = place(session)
            await bash(workplace, "true")
            running = asyncio.ensure_future(bash(workplace, "sleep 600", 600))
            await asyncio.sleep(0.2)
            await asyncio.to_thread(session.close().result)
            with pytest.raises(InfrastructureError):
                await running
            await workplace.close()

    async def test_a_service_too_slow_for_any_command_is_infrastructure(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(blame, "PROBE_SECONDS", 1.0)
        with faulty("exec-latency=600") as session:
            async with working(place(session)) as workplace:
                await call(workplace, "write_file", path="a", content="")
                with pytest.raises(InfrastructureError):
                    await bash(workplace, "true", 1)

    @pytest.mark.parametrize("name", ["bash", "write_file", "execute_code"])
    async def test_a_call_that_the_sdk_never_ends_is_given_up(
        self, session: Session, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        monkeypatch.setattr(deadlines, "GRACE_SECONDS", 1.0)
        monkeypatch.setattr(blame, "PROBE_SECONDS", 0.5)
        async with working(place(session)) as workplace:
            await bash(workplace, "true")
            monkeypatch.setattr(Sandbox, "_prepare_data_plane_call", never)
            arguments = {
                "bash": {"command": "true"},
                "write_file": {"path": "a", "content": ""},
                "execute_code": {"code": "#" * 200_000},
            }
            with pytest.raises(InfrastructureError):
                await asyncio.wait_for(call(workplace, name, 0.5, **arguments[name]), 120)
            monkeypatch.undo()
        assert await none_is_left(session)

    async def test_a_service_that_says_nothing_of_the_callers_sandbox_is_infrastructure(
        self, session: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = threading.Event()
        monkeypatch.setattr(deadlines, "GRACE_SECONDS", 1.0)
        monkeypatch.setattr(blame, "PROBE_SECONDS", 0.5)
        sandbox = session.sandbox()
        workplace = Workplace.over(sandbox)
        await bash(workplace, "true")
        monkeypatch.setattr(Sandbox, "_prepare_data_plane_call", never)
        monkeypatch.setattr(Sandbox, "get_status", lambda _: asked.wait(60))
        try:
            with pytest.raises(InfrastructureError):
                await bash(workplace, "true", 0.5)
        finally:
            asked.set()
        monkeypatch.undo()
        await sandbox.stop()

    async def test_a_grade_whose_command_never_begins_is_infrastructure(
        self, session: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sandbox = session.sandbox()
        workplace = Workplace.over(sandbox)
        await workplace.ready()
        monkeypatch.setattr(Sandbox, "_prepare_data_plane_call", refuse)
        task = Task("t", "do it", test_command=("true",))
        with pytest.raises(InfrastructureError):
            await asyncio.wait_for(grade_task(task, workplace), 60)
        monkeypatch.undo()
        await sandbox.stop()


def calls_once(tool: str, arguments: dict[str, str]) -> Policy:
    """A model that calls the tool once, and then says that it is done."""

    def answer(messages: Sequence[Message], _: Sequence[ToolDefinition]) -> AssistantMessage:
        if messages[-1]["role"] == "tool":
            return {"role": "assistant", "content": "done"}
        function: FunctionCall = {"name": tool, "arguments": json.dumps(arguments)}
        asked: ToolCall = {"id": "1", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [asked]}

    return as_policy(answer)


async def play(
    workplace: Workplace, wall_seconds: float, command: str = "true", tools: tuple[Tool, ...] = ()
) -> Episode:
    tools = tools or named_tools(("bash",))
    policy = calls_once(tools[0].name, {"command": command})
    messages: list[Message] = [{"role": "user", "content": "go"}]
    limits = EpisodeLimits(wall_seconds=wall_seconds)
    return await run_episode(policy, messages, tools, workplace, limits)


class TestTheModelsTime:
    async def test_a_command_that_outlasts_it_is_the_models(self, session: Session) -> None:
        async with working(place(session)) as workplace:
            await bash(workplace, "touch file")
            episode = await play(workplace, 0.5, "sleep 600")
            assert episode.stop_reason is StopReason.WALL_TIMEOUT
            assert await bash(workplace, "ls file") == "exit=0\nfile\n"

    async def test_so_is_a_sandbox_that_it_keeps_from_answering(
        self, session: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(blame, "PROBE", ("bash", "-c", "[ ! -e hung ] || sleep 600"))
        monkeypatch.setattr(blame, "PROBE_SECONDS", 3.0)
        async with working(place(session)) as workplace:
            episode = await play(workplace, 2, "touch hung; sleep 600")
            assert episode.stop_reason is StopReason.WALL_TIMEOUT

    async def test_a_service_that_is_silent_when_it_is_up_is_infrastructure(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(blame, "PROBE_SECONDS", 1.0)
        with faulty("exec-latency=600") as session:
            async with working(place(session)) as workplace:
                episode = await play(workplace, 0.5)
                assert episode.stop_reason is StopReason.INFRASTRUCTURE_ERROR

    async def test_the_wait_for_another_sandbox_is_not_part_of_it(self, session: Session) -> None:
        pool = SandboxPool(session)
        starts = 0

        async def take() -> Sandbox:
            nonlocal starts
            starts += 1
            if starts > 1:
                await asyncio.sleep(6)
            return await pool.take()

        async def fail_once(command: str, sandbox: Sandbox) -> str:
            """Do it."""
            if starts == 1:
                raise SandboxUnavailableError(command)
            return str(sandbox.sandbox_id)

        async with working(Workplace(take, pool.give_back)) as workplace:
            episode = await play(workplace, 5, tools=(Tool.of(fail_once),))
            assert (episode.stop_reason, starts) == (StopReason.NO_TOOL_CALL, 2)
            assert episode.tool_seconds < 5
            assert workplace.start_seconds > 6
        starts = 0
        async with working(Workplace(take, pool.give_back)) as workplace:
            await bash(workplace, "true")
            episode = await play(workplace, 5, KILL_ALL)
            assert (episode.stop_reason, starts) == (StopReason.NO_TOOL_CALL, 2)
            assert episode.tool_seconds < 5
        assert await none_is_left(session)


class TestTheCallersSandbox:
    async def test_it_is_prepared_before_its_first_use(self, session: Session) -> None:
        sandbox = session.sandbox(working_dir=FOLDER)
        workplace = Workplace.over(sandbox, prepare=partial(place_files, files={"a": "1"}))
        assert await bash(workplace, "cat a") == "exit=0\n1"
        await sandbox.stop()

    async def test_one_that_cannot_be_prepared_ends_the_episode_without_a_reward(
        self, session: Session
    ) -> None:
        sandbox = session.sandbox()
        await sandbox
        await sandbox.stop()
        workplace = Workplace.over(sandbox, prepare=partial(place_files, files={"a": "1"}))
        episode = await play(workplace, 60)
        assert episode.stop_reason is StopReason.INFRASTRUCTURE_ERROR

    async def test_it_is_used_and_left(self, session: Session) -> None:
        sandbox = session.sandbox(working_dir=FOLDER)
        workplace = Workplace.over(sandbox)
        workplace.start_ahead()
        assert await bash(workplace, "touch file") == "exit=0\n"
        assert workplace.sandbox_ids == [sandbox.sandbox_id]
        await workplace.close()
        assert (await sandbox.exec(["ls", "file"])).stdout == "file\n"
        await sandbox.stop()

    async def test_once_it_is_killed_every_call_says_so(self, session: Session) -> None:
        workplace = Workplace.over(session.sandbox())
        assert await bash(workplace, KILL_ALL) == TERMINATED
        assert await bash(workplace, "echo on") == TERMINATED
        assert await call(workplace, "read_file", path="a") == TERMINATED
        await workplace.close()
        with pytest.raises(ToolError, match="the sandbox was terminated"):
            await current(workplace)

    @pytest.mark.parametrize("kind", [*STARTS, *CALLS])
    async def test_a_failing_service_is_infrastructure(self, kind: Kind) -> None:
        with faulty(kind) as session:
            workplace = Workplace.over(session.sandbox())
            with pytest.raises(InfrastructureError):
                await strike(workplace, kind)
            await workplace.close()
