"""run.json says what a run was made of, and holds its continuation to it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cwsandbox.errors import ProblemFileError
from pytest_cwsandbox.runs import provenance
from pytest_cwsandbox.runs.provenance import Provenance
from tests.plugin.rollouts import folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., pytest.RunResult]

USAGE_ERROR = 4
SAMPLES = """
    import pytest

    @pytest.mark.problems(samples=2)
    def test_problem(problem, sample, record_reward):
        record_reward(1.0)

    @pytest.mark.tasks()
    def test_task(task, record_reward):
        record_reward(1.0)
"""
ROW = {"task_id": "1", "prompt": "Add.", "test_list": ["assert add(1, 2) == 3"]}


def run_json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder(path) / "run.json").read_text())
    return found


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder(path).iterdir()}


@pytest.fixture
def problems(pytester: pytest.Pytester) -> Path:
    """A file with one problem."""
    file = pytester.path / "mine.jsonl"
    file.write_text(json.dumps(ROW))
    return file


def test_it_says_what_the_run_was_made_of(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(SAMPLES)
    run(
        "--cwsandbox-limit=2",
        "--cwsandbox-model=toy",
        "--cwsandbox-model-base-url=http://me:pass-word@127.0.0.1:9/v1",
        "--cwsandbox-seed=7",
        "--cwsandbox-temperature=0.5",
        '--cwsandbox-extra-body={"top_k": 20, "api_key": "x"}',
        "--cwsandbox-max-tool-calls=9",
        "--cwsandbox-cpu-limit=5",
        "--cwsandbox-tag=team:mine",
        "--cwsandbox-backend=local",
    ).assert_outcomes(passed=6)
    made = run_json(pytester.path)
    expected = {
        "schema": 1,
        "run": folder(pytester.path).name,
        "exit_status": 0,
        "tags": ["team:mine"],
        "backend": "local",
        "cpu_limit": 5,
        "wall_limit": 60.0,
        "memory_limit": 1 << 30,
        "retries": 2,
        "problems": "bundled",
        "limit": 2,
        "model": "toy",
        "model_base_url": "http://[redacted]@127.0.0.1:9/v1",
        "model_api": "chat",
        "temperature": 0.5,
        "top_p": None,
        "seed": 7,
        "seeds": {"0": 7, "1": 8},
        "extra_body": {"top_k": 20, "api_key": "[redacted]"},
        "max_tool_calls": 9,
        "rollout_timeout": 1200.0,
        "git_commit": "",
    }
    assert {name: made[name] for name in expected} == expected
    assert made["started"] <= made["ended"]
    assert made["image"].startswith("python:3.")
    assert made["versions"].keys() >= {"pytest", "pytest-cwsandbox", "cwsandbox", "openai"}
    assert '--cwsandbox-extra-body={"top_k": 20, "api_key": "[redacted]"}' in made["command"]
    assert all(len(made[f"{name}_hash"]) == 64 for name in ("problems", "tasks", "reward"))


def test_it_is_there_before_the_first_item_runs_and_complete_at_the_end(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(
        """
        import json, pathlib

        def test_there(record_reward):
            record_reward(0.0)
            [file] = pathlib.Path(".cwsandbox/runs").glob("*/run.json")
            begun = json.loads(file.read_text())
            assert begun["started"] and begun["ended"] is None and begun["exit_status"] is None
        """
    )
    result = run("--cwsandbox-min-pass-rate=0.5")
    result.assert_outcomes(passed=1)
    made = run_json(pytester.path)
    assert made["ended"] >= made["started"]
    assert made["exit_status"] == result.ret == 1


def test_a_run_without_samples_has_none(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile("def test_ordinary(): pass")
    run().assert_outcomes(passed=1)
    assert not (pytester.path / ".cwsandbox").exists()


def test_the_hash_is_that_of_the_problems_however_they_are_distributed(
    pytester: pytest.Pytester, problems: Path
) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.problems()
        def test_problem(problem, record_reward):
            record_reward(1.0)
        """
    )
    hashes = []
    for number, more in enumerate(("", " ", "!")):
        problems.write_text(
            json.dumps(ROW | {"prompt": "Add" + more.strip()}) + more.replace("!", "")
        )
        where = f"--cwsandbox-report-dir={number}"
        run = pytester.runpytest_subprocess(
            f"-n{number}", where, f"--cwsandbox-problems={problems}"
        )
        run.assert_outcomes(passed=1)
        [file] = (pytester.path / str(number)).glob("*/run.json")
        hashes.append(json.loads(file.read_text())["problems_hash"])
    assert hashes[0] == hashes[1] != hashes[2]


def test_the_commit_is_that_of_the_root_and_dirty_when_a_tracked_file_differs(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*args: str) -> str:
        who = ("-c", "user.name=me", "-c", "user.email=me@example.com")
        return subprocess.check_output(["git", *who, *args], text=True, cwd=pytester.path).strip()

    assert provenance.git(pytester.path) == ("", None)
    git("init", "-q")
    assert provenance.git(pytester.path) == ("", None)
    (pytester.path / "a.py").touch()
    git("add", "a.py")
    git("commit", "-qm", "first")
    commit = git("rev-parse", "HEAD")
    (pytester.path / "untracked").touch()
    assert provenance.git(pytester.path) == (commit, False)
    (pytester.path / "a.py").write_text("changed = True")
    assert provenance.git(pytester.path) == (commit, True)
    monkeypatch.setenv("PATH", "/nowhere")
    assert provenance.git(pytester.path) == ("", None)


def test_the_code_of_a_reward_function_is_hashed_without_importing_it(tmp_path: Path) -> None:
    module = tmp_path / "package" / "mine.py"
    module.parent.mkdir()
    module.write_text("raise RuntimeError('imported')")
    ours = provenance.code_hash("", [tmp_path])
    first = provenance.code_hash("package.mine:reward", [tmp_path])
    module.write_text("raise RuntimeError('imported again')")
    second = provenance.code_hash("package.mine:reward", [tmp_path])
    assert len({ours, first, second}) == 3
    assert provenance.code_hash("no.such.module:reward", [tmp_path]) == ours


@pytest.mark.parametrize(
    ("name", "first", "second", "shown"),
    [
        ("model", "scripted", "toy", "scripted in the run, toy now"),
        ("temperature", 0.0, 0.5, "0.0 in the run, 0.5 now"),
        ("top_p", None, 0.5, "null in the run, 0.5 now"),
        ("cpu_limit", 3, 4, "3 in the run, 4 now"),
        ("max_turns", 3, None, "3 in the run, null now"),
        ("rollout_timeout", 1200.0, 60.0, "1200.0 in the run, 60.0 now"),
        ("image", "python:3.11", "python:3.12", "python:3.11 in the run, python:3.12 now"),
        ("extra_body", {"k": 1}, {"k": 2}, '{"k": 1} in the run, {"k": 2} now'),
        ("split", "", "test", "none in the run, test now"),
    ],
)
def test_a_setting_that_differs_is_named_with_both_values(
    name: str, first: object, second: object, shown: str
) -> None:
    made = Provenance("id", "", ())
    before, now = (replace(made, **{name: value}) for value in (first, second))  # type: ignore[arg-type]  # the name decides
    option = f"--cwsandbox-{name.replace('_', '-')}"
    assert provenance.conflicts(before, now) == [f"{option}: {shown}"]
    assert provenance.conflicts(before, replace(before, retries=9, tags=("x",))) == []


def test_a_run_is_not_continued_with_another_setting(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_one(record_reward): record_reward(1.0)")
    alone(pytester, "--cwsandbox-temperature=0").assert_outcomes(passed=1)
    before = contents(pytester.path)
    options = ["--cwsandbox-temperature=0.5", "--cwsandbox-image=no:such"]
    result = alone(pytester, "--cwsandbox-resume=latest", *options)
    assert result.ret == USAGE_ERROR
    [line] = said(result)
    assert "--cwsandbox-temperature: 0.0 in the run, 0.5 now" in line
    assert "--cwsandbox-image: python:3." in line
    assert "resume with the command line of the run: pytest " in line
    assert line.endswith("-p no:xdist --cwsandbox-temperature=0")
    assert contents(pytester.path) == before


def test_secrets_and_what_is_no_setting_may_differ(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_one(record_reward): record_reward(1.0)")
    alone(pytester, '--cwsandbox-extra-body={"api_key": "one"}', "--cwsandbox-retries=0")
    result = alone(
        pytester,
        '--cwsandbox-extra-body={"api_key": "two"}',
        "--cwsandbox-resume=latest",
        "--cwsandbox-retries=8",
        "--cwsandbox-min-pass-rate=0.5",
    )
    assert result.ret == 0


def test_a_run_is_not_continued_on_other_problems(
    pytester: pytest.Pytester, run: Run, problems: Path
) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.problems()
        def test_problem(problem, record_reward):
            record_reward(1.0)
        """
    )
    run("--cwsandbox-problems=mine.jsonl").assert_outcomes(passed=1)
    before = contents(pytester.path)
    problems.write_text(json.dumps(ROW | {"prompt": "Subtract."}))
    result = run("--cwsandbox-problems=mine.jsonl", "--cwsandbox-resume=latest")
    assert result.ret == USAGE_ERROR
    [line] = said(result)
    assert "--cwsandbox-problems: what was collected has changed: " in line
    assert contents(pytester.path) == before


def test_a_run_is_not_continued_with_another_reward_function(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_one(record_reward): record_reward(1.0)")
    alone(pytester).assert_outcomes(passed=1)
    change(pytester.path, reward_hash="0" * 64)
    [line] = said(alone(pytester, "--cwsandbox-resume=latest"))
    assert "--cwsandbox-reward: the code that rewards has changed: sha256 000000000000" in line


def test_other_versions_and_commits_are_warned_of_and_written_down(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile("def test_one(record_reward): record_reward(1.0)")
    run().assert_outcomes(passed=1)
    change(pytester.path, versions={"pytest": "8.0"}, git_commit="abc", ended=None)
    started = run_json(pytester.path)["started"]
    result = run("--cwsandbox-resume=latest")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["*--cwsandbox-resume: pytest 8.0 in the run, * now*"], consecutive=False
    )
    result.stdout.fnmatch_lines(["*--cwsandbox-resume: git commit abc in the run, none now*"])
    made = run_json(pytester.path)
    assert (made["started"], len(made["resumed"])) == (started, 1)
    assert any(line.startswith("pytest 8.0 in the run") for line in made["differences"])
    assert made["ended"] is not None


def test_a_run_that_was_killed_before_it_was_written_can_be_continued(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile("def test_one(record_reward): record_reward(1.0)")
    run().assert_outcomes(passed=1)
    (folder(pytester.path) / "run.json").unlink()
    assert run("--cwsandbox-resume=latest", "--cwsandbox-seed=3").ret == 0
    assert run_json(pytester.path)["seed"] == 3


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ('{"schema": 1, "run": "a', "not valid JSON"),
        ("[]", "must be a JSON object, got list"),
        ('{"schema": 2}', "schema 2, and this version of pytest-cwsandbox reads schema 1: upgrade"),
        ('{"run": "a"}', 'it has no "schema"'),
        ('{"schema": 1, "colour": "red"}', 'unknown field "colour"'),
        ('{"schema": 1}', 'missing field "backend"'),
    ],
)
def test_one_that_cannot_be_read_is_named(tmp_path: Path, content: str, named: str) -> None:
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(ProblemFileError) as raised:
        provenance.read(tmp_path)
    assert str(raised.value).startswith(f"{tmp_path / 'run.json'}: ")
    assert named in str(raised.value)


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    made = Provenance("id", "2026-01-01T00:00:00+00:00", ("pytest", "-n2"), seeds={"0": 1})
    provenance.write(tmp_path, made)
    assert provenance.read(tmp_path) == made


def alone(pytester: pytest.Pytester, *args: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess("-p", "no:xdist", *args)


def said(result: pytest.RunResult) -> list[str]:
    """The errors, which are on one line each."""
    lines = [*result.errlines, *result.outlines]
    return [line for line in lines if line.startswith("ERROR: ")]


def change(path: Path, **fields: object) -> None:
    file = folder(path) / "run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))
