"""What a run leaves that ended with a usage error: nothing of its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., pytest.RunResult]

SAMPLES = """
import pytest

@pytest.mark.parametrize("number", range(3))
def test_sample(number, record_reward):
    record_reward(1.0)
"""
UNKNOWN = "--cwsandbox-min-pass-rate=test_it/no_such_test=0.5"
RESUME = "--cwsandbox-resume=latest"


def runs(pytester: pytest.Pytester) -> list[Path]:
    return sorted(pytester.path.glob(".cwsandbox/runs/*"))


def content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_a_new_run_leaves_no_folder(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(test_it=SAMPLES)
    result = run(UNKNOWN)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert runs(pytester) == []
    assert "Traceback" not in result.stdout.str() + result.stderr.str()
    result.stdout.no_fnmatch_line("*Warning*")


def test_a_run_that_was_to_be_continued_stays_as_it_was(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(test_it=SAMPLES)
    assert run().ret == 0
    (folder,) = runs(pytester)
    before = content(folder)
    assert run("-k", "0", RESUME, UNKNOWN).ret == pytest.ExitCode.USAGE_ERROR
    assert content(folder) == before


def test_a_run_whose_problems_have_changed_stays_as_it_was(
    pytester: pytest.Pytester, run: Run
) -> None:
    problem = {
        "task_id": "one",
        "text": "Return one.",
        "code": "def f(): return 1",
        "test_list": ["assert f() == 1"],
    }
    file = pytester.path / "own.jsonl"
    file.write_text(json.dumps(problem) + "\n")
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.problems()
        def test_sample(problem, record_reward): record_reward(1.0)
        """
    )
    own = f"--cwsandbox-problems={file}"
    assert run(own).ret == 0
    (folder,) = runs(pytester)
    before = content(folder)
    file.write_text(json.dumps({**problem, "text": "Return 1."}) + "\n")
    result = run(own, RESUME)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*cannot be continued*"])
    assert content(folder) == before


# A folder of runs that cannot be written


@pytest.mark.parametrize("place", ["a-file", "a-file/runs", "/proc/runs"])
def test_a_report_dir_that_cannot_be_written_is_said_before_anything_runs(
    pytester: pytest.Pytester, run: Run, place: str
) -> None:
    (pytester.path / "a-file").touch()
    pytester.makepyfile("def test_plain(): print('it ran')")
    result = run("-s", f"--cwsandbox-report-dir={place}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (said,) = (line for line in result.stderr.lines if line.startswith("ERROR"))
    assert f"{place}: cannot be written: " in said
    assert said.endswith("; choose another folder with --cwsandbox-report-dir")
    result.stdout.no_fnmatch_line("*it ran*")


def test_a_report_dir_is_made_by_the_run_that_records_something(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile("def test_plain(): pass")
    assert run("--cwsandbox-report-dir=not/yet/there").ret == 0
    assert not (pytester.path / "not").exists()


def test_samples_need_a_folder_also_where_no_option_is_given(pytester: pytest.Pytester) -> None:
    (pytester.path / ".cwsandbox").touch()
    pytester.makepyfile("def test_plain(): pass")
    assert pytester.runpytest_subprocess("-n0").ret == 0
    pytester.makepyfile(test_it=SAMPLES)
    result = pytester.runpytest_subprocess("-n0")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: the results could not be written to *: Not a directory;*"])
    result.stdout.no_fnmatch_line("* passed*")
