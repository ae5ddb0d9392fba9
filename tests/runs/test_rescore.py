"""`pytest-cwsandbox rescore`: the recorded completions, graded again in real sandboxes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cwsandbox.outcome import SampleRecord
from pytest_cwsandbox.problems import Problem, load
from pytest_cwsandbox.runs import journal, plan, provenance
from pytest_cwsandbox.runs.journal import Entry
from pytest_cwsandbox.runs.plan import Planned
from pytest_cwsandbox.runs.provenance import Provenance
from tests.plugin.rollouts import folder
from tests.test_grade_command import without_account

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

INCONCLUSIVE = 75
HELD_OUT = Problem(
    task_id="held",
    prompt="Add.",
    test_list=("assert add(1, 2) == 3",),
    challenge_test_list=("assert add(2, 2) == 4",),
    source="mine",
)
TASK = "of a task, which is judged in the agent's own sandbox"
LOST = "lost in the run, before there was anything to grade"
FOREIGN = "of a problem that problems.jsonl does not hold"
LOOKUP = "def add(a, b):\n    return 3\n"


def rescore(*args: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "pytest_cwsandbox", "rescore", *map(str, args)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=without_account() | environment,
    )


def rows(run: Path) -> dict[str, dict[str, Any]]:
    text = (run / "samples.jsonl").read_text()
    return {row["id"]: row for row in map(json.loads, text.splitlines())}


def written(run: Path, problems: Iterable[Problem], *records: SampleRecord) -> Path:
    """A run that recorded these."""
    planned = [Planned(each.id, each.group, each.problem, each.sample) for each in records]
    plan.write(run, planned, {problem.id: problem for problem in problems}, {})
    for record in records:
        journal.append(run, "main", Entry(record, "lost" if record.reward is None else "ended"))
    return run


def record(
    name: str, reward: float | None, grader: str = "", completion: str = "", **fields: Any
) -> SampleRecord:
    problem = fields.pop("problem", HELD_OUT.id)
    return SampleRecord(
        name, "g/t", problem, 0, reward, grader=grader, completion=completion, **fields
    )


def test_a_run_graded_again_is_the_same_run(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_all="""
        import pytest

        @pytest.mark.problems()
        def test_right(problem, grade, record_reward):
            record_reward(grade(problem, problem.reference_solution).result())

        @pytest.mark.problems()
        async def test_agent(problem, rollout):
            await rollout(problem)

        def test_program(grade_exit_code, record_reward):
            record_reward(grade_exit_code("raise SystemExit(1)").result())

        def test_number(record_reward):
            record_reward(0.25)

        @pytest.mark.tasks()
        async def test_task(task, rollout):
            await rollout(task)
        """
    )
    limit = ("--cwsandbox-limit=1", "--cwsandbox-cpu-limit=9")
    pytester.runpytest_subprocess("-n0", "-p", "asyncio", *limit).assert_outcomes(passed=5)
    run = folder(pytester.path)
    done = rescore("latest", cwd=pytester.path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "graded again: 3",
        f"kept as they were: 1 a bare number, 1 {TASK}",
        "rewards changed: 0",
        f"results: .cwsandbox/runs/{run.name}-rescored",
    ]
    again = run.with_name(f"{run.name}-rescored")
    before, after = rows(run), rows(again)
    for name, row in before.items():
        kept = ("reward", "verdict", "group", "problem", "sample", "completion", "metadata")
        assert {key: after[name][key] for key in kept} == {key: row[key] for key in kept}
    made, origin = provenance.read(again), provenance.read(run)
    assert made is not None
    assert origin is not None
    assert (made.rescored_from, made.run, made.cpu_limit) == (run.name, again.name, 9)
    assert made.problems_hash == origin.problems_hash
    assert plan.read(again) == plan.read(run)
    summary = json.loads((again / "summary.json").read_text())
    assert summary["run"] == again.name
    assert summary["all"]["passed"] == 3

    refused = pytester.runpytest_subprocess("-n0", f"--cwsandbox-resume={again.name}")
    assert refused.ret == 4
    refused.stderr.fnmatch_lines([f"*{again.name} holds grades of {run.name}*"])


def test_what_changed_is_named(tmp_path: Path) -> None:
    right, wrong = load("bundled", limit=2)
    solution = right.reference_solution
    message = f"```python\n{solution}\n```"
    run = written(
        tmp_path / "run",
        [right, wrong],
        record("now right", 0.0, "completion", solution, problem=right.id, verdict="timeout"),
        record("still wrong", 0.0, "completion", "No idea.", problem=wrong.id),
        record("a message", 0.0, "submission", message, problem=right.id),
        record("saved", None, "submission", solution, problem=right.id),
        record("gone", None, problem=right.id),
        record("foreign", 1.0, "completion", "x", problem="no-such"),
    )
    done = rescore(run, "-o", tmp_path / "again", "--backend=local", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "warning: " in done.stderr  # there is no run.json
    assert done.stdout.splitlines() == [
        "graded again: 4",
        f"kept as they were: 1 {LOST}, 1 {FOREIGN}",
        "rewards changed: 3",
        "  now right: timeout (0) -> passed (1)",
        "  a message: no verdict (0) -> passed (1)",
        "  saved: no verdict (null) -> passed (1)",
        f"results: {tmp_path / 'again'}",
    ]
    after = rows(tmp_path / "again")
    assert after["still wrong"]["verdict"] == "no_code"
    assert (after["gone"]["reward"], after["foreign"]["reward"]) == (None, 1.0)


def test_held_out_asserts_are_used_where_they_were_and_where_they_are_asked_for(
    tmp_path: Path,
) -> None:
    run = written(
        tmp_path / "run",
        [HELD_OUT],
        record("seen", 1.0, "completion", LOOKUP),
        record("held out", 0.0, "completion", LOOKUP, held_out=True),
    )
    provenance.write(
        run, Provenance("run", "", (), cpu_limit=9, wall_limit=9, memory_limit=1 << 29)
    )
    assert rescore(run, "-o", "same", cwd=tmp_path).returncode == 0
    assert [row["reward"] for row in rows(tmp_path / "same").values()] == [0.0, 1.0]
    done = rescore(run, "-o", "all", "--held-out", cwd=tmp_path)
    assert "  seen: no verdict (1) -> wrong_answer (0)" in done.stdout
    assert [row["held_out"] for row in rows(tmp_path / "all").values()] == [True, True]


def test_grades_that_the_infrastructure_took_are_no_rewards(tmp_path: Path) -> None:
    run = written(
        tmp_path / "run",
        [HELD_OUT],
        record("lost", 1.0, "completion", LOOKUP),
    )
    # A hosted service that refuses every connection.
    hosted = {"CWSANDBOX_API_KEY": "no-such-key", "CWSANDBOX_BASE_URL": "http://127.0.0.1:9"}
    done = rescore(run, "--retries=0", cwd=tmp_path, **hosted)
    assert done.returncode == INCONCLUSIVE, done.stderr
    assert "lost to infrastructure: 1" in done.stdout
    [row] = rows(tmp_path / "run-rescored").values()
    assert (row["reward"], row["verdict"], row["state"]) == (None, "infrastructure_error", "lost")
    made = provenance.read(tmp_path / "run-rescored")
    assert made is not None
    assert made.exit_status == INCONCLUSIVE


def test_what_cannot_be_rescored_is_one_line(tmp_path: Path) -> None:
    numbers = written(tmp_path / "numbers", [], record("n", 0.5, problem=""))
    taken = written(tmp_path / "taken", [HELD_OUT], record("x", 1.0, "completion"))
    hidden = replace(HELD_OUT, test_list=('assert square(2) == "[redacted]"',))
    redacted = written(tmp_path / "redacted", [hidden], record("x", 1.0, "completion"))
    (tmp_path / "taken-rescored").mkdir()
    for args, said in {
        ("nowhere",): "nowhere: no such file or folder, and no run in",
        (str(numbers),): "nothing can be graded again: 1 a bare number",
        (str(redacted),): "[redacted] in place of what looked secret",
        (str(numbers / "samples-main.jsonl"),): "is a file; give the run's folder",
        (str(taken),): "taken-rescored: exists; name another folder with -o",
    }.items():
        done = rescore(*args, cwd=tmp_path)
        assert done.returncode == 2
        assert said in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_nothing_is_left_of_a_rescoring_that_was_stopped(
    tmp_path: Path, stop: signal.Signals
) -> None:
    sleeps = "import time\ntime.sleep(600)\n"
    run = written(tmp_path / "run", [], record("s", 1.0, "exit_code", sleeps, problem=""))
    before = sorted(tmp_path.rglob("*"))
    output = tmp_path / "deep" / "er" / "out"
    command = [sys.executable, "-m", "pytest_cwsandbox", "rescore", str(run), "-o", str(output)]
    with subprocess.Popen(
        [*command, "--wall-limit=600"],
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=without_account(),
    ) as child:
        while not list(output.parent.glob("out.*.part")):
            assert child.poll() is None
            time.sleep(0.05)
        assert not output.exists()
        child.send_signal(stop)
        _, said = child.communicate()
    # Python itself ends like this where Ctrl-C meets an import; to a shell both are 130.
    assert child.returncode in {130, -signal.SIGINT}
    assert said.endswith("stopped: nothing was written\n")
    assert sorted(tmp_path.rglob("*")) == before
