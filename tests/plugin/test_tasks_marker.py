"""`@pytest.mark.tasks`: jobs for a general agent become items."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from .rollouts import samples, trajectories

if TYPE_CHECKING:
    from .rollouts import Run

ROWS = [
    {"task_id": name, "prompt": f"Write {name} into a file.", "test_command": f"test -f {name}"}
    for name in ("one", "two")
]


@pytest.fixture
def own(pytester: pytest.Pytester) -> str:
    """A file of two tasks."""
    (pytester.path / "jobs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return "jobs.jsonl"


def test_the_scripted_model_completes_a_bundled_task(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.tasks(group="jobs")
        async def test_agent(task, rollout):
            assert (await rollout(task)).reward == 1.0
        """
    )
    result = run("--cwsandbox-limit=1")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["bundled/jobs *1/1*", "verdicts: passed 1", "model scripted: 1 *"])
    [row] = samples(pytester.path)
    [trajectory] = trajectories(pytester.path)
    assert row["problem"] == f"bundled-{trajectory['metadata']['task_id']}"
    assert row["metadata"]["stop_reason"] == "no_tool_call"  # "It is done."
    names = {tool["function"]["name"] for tool in trajectory["tools"]}
    assert names == {"bash", "read_file", "write_file"}


def test_tasks_of_a_file_are_items_by_id_and_sample(
    pytester: pytest.Pytester, run: Run, own: str
) -> None:
    pytester.makepyfile(
        """
        import json
        import pytest

        def writes_one(messages, tools):
            if len(messages) > 2:
                return "done"
            function = {"name": "bash", "arguments": json.dumps({"command": "touch one"})}
            call = {"id": "a", "type": "function", "function": function}
            return {"role": "assistant", "content": None, "tool_calls": [call]}

        @pytest.mark.tasks()
        def test_agent(task, rollout):
            assert rollout(task, policy=writes_one).result().reward == 1.0

        @pytest.mark.tasks("jobs.jsonl", samples=2)
        def test_ids(task, sample): assert (task.source, sample < 2) == ("jobs", True)
        """
    )
    result = run(f"--cwsandbox-tasks={own}", "-v")
    result.assert_outcomes(passed=5, failed=1)
    for name in (
        "test_agent[[]jobs-one]", "test_agent[[]jobs-two]",
        "test_ids[[]jobs-one-s0]", "test_ids[[]jobs-two-s1]",
    ):  # fmt: skip
        result.stdout.fnmatch_lines([f"*{name}*"])
    result.stdout.fnmatch_lines(["jobs/test_agent *1/2*"])
    assert [row["reward"] for row in samples(pytester.path)] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        ("tasks(samples=0)", "samples must be a whole number of at least 1, got 0"),
        ("tasks(split='x')", "the marker takes tasks(source=None, samples=1, group=None)"),
        ("tasks(3)", "source must be a name or a path, got 3"),
        ("tasks(group='')", "group must be a non-empty text, got ''"),
        ("tasks('nowhere.jsonl')", "nowhere.jsonl"),
        ("tasks('empty.jsonl')", "empty.jsonl: the file has no rows"),
        ("tasks(), pytest.mark.problems()", "a test takes problems or tasks, not both"),
    ],
)
def test_a_bad_marker_is_one_collection_error(
    pytester: pytest.Pytester, marks: str, message: str
) -> None:
    (pytester.path / "empty.jsonl").write_text("")
    pytester.makepyfile(
        f"""
        import pytest

        pytestmark = [pytest.mark.{marks}]

        def test_marked(task): pass
        """
    )
    result = pytester.runpytest_subprocess("-n0")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*test_marked: @pytest.mark.*: *{message}*"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_task_needs_the_marker(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile("def test_unmarked(task): pass")
    result = run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*asks for `task`: mark it with @pytest.mark.tasks()"])
