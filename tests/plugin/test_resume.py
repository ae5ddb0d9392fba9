"""`--cwsandbox-resume`: what is finished is replayed, the rest runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.runs.lock import FolderLock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., pytest.RunResult]

RESUME = "--cwsandbox-resume=latest"
INCONCLUSIVE = 75

# What is left to do is lost in the first run: "broken" is there.
STAGES = """
import asyncio
from pathlib import Path
import pytest
from pytest_cwsandbox.errors import InfrastructureError

def note(word):
    with Path("notes").open("a") as file:
        file.write(word + " ")

@pytest.fixture(scope="module")
def module():
    note("module")
    yield
    note("module-end")

class TestAll:
    @pytest.fixture(scope="class", autouse=True)
    def around(self, module):
        note("class")
        yield
        note("class-end")

    @pytest.fixture
    def own(self, request):
        note(request.node.name)

    def test_good(self, own, record_reward):
        record_reward(1.0)

    def test_low(self, own, record_reward):
        record_reward(0.25, detail="a quarter")
        assert False, "too low"

    def test_lost(self, own, record_reward):
        if Path("broken").exists():
            raise InfrastructureError("down")
        record_reward(1.0)

    async def test_waits(self, own, record_reward):
        await asyncio.sleep(0)
        record_reward(1.0)

    def test_skips(self, own, record_reward):
        record_reward(1.0)
        pytest.skip("seen enough")

    @pytest.mark.xfail(raises=ZeroDivisionError, reason="known")
    def test_expected(self, own, record_reward):
        record_reward(1.0)
        1 / 0

def test_check():
    note("check")
"""


def notes(pytester: pytest.Pytester) -> list[str]:
    """What was set up and torn down since the last time; workers write in any order."""
    file = pytester.path / "notes"
    words = file.read_text().split() if file.exists() else []
    file.unlink(missing_ok=True)
    return words


def folder(pytester: pytest.Pytester) -> Path:
    """The folder of the only run."""
    [found] = (pytester.path / ".cwsandbox" / "runs").iterdir()
    return found


def summary(pytester: pytest.Pytester) -> dict[str, object]:
    """Without seconds."""
    found: dict[str, object] = json.loads((folder(pytester) / "summary.json").read_text())
    for group in (*found["groups"], found["all"]):  # type: ignore[misc]  # as summary.py says
        del group["p50_seconds"], group["p95_seconds"]
    return found


@pytest.mark.parametrize("gate", [(), ("--cwsandbox-min-pass-rate=0.5",)], ids=["no gate", "gate"])
def test_finished_samples_are_replayed_and_the_rest_runs(
    pytester: pytest.Pytester, run: Run, gate: tuple[str, ...]
) -> None:
    pytester.makepyfile(test_stages=STAGES)
    (pytester.path / "broken").touch()
    assert run(*gate).ret == (INCONCLUSIVE if gate else pytest.ExitCode.TESTS_FAILED)
    assert len(notes(pytester)) >= 11
    (pytester.path / "broken").unlink()
    result = run("-v", "-rx", *gate, RESUME)
    assert result.ret == (0 if gate else pytest.ExitCode.TESTS_FAILED)
    low = "LOW REWARD" if gate else "FAILED"
    result.stdout.fnmatch_lines_random(
        [
            "*REPLAYED*",
            f"*{low}*",
            "*SKIPPED*",
            "*XFAIL*",
            "replayed: 5 samples from the journal of this run",
            "checks: 1 passed, 0 failed",
        ]
    )
    if not gate:
        result.stdout.fnmatch_lines(["replayed from the journal", "*too low*"])
    assert sorted(notes(pytester)) == sorted(
        ["module", "class", "test_lost", "class-end", "module-end", "check"]
    )
    rates = summary(pytester)["all"]
    assert isinstance(rates, dict)
    assert (rates["passed"], rates["samples"], rates["infrastructure_errors"]) == (5, 6, 0)


def test_a_run_that_is_whole_is_replayed_whole(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(test_stages=STAGES)
    run("--cwsandbox-min-pass-rate=0.5")
    before = summary(pytester)
    notes(pytester)
    result = run("--cwsandbox-min-pass-rate=0.5", f"--cwsandbox-resume={folder(pytester).name}")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["cwsandbox: the run was complete: 6 samples replayed"])
    assert summary(pytester) == before
    assert notes(pytester) == ["check"]


def test_samples_that_are_new_to_the_run_are_counted(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(test_it="def test_old(record_reward): record_reward(1.0)")
    assert run().ret == 0
    pytester.makepyfile(test_late="def test_new(record_reward): record_reward(1.0)")
    result = run(RESUME)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["cwsandbox: 1 samples are new to the run: it had not planned them before"]
    )
    result.stdout.no_fnmatch_line("*was complete*")
    result = run(RESUME)
    result.stdout.fnmatch_lines(["cwsandbox: the run was complete: 2 samples replayed"])
    result.stdout.no_fnmatch_line("*are new*")


def test_x_stops_at_a_replayed_failure_and_says_what_did_not_run(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("number", range(5))
        def test_sample(number, record_reward):
            record_reward(float(number != 2))
            assert number != 2
        """
    )
    result = pytester.runpytest_subprocess("-n0", "-x")
    line = "cwsandbox: 2 of 5 planned samples did not run; continue with --cwsandbox-resume=*"
    result.stdout.fnmatch_lines([line])
    result = pytester.runpytest_subprocess("-n0", "-x", RESUME)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*ppF*", line])
    result.stdout.no_fnmatch_line("*was complete*")
    result = pytester.runpytest_subprocess("-n0", RESUME)
    result.stdout.fnmatch_lines(["*ppF..*"])
    result.stdout.no_fnmatch_line("*did not run*")


def test_samples_that_are_not_selected_now_are_kept(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(test_stages=STAGES)
    run("--cwsandbox-min-pass-rate=0.5")
    before = summary(pytester)
    result = run("--cwsandbox-min-pass-rate=0.5", "-k", "good or check", RESUME)
    result.stdout.fnmatch_lines(
        ["cwsandbox: 5 samples of the journal are not selected now; they are kept"]
    )
    assert summary(pytester) == before


def test_a_lost_check_that_ends_well_later_is_no_sample(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(
        """
        from pathlib import Path
        from pytest_cwsandbox.errors import InfrastructureError

        def test_sample(record_reward):
            record_reward(1.0)

        def test_check():
            if Path("broken").exists():
                raise InfrastructureError("down")
        """
    )
    (pytester.path / "broken").touch()
    assert run().ret == INCONCLUSIVE
    (pytester.path / "broken").unlink()
    for _ in range(2):  # what was written then says so too
        result = run(RESUME)
        assert result.ret == 0
        result.stdout.fnmatch_lines(["checks: 1 passed, 0 failed"])


def test_of_attempts_the_last_counts(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest
        from _pytest.runner import runtestprotocol

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_protocol(item, nextitem):  # as pytest-rerunfailures does
            item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
            for attempt in range(3):
                item.attempt = attempt
                item._initrequest()
                reports = runtestprotocol(item, nextitem=nextitem, log=False)
                if attempt < 2:
                    for report in reports:
                        report.outcome = "rerun" if report.failed else report.outcome
                for report in reports:
                    item.ihook.pytest_runtest_logreport(report=report)
            return True
        """
    )
    pytester.makepyfile(
        test_again="""
        def test_better_at_last(request, record_reward):
            record_reward(request.node.attempt / 2)

        def test_records_at_first_only(request, record_reward):
            if request.node.attempt < 2:
                record_reward(0.0)
        """
    )
    result = pytester.runpytest_subprocess("-n0")
    result.stdout.fnmatch_lines(
        ["test_again/test_better_at_last*1/1*", "checks: 1 passed, 0 failed"]
    )
    [row] = map(json.loads, (folder(pytester) / "samples.jsonl").read_text().splitlines())
    assert (row["attempt"], row["reward"]) == (3, 1.0)


def test_a_failing_teardown_fails_again(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture
        def untidy():
            yield
            assert False, "left over"

        def test_sample(untidy, record_reward):
            record_reward(0.0)
            assert False
        """
    )
    gate = "--cwsandbox-min-pass-rate=0"
    assert run(gate).ret == pytest.ExitCode.TESTS_FAILED
    result = run(gate, RESUME)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*replayed from the journal", "*left over*"])


# What cannot be continued

LINE = {
    "schema": 1, "id": "test_it.py::test_sample", "group": "test_it/test_sample", "problem": "",
    "sample": 0, "reward": 1.0, "verdict": "", "detail": "", "seconds": 0.1, "worker": "main",
    "metadata": {}, "grader": "", "completion": "", "held_out": False, "retries": 0,
    "attempt": 1, "state": "ended", "ending": "passed", "failure": "", "asserted": False,
}  # fmt: skip


@pytest.fixture
def journal(pytester: pytest.Pytester) -> Path:
    """The empty journal of a run that was killed; its test records 1.0."""
    pytester.makepyfile(test_it="def test_sample(record_reward): record_reward(1.0)")
    file = pytester.path / ".cwsandbox" / "runs" / "20260101-000000-abcdef" / "samples-main.jsonl"
    file.parent.mkdir(parents=True)
    file.touch()
    return file


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({**LINE, "schema": 2}, "schema 2*reads schema 1: upgrade it"),
        ({"task_id": "a", "reward": 1}, 'no sample of a run: it has no "schema"'),
        ({**LINE, "reward": "much"}, 'field "reward" must be a finite number or null'),
        ({**LINE, "state": "begun"}, 'unknown state "begun"*'),
        ([1], "must be a JSON object, got list"),
    ],
)
def test_a_foreign_line_is_a_usage_error_that_names_it(
    pytester: pytest.Pytester, run: Run, journal: Path, line: object, message: str
) -> None:
    journal.write_text(f"{json.dumps(LINE)}\n{json.dumps(line)}\n")
    result = run(RESUME)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*--cwsandbox-resume: *samples-main.jsonl:2: {message}"])
    result.stderr.no_fnmatch_line("*Traceback*")


def test_a_line_that_was_cut_off_is_said_and_nothing_is_joined_to_it(
    pytester: pytest.Pytester, run: Run, journal: Path
) -> None:
    journal.write_text(json.dumps(LINE)[:80])
    trajectories = journal.with_name("trajectories-main.jsonl")
    trajectories.write_text('{"id": "test_it.py::te')
    result = run(RESUME)
    assert result.ret == 0
    result.stdout.fnmatch_lines_random(
        [
            "cwsandbox: *samples-main.jsonl:1: skipped the last line, which was cut off*",
            "cwsandbox: *trajectories-main.jsonl:1: skipped the last line, which was cut off*",
            "*1/1*",
        ]
    )
    assert trajectories.read_bytes() == b""
    run(RESUME).stdout.fnmatch_lines(["replayed: 1 samples*"])


def test_two_results_of_one_attempt_are_said(
    pytester: pytest.Pytester, run: Run, journal: Path
) -> None:
    journal.write_text("".join(json.dumps({**LINE, "reward": r}) + "\n" for r in (0.5, 1.0)))
    result = run(RESUME)
    result.stdout.fnmatch_lines(
        ["cwsandbox: *main.jsonl:2: sample * is also in *main.jsonl:1, with another result of *"]
    )


@pytest.mark.parametrize(
    ("run_named", "message"),
    [
        ("nowhere", "nowhere: no such file or folder, and no run in *"),
        ("test_it.py", "test_it.py: is a file; give the run's folder"),
        (".", ".: holds no run that could be continued: nothing was recorded in it; start *"),
    ],
)
def test_what_is_no_run_cannot_be_continued(
    pytester: pytest.Pytester, run: Run, journal: Path, run_named: str, message: str
) -> None:
    result = run(f"--cwsandbox-resume={run_named}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*--cwsandbox-resume: {message}"])


def test_a_run_that_is_still_going_on_cannot_be_continued(
    pytester: pytest.Pytester, run: Run, journal: Path
) -> None:
    lock = FolderLock()
    lock.take(journal.parent)
    result = run(RESUME)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--cwsandbox-resume: *is of a run that is still going on*"])
    lock.release()
    assert run(RESUME).ret == 0


def test_a_run_holds_its_folder_while_it_goes_on(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        """
        import pytest
        from pytest_cwsandbox.errors import UserError
        from pytest_cwsandbox.runs.identity import RUN
        from pytest_cwsandbox.runs.lock import FolderLock

        def test_sample(pytestconfig, record_reward):
            with pytest.raises(UserError, match="still going on"):
                FolderLock().take(pytestconfig.stash[RUN].folder)
            record_reward(1.0)
        """
    )
    assert run().ret == 0
    assert not list(pytester.path.rglob("run.lock"))


def test_what_a_killed_controller_left_does_no_harm(
    pytester: pytest.Pytester, run: Run, journal: Path
) -> None:
    dead = {"address": "http://127.0.0.1:9", "token": "x", "pid": 2**22 + 1, "isolation": "none",
            "limits": "none", "images": [], "faults": ""}  # fmt: skip
    for name in ("runner", "scripted"):
        journal.with_name(f"{name}.json").write_text(json.dumps(dead))
        journal.with_name(f"{name}.lock").touch()
    for name in ("stopped", "backend.used", "run.lock", "plan.part"):
        journal.with_name(name).write_text("1")
    pytester.makepyfile(
        test_it="""
        def test_sample(record_reward, sandbox):
            assert sandbox.exec(["echo", "alive"]).result().stdout == "alive\\n"
            record_reward(1.0)
        """
    )
    assert run(RESUME).ret == 0
    names = {path.name for path in journal.parent.iterdir()}
    assert not names & {"runner.json", "scripted.json", "stopped", "backend.used", "run.lock"}
    assert not {name for name in names if name.endswith((".part", ".lock"))}


# What is replayed ends as it did

SUBTESTS = """
import unittest
import pytest

def test_sample(subtests, record_reward):
    record_reward(1.0)
    for number in range(3):
        with subtests.test(number=number):
            assert number != 1

class TestCase(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def recording(self, record_reward):
        self.record = record_reward

    def test_good(self):
        self.record(1.0)

    def test_with_subtests(self):
        self.record(1.0)
        for number in range(3):
            with self.subTest(number=number):
                assert number != 1
"""


def test_a_failed_subtest_fails_again_and_a_test_case_of_unittest_ends_as_it_did(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(SUBTESTS)
    assert pytester.runpytest_subprocess("-n0").ret == pytest.ExitCode.TESTS_FAILED
    result = pytester.runpytest_subprocess("-n0", "-rf", RESUME)
    result.stdout.fnmatch_lines(["FAILED *::test_sample*", "FAILED *::test_with_subtests*"])
    result.stdout.fnmatch_lines(["*2 failed, 1 replayed in *"])


def test_samples_that_differ_in_a_secret_alone_stay_apart(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("header", ["Bearer aaaaaaaa1", "Bearer aaaaaaaa2"])
        def test_sample(header, record_reward):
            record_reward(1.0)
        """
    )
    run().stdout.fnmatch_lines(["*2/2*"])
    for name in ("plan.jsonl", "samples.jsonl"):
        text = (folder(pytester) / name).read_text()
        assert len({json.loads(row)["id"] for row in text.splitlines()}) == 2
        assert "aaaaaaaa" not in text
    result = run(RESUME)
    result.stdout.fnmatch_lines(["*2/2*", "replayed: 2 samples*"])
    result.stdout.no_fnmatch_line("*did not run*")


def test_a_sample_that_no_journal_can_hold_fails_its_test_alone(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(
        """
        from pytest_cwsandbox.outcome import Outcome, Verdict

        def test_odd(record_reward):
            record_reward(Outcome(Verdict.PASSED, detail=5))

        def test_good(record_reward):
            record_reward(1.0)
        """
    )
    result = run()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ['*cwsandbox: the sample cannot be written down: field "detail" cannot be 5', "*1/1*"]
    )


def test_hooks_that_look_for_fixtures_find_that_a_replayed_item_has_none(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makeconftest(
        """
        import pytest

        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_makereport(item, call):
            report = yield
            if report.when == "call" and report.failed and "tmp_path" in item.fixturenames:
                assert item.funcargs["tmp_path"]
            return report
        """
    )
    pytester.makepyfile(
        """
        def test_sample(tmp_path, record_reward):
            record_reward(1.0)
            raise ValueError
        """
    )
    for more in ((), (RESUME,)):
        result = run(*more)
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines(["*1/1*"])


@pytest.mark.parametrize(("reruns", "word"), [(2, "1 passed"), (0, "1 failed")])
def test_a_failed_item_that_was_to_be_run_again_runs(
    pytester: pytest.Pytester, journal: Path, reruns: int, word: str
) -> None:
    pytester.makeconftest(
        f"""
        class Reruns:  # what is asked of pytest-rerunfailures
            def get_reruns_count(self, item):
                return {reruns}

        def pytest_configure(config):
            config.addinivalue_line("markers", "flaky: of pytest-rerunfailures")
            config.pluginmanager.register(Reruns(), "rerunfailures")
        """
    )
    journal.write_text(json.dumps({**LINE, "ending": "failed", "failure": "no"}) + "\n")
    result = pytester.runpytest_subprocess("-n0", RESUME)
    result.stdout.fnmatch_lines([f"*{word} in *"])


def test_a_sample_whose_end_is_written_is_not_lost_with_its_process(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeconftest(
        """
        import os
        import pytest

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_logreport(report):
            if report.when == "teardown" and "PYTEST_XDIST_WORKER" in os.environ:
                os._exit(1)
        """
    )
    pytester.makepyfile("def test_sample(record_reward): record_reward(1.0)")
    result = pytester.runpytest_subprocess("-n1", "--max-worker-restart=0")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*1/1*"])


def test_the_plan_of_a_continued_run_keeps_what_is_not_selected_now(
    pytester: pytest.Pytester, run: Run, journal: Path
) -> None:
    planned = {"id": "test_it.py::test_gone", "group": "g", "problem": "", "sample": 0}
    journal.with_name("plan.jsonl").write_text(json.dumps(planned) + "\n")
    result = run(RESUME)
    result.stdout.fnmatch_lines(
        ["cwsandbox: 1 of 2 planned samples did not run; continue with --cwsandbox-resume=*"]
    )


def test_a_run_is_continued_from_within_its_folder(
    pytester: pytest.Pytester, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.write_text(json.dumps(LINE) + "\n")
    monkeypatch.chdir(journal.parent)
    result = pytester.runpytest_subprocess(
        "-n0", f"--rootdir={pytester.path}", pytester.path / "test_it.py", "--cwsandbox-resume=."
    )
    assert result.ret == 0
    assert json.loads(journal.with_name("summary.json").read_text())["run"] == journal.parent.name


# What costs no reward

FULL = """
import errno
from pytest_cwsandbox.runs import lines

def full(file, row):
    raise OSError(errno.ENOSPC, "No space left on device")

lines.append = full
"""


def test_a_journal_that_cannot_be_written_costs_no_reward_and_is_said_once(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makeconftest(FULL)
    pytester.makepyfile(
        test_full="""
        import pytest

        @pytest.mark.parametrize("number", range(4))
        def test_sample(number, record_reward): record_reward(number / 3)
        """
    )
    result = run()
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*1/4*0.500*"])
    said = [line for line in result.outlines if "could not be written" in line]
    assert len(said) == 1
    assert "No space left on device; choose another folder with --cwsandbox-report-dir" in said[0]
    result = run(RESUME)  # what the controller could write at the end
    result.stdout.fnmatch_lines(["replayed: 4 samples from the journal of this run"])


@pytest.mark.parametrize("option", ["--collect-only", "--setup-plan", "--setup-only"])
def test_a_run_that_runs_no_test_plans_none(pytester: pytest.Pytester, option: str) -> None:
    pytester.makepyfile("def test_sample(record_reward): record_reward(1.0)")
    pytester.runpytest_subprocess("-n0", option)
    assert not (pytester.path / ".cwsandbox").exists()
