"""Tasks: what files may say, and what an agent's sandbox is worth whatever the agent did to it."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.connections import grading_session
from pytest_cwsandbox.errors import (
    ConfigurationError,
    InfrastructureError,
    ProblemFileError,
    UserError,
)
from pytest_cwsandbox.outcome import Verdict
from pytest_cwsandbox.rollouts.task_reward import _bounded, grade_task, place_files
from pytest_cwsandbox.rollouts.tasks import FILES_BYTES, Task, load_tasks
from pytest_cwsandbox.rollouts.workplace import Workplace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cwsandbox import Session

    from pytest_cwsandbox.outcome import Outcome

ROW = {"task_id": "one", "prompt": "Do it.", "test_command": "true"}


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with grading_session(BackendOptions("local")) as session:
        yield session


class TestFiles:
    def load(self, folder: Path, *rows: object) -> list[Task]:
        file = folder / "my tasks.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return load_tasks(str(file))

    def test_a_row_needs_only_three_fields(self, tmp_path: Path) -> None:
        [task] = self.load(tmp_path, ROW)
        assert task == Task("one", "Do it.", test_command=("bash", "-c", "true"), source="my-tasks")
        assert task.id == "my-tasks-one"
        assert (task.max_steps, task.tools) == (10, ("bash", "read_file", "write_file"))

    def test_a_row_may_have_all_fields(self, tmp_path: Path) -> None:
        fields = {
            "files": {"a/b.py": "1", "/etc/c": "2"},
            "test_files": {"t.py": "3"},
            "max_steps": 3,
            "tools": ["bash"],
            "timeout_seconds": 5,
            "system_prompt": "You work.",
            "reference_solution": {"a/b.py": "4"},
            "metadata": {"level": "easy"},
            "split": "train",
        }
        [task] = self.load(tmp_path, {**ROW, "test_command": ["python3", "t.py"], **fields})
        assert task.test_command == ("python3", "t.py")
        assert task.tools == ("bash",)
        for name in fields.keys() - {"tools"}:
            assert getattr(task, name) == fields[name], name

    def test_a_json_array_is_read_too(self, tmp_path: Path) -> None:
        file = tmp_path / "tasks.json"
        file.write_text(json.dumps([ROW]))
        assert [task.id for task in load_tasks(str(file))] == ["tasks-one"]

    @pytest.mark.parametrize(
        ("fields", "complaint"),
        [
            ({"promt": ""}, 'unknown field "promt"; the fields of a task are task_id, prompt, '),
            ({"prompt": " "}, 'field "prompt" is empty'),
            ({"test_command": ""}, 'field "test_command" is empty'),
            ({"test_command": []}, 'field "test_command" is empty'),
            ({"test_command": ["", "x"]}, 'field "test_command" must begin with a program'),
            ({"test_command": 5}, 'field "test_command" must be a list of strings, got int'),
            ({"test_command": "a\0b"}, 'field "test_command" holds a NUL character'),
            ({"files": []}, 'field "files" must be an object of strings, got list'),
            ({"files": {"a": 1}}, 'field "files" must hold strings, "a" is int'),
            ({"files": {"a": "\ud800"}}, "half of a surrogate pair"),
            ({"files": {"../a": ""}}, "must not hold '..'"),
            ({"files": {"a/../b": ""}}, "must not hold '..'"),
            ({"test_files": {"a\0": ""}}, 'field "test_files" path "a\0" holds a NUL character'),
            ({"files": {"": ""}}, "must name a file in its shortest form"),
            ({"files": {"a//b": ""}}, "must name a file in its shortest form"),
            ({"files": {"./a": ""}}, "must name a file in its shortest form"),
            ({"files": {"a/": ""}}, "must name a file in its shortest form"),
            ({"files": {"a" * 256: ""}}, "is too long"),
            ({"files": {"a": "", "a/b": ""}}, 'path "a" is a file and the folder of "a/b"'),
            ({"files": {"a": "x" * (FILES_BYTES + 1)}}, "can be placed"),
            ({"max_steps": 0}, 'field "max_steps" must be from 1 to '),
            ({"max_steps": 1.5}, 'field "max_steps" must be an integer, got float'),
            ({"max_steps": True}, 'field "max_steps" must be an integer, got bool'),
            ({"timeout_seconds": 0}, 'field "timeout_seconds" must be above 0'),
            ({"timeout_seconds": float("nan")}, 'field "timeout_seconds" must be above 0'),
            ({"timeout_seconds": 10**400}, 'field "timeout_seconds" must be above 0'),
            ({"timeout_seconds": "5"}, 'field "timeout_seconds" must be a number, got str'),
            ({"tools": ["bash", "bash"]}, 'field "tools" names a tool twice'),
        ],
    )
    def test_errors_name_line_and_field(
        self, tmp_path: Path, fields: dict[str, object], complaint: str
    ) -> None:
        with pytest.raises(ProblemFileError) as error:
            self.load(tmp_path, ROW, {**ROW, "task_id": "two", **fields})
        assert "my tasks.jsonl:2: " in str(error.value)
        assert complaint in str(error.value)

    @pytest.mark.parametrize("name", ["task_id", "prompt", "test_command"])
    def test_missing_fields_are_named(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(ProblemFileError, match=f':1: missing field "{name}"'):
            self.load(tmp_path, {key: value for key, value in ROW.items() if key != name})

    def test_repeated_ids_are_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(ProblemFileError, match=r':2: field "task_id" repeats "one" of .*:1'):
            self.load(tmp_path, ROW, ROW)

    def test_splits_and_limits(self, tmp_path: Path) -> None:
        rows = [{**ROW, "task_id": str(n), "split": "ab"[n % 2]} for n in range(4)]
        self.load(tmp_path, *rows)
        file = str(tmp_path / "my tasks.jsonl")
        assert [task.task_id for task in load_tasks(file, split="b")] == ["1", "3"]
        assert [task.task_id for task in load_tasks(file, split="all", limit=3)] == ["0", "1", "2"]
        with pytest.raises(UserError, match='has no split "c"; its splits: a, b'):
            load_tasks(file, split="c")
        with pytest.raises(UserError, match="at least 1"):
            load_tasks(file, limit=0)

    def test_unknown_sources_are_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match='"nope" is not "bundled" and no path'):
            load_tasks("nope")
        with pytest.raises(ProblemFileError, match="no such file"):
            load_tasks(str(tmp_path / "nope.jsonl"))

    def test_tasks_can_be_hashed_and_sent_to_other_processes(self) -> None:
        tasks = load_tasks()
        assert len(set(tasks)) == len(tasks)
        assert pickle.loads(pickle.dumps(tasks)) == tasks  # noqa: S301 - made on this line


class TestPlacing:
    async def test_any_text_at_any_depth_arrives_as_it_is(self, session: Session) -> None:
        files = {
            "a/b c/d.txt": "no end of line",
            "-n": "x\r\n\0\N{SNOWMAN}\n\n",
            "/tmp/e/f": "1",
            "n" * 255: "",
            "large": "0123456789\n" * 300_000,
        }
        async with session.sandbox() as sandbox:
            await place_files(sandbox, files)
            for path, text in files.items():
                where = path if path.startswith("/") else f"/workspace/{path}"
                assert await sandbox.read_file(where) == text.encode()

    async def test_scripts_can_be_executed(self, session: Session) -> None:
        async with session.sandbox() as sandbox:
            await place_files(sandbox, {"go.sh": "#!/bin/bash\necho gone\n"})
            assert (await sandbox.exec(["/workspace/go.sh"])).stdout == "gone\n"

    async def test_a_place_that_cannot_be_written_is_a_mistake_of_the_task(
        self, session: Session
    ) -> None:
        async with session.sandbox() as sandbox:
            with pytest.raises(ConfigurationError, match=r"cannot be placed.*/usr/x"):
                await place_files(sandbox, {"/usr/x": ""})


# Passes when the agent has written 2 into answer.py.
TASK = Task(
    "answer",
    "Put the answer in project/answer.py.",
    files={"project/answer.py": "ANSWER = 1\n", "project/check.py": ""},
    test_command=("bash", "-c", "cd project && python3 check.py"),
    test_files={"project/check.py": "from answer import ANSWER\nassert ANSWER == 2, ANSWER\n"},
)
SOLVE = "echo 'ANSWER = 2' > project/answer.py\n"

EVERY_PROCESS = """python3 - <<'END'
import os, time
try:
    while True:
        if not os.fork():
            os.setsid()
            time.sleep(600)
except BlockingIOError:
    pass
END
"""


async def grade(session: Session, agent: str, task: Task = TASK) -> Outcome:
    """The grade of an agent that runs one script."""
    async with session.sandbox() as sandbox:
        await place_files(sandbox, task.files)
        await sandbox.exec(["bash", "-c", f"cd /workspace\n{agent}"])
        return await grade_task(task, Workplace.over(sandbox))


def command(text: str, timeout_seconds: float = 60.0) -> Task:
    words = ("bash", "-c", text)
    return Task("t", "Do it.", test_command=words, timeout_seconds=timeout_seconds)


class TestGrade:
    async def test_solved(self, session: Session) -> None:
        outcome = await grade(session, SOLVE)
        assert (outcome.verdict, outcome.reward, outcome.detail) == (Verdict.PASSED, 1.0, "")
        assert outcome.seconds > 0

    async def test_unsolved_says_the_last_line_of_the_output(self, session: Session) -> None:
        outcome = await grade(session, "true")
        assert (outcome.verdict, outcome.reward) == (Verdict.WRONG_ANSWER, 0.0)
        assert outcome.detail == "AssertionError: 1"

    async def test_without_output_says_the_exit_code(self, session: Session) -> None:
        outcome = await grade(session, "", command("exit 7"))
        assert (outcome.verdict, outcome.detail) == (Verdict.WRONG_ANSWER, "exit code 7")

    async def test_a_program_that_is_not_there_fails(self, session: Session) -> None:
        outcome = await grade(session, "", Task("t", "Do it.", test_command=("no-such-program",)))
        assert outcome.verdict is Verdict.WRONG_ANSWER
        assert "no-such-program" in outcome.detail

    async def test_a_task_without_a_test_command_cannot_be_graded(self, session: Session) -> None:
        with pytest.raises(ConfigurationError, match="no test_command"):
            await grade(session, "", Task("t", "Do it."))

    @pytest.mark.parametrize("script", ["sleep 600", "trap '' TERM; while :; do sleep 1; done"])
    async def test_too_slow(self, session: Session, script: str) -> None:
        outcome = await grade(session, "", command(script, timeout_seconds=0.3))
        assert (outcome.verdict, outcome.reward) == (Verdict.TIMEOUT, 0.0)

    async def test_exit_codes_of_a_timeout_are_no_timeout(self, session: Session) -> None:
        for code in (124, 137):
            outcome = await grade(session, "", command(f"exit {code}"))
            assert outcome.verdict is Verdict.WRONG_ANSWER

    async def test_much_output_does_no_harm(self, session: Session) -> None:
        outcome = await grade(session, "", command("yes | head -c 100000000; echo last; exit 3"))
        assert (outcome.verdict, outcome.detail) == (Verdict.WRONG_ANSWER, "last")

    async def test_a_process_that_is_left_behind_is_not_waited_for(self, session: Session) -> None:
        outcome = await grade(session, "", command("setsid sleep 600 & exit 0"))
        assert outcome.verdict is Verdict.PASSED

    async def test_standard_input_is_closed(self, session: Session) -> None:
        assert (await grade(session, "", command("! read line"))).verdict is Verdict.PASSED

    async def test_a_fix_of_the_same_size_in_the_same_second_is_seen(
        self, session: Session
    ) -> None:
        agent = f"""
        cd project; touch -d @1700000000 answer.py; python3 -c 'import answer'; cd ..
        {SOLVE}
        touch -d @1700000000 project/answer.py
        """
        assert (await grade(session, agent)).verdict is Verdict.PASSED

    async def test_a_link_in_place_of_the_tests_is_replaced(self, session: Session) -> None:
        outcome = await grade(session, "ln -sf /dev/null project/check.py")
        assert outcome.verdict is Verdict.WRONG_ANSWER

    async def test_the_tests_that_the_agent_saw_are_replaced(self, session: Session) -> None:
        outcome = await grade(session, "echo pass > project/check.py")
        assert outcome.verdict is Verdict.WRONG_ANSWER


class TestHostileSandboxes:
    @pytest.mark.parametrize(
        "agent",
        [
            pytest.param("rm project/check.py; mkdir -p project/check.py/x", id="folder"),
            pytest.param("chmod a-w project", id="read-only"),
            pytest.param("rm -r project; ln -s /proc project", id="link to /proc"),
            pytest.param("rm -r project; touch project", id="file"),
            pytest.param("fallocate -l 600M fill || head -c 600M /dev/zero > fill", id="full disk"),
        ],
    )
    async def test_an_agent_that_keeps_the_tests_out_earns_nothing(
        self, session: Session, agent: str
    ) -> None:
        outcome = await grade(session, SOLVE + agent)
        assert (outcome.verdict, outcome.reward) == (Verdict.WRONG_ANSWER, 0.0)

    async def test_no_room_for_processes_earns_nothing(self, session: Session) -> None:
        outcome = await grade(session, SOLVE + EVERY_PROCESS)
        assert outcome.reward == 0.0

    async def test_a_program_that_ends_the_sandbox_earns_nothing(self, session: Session) -> None:
        outcome = await grade(session, "echo 'import os; os.kill(-1, 9)' > project/answer.py")
        assert (outcome.verdict, outcome.reward) == (Verdict.SANDBOX_KILLED, 0.0)

    @pytest.mark.parametrize("script", ["yes", "yes >&2"])
    async def test_a_flood_instead_of_a_result_is_cut(self, session: Session, script: str) -> None:
        async with session.sandbox() as sandbox:
            assert await _bounded(sandbox.exec(["bash", "-c", script])) is None
            assert await _bounded(sandbox.exec(["true"])) is not None


@pytest.mark.parametrize(
    "fault", ["exec-unavailable", "exec-dropped", "exec-lost", "file-unavailable"]
)
async def test_a_failure_of_the_service_is_no_reward(fault: str) -> None:
    task = Task("t", "Do it.", test_command=("true",), test_files={"a": ""})
    with grading_session(BackendOptions("local"), faults=[fault]) as session:
        async with session.sandbox() as sandbox:
            with pytest.raises(InfrastructureError):
                await grade_task(task, Workplace.over(sandbox))
