"""Faults that the runner injects: what the SDK sees of them, and what a grader makes of them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from cwsandbox import (
    CWSandboxError,
    SandboxExecutionError,
    SandboxFailedError,
    SandboxNotRunningError,
    SandboxResourceExhaustedError,
    SandboxStatus,
    SandboxUnavailableError,
)

from pytest_cwsandbox import runner
from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.connections import grading_session
from pytest_cwsandbox.errors import BackendError
from pytest_cwsandbox.grading import Grader
from pytest_cwsandbox.grading.limits import Limits
from pytest_cwsandbox.local.faults import Fault, Faults, Kind, read_faults
from pytest_cwsandbox.outcome import Verdict
from pytest_cwsandbox.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cwsandbox import Session

FAILURES = {
    Kind.CREATE_UNAVAILABLE: SandboxUnavailableError,
    Kind.CREATE_EXHAUSTED: SandboxResourceExhaustedError,
    Kind.START_FAILED: SandboxFailedError,
    Kind.EXEC_UNAVAILABLE: SandboxUnavailableError,
    Kind.EXEC_DROPPED: SandboxExecutionError,
    Kind.EXEC_LOST: SandboxUnavailableError,
    Kind.FILE_UNAVAILABLE: SandboxUnavailableError,
    Kind.SANDBOX_TAKEN: SandboxNotRunningError,
}
LIMITS = Limits(cpu_seconds=5, wall_seconds=30)
# The second assert needs the judge, whose sandbox grades share: a fault there is nobody else's.
ADD = Problem(
    "add",
    "Add two numbers.",
    ("assert add(2, 3) == 5", "assert abs(add(0.1, 0.2) - 0.3) < 1e-9"),
    entry_point="add",
)
# Not ASCII: such code reaches the sandbox as a file.
RIGHT = "def add(a, b):  # adição\n    return a + b\n"
WRONG = "def add(a, b):  # adição\n    return a - b\n"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service without room for a while has failed."""
    monkeypatch.setattr("pytest_cwsandbox.pool.REFUSED_SECONDS", 0.5)


@contextlib.contextmanager
def faulty_session(*faults: str) -> Iterator[Session]:
    with grading_session(BackendOptions("local"), faults=faults) as session:
        yield session


def rewards(session: Session, *programs: str, retries: int) -> list[float | None]:
    grader = Grader(session, limits=LIMITS, retries=retries, concurrency=4)
    with contextlib.closing(grader):
        refs = [grader.grade_code(ADD, program) for program in programs]
        outcomes = [ref.result() for ref in refs]
    for outcome in outcomes:
        assert (outcome.reward is None) == (outcome.verdict is Verdict.INFRASTRUCTURE_ERROR)
        assert "python" not in outcome.detail  # the command is long and holds the program
    return [outcome.reward for outcome in outcomes]


class TestReading:
    @pytest.mark.parametrize(
        ("text", "fault"),
        [
            ("exec-lost", Fault(Kind.EXEC_LOST)),
            ("exec-lost@0.3", Fault(Kind.EXEC_LOST, share=0.3)),
            ("exec-lost@0", Fault(Kind.EXEC_LOST, share=0)),
            ("create-latency=3", Fault(Kind.CREATE_LATENCY, value=3)),
            ("exec-latency=0.2@.5", Fault(Kind.EXEC_LATENCY, value=0.2, share=0.5)),
        ],
    )
    def test_a_fault_has_a_kind_a_value_and_a_share(self, text: str, fault: Fault) -> None:
        assert read_faults([text]) == [fault]
        assert read_faults([str(fault)]) == [fault]

    @pytest.mark.parametrize(
        ("texts", "complaint"),
        [
            (["exec-lots"], "--fault exec-lots: no such fault; there are create-unavailable, "),
            ([""], "--fault : no such fault"),
            (["exec-lost=1"], "--fault exec-lost=1: exec-lost takes no value"),
            (["exec-latency"], "needs seconds, such as exec-latency=0.2"),
            (["exec-latency=soon"], "needs seconds"),
            (["exec-latency=-1"], "needs seconds"),
            (["exec-latency=inf"], "needs seconds"),
            (["exec-latency=nan"], "needs seconds"),
            (["exec-lost@"], "the share must be between 0 and 1, such as @0.3"),
            (["exec-lost@1.5"], "the share must be between 0 and 1"),
            (["exec-lost@nan"], "the share must be between 0 and 1"),
            (["exec-lost@0.5@0.5"], "the share must be between 0 and 1"),
            (["exec-lost", "exec-lost@0.5"], "exec-lost is given twice"),
        ],
    )
    def test_a_bad_fault_is_named_with_the_remedy(self, texts: list[str], complaint: str) -> None:
        with pytest.raises(BackendError) as caught:
            read_faults(texts)
        assert complaint in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_a_bad_fault_is_one_line_on_the_command_line(self) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "pytest_cwsandbox", "serve", "--fault", "exec-lots"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2
        assert done.stdout == ""
        (line,) = done.stderr.splitlines()
        assert line.startswith("Error: --fault exec-lots: no such fault; there are ")


class TestShares:
    def strikes(self, kind: Kind, *texts: str, seed: int = 0) -> list[bool]:
        faults = Faults(read_faults(texts), seed=seed)
        return [faults.strikes(kind) for _ in range(1000)]

    def test_a_seed_decides_which_calls_are_struck(self) -> None:
        first = self.strikes(Kind.EXEC_LOST, "exec-lost@0.3")
        assert first == self.strikes(Kind.EXEC_LOST, "exec-lost@0.3")
        assert first != self.strikes(Kind.EXEC_LOST, "exec-lost@0.3", seed=1)

    def test_a_share_is_met(self) -> None:
        assert 250 < sum(self.strikes(Kind.EXEC_LOST, "exec-lost@0.3")) < 350
        assert all(self.strikes(Kind.EXEC_LOST, "exec-lost"))
        assert not any(self.strikes(Kind.EXEC_LOST, "exec-lost@0"))

    def test_kinds_do_not_depend_on_each_other(self) -> None:
        both = Faults(read_faults(["exec-lost@0.3", "exec-dropped@0.3"]))
        lost, dropped = [], []
        for _ in range(1000):
            lost.append(both.strikes(Kind.EXEC_LOST))
            dropped.append(both.strikes(Kind.EXEC_DROPPED))
        assert lost == self.strikes(Kind.EXEC_LOST, "exec-lost@0.3")
        assert dropped == self.strikes(Kind.EXEC_DROPPED, "exec-dropped@0.3")
        assert lost != dropped

    def test_kinds_that_are_not_asked_for_never_strike(self) -> None:
        assert not any(self.strikes(Kind.EXEC_LOST, "exec-dropped"))


@pytest.fixture(scope="module", params=[*FAILURES])
def kind(request: pytest.FixtureRequest) -> Kind:
    return Kind(request.param)


@pytest.fixture(scope="module")
def failing(kind: Kind) -> Iterator[Session]:
    """A session whose runner strikes every call that the kind of fault can strike."""
    with faulty_session(kind) as session:
        yield session


def test_the_sdk_raises_the_services_own_failure(kind: Kind, failing: Session) -> None:
    with pytest.raises(CWSandboxError) as caught:
        use(failing)
    assert type(caught.value) is FAILURES[kind]


def test_a_grade_is_none(failing: Session) -> None:
    assert rewards(failing, RIGHT, WRONG, retries=1) == [None, None]


def use(session: Session) -> None:
    """Do once what faults can strike."""
    sandbox = session.sandbox()
    sandbox.wait()
    sandbox.exec(["true"]).result()
    sandbox.write_file("/tmp/note", b"").result()


@pytest.mark.parametrize("kind", FAILURES)
def test_retries_get_through_to_the_right_rewards(kind: Kind) -> None:
    with faulty_session(f"{kind}@0.3") as session:
        assert rewards(session, *[RIGHT, WRONG] * 4, retries=8) == [1.0, 0.0] * 4


@pytest.mark.parametrize("kind", FAILURES)
def test_without_retries_a_reward_is_right_or_none(kind: Kind) -> None:
    with faulty_session(f"{kind}@0.3") as session:
        found = rewards(session, *[RIGHT, WRONG] * 8, retries=0)
    assert set(found[::2]) <= {1.0, None}
    assert set(found[1::2]) <= {0.0, None}
    if kind is not Kind.CREATE_EXHAUSTED:  # no failure: who is refused asks again
        assert None in found


class TestExecution:
    def test_a_dropped_stream_has_all_output_but_no_exit(self) -> None:
        with faulty_session("exec-dropped") as session:
            sandbox = session.sandbox()
            process = sandbox.exec(["sh", "-c", "echo done; touch /tmp/done"])
            assert list(process.stdout) == ["done\n"]
            with pytest.raises(SandboxExecutionError, match="without an exit status"):
                process.result()
            assert sandbox.read_file("/tmp/done").result() == b""

    def test_a_lost_sandbox_is_gone_for_all_that_use_it(self) -> None:
        # The first command is spared, the second is not.
        with faulty_session("exec-lost@0.3") as session:
            sandbox = session.sandbox()
            running = sandbox.exec(["sh", "-c", "echo up; sleep 600"])
            assert next(iter(running.stdout)) == "up\n"
            with pytest.raises(SandboxUnavailableError, match="exec-lost"):
                sandbox.exec(["true"]).result()
            with pytest.raises(SandboxUnavailableError, match="exec-lost"):
                running.result()
            with pytest.raises(SandboxUnavailableError, match="exec-lost"):
                sandbox.read_file("/etc/passwd").result()
            assert sandbox.get_status() is SandboxStatus.FAILED

    def test_a_sandbox_that_is_taken_away_was_terminated(self) -> None:
        with faulty_session("sandbox-taken") as session:
            sandbox = session.sandbox()
            sandbox.write_file("/tmp/note", b"").result()
            with pytest.raises(SandboxNotRunningError):
                sandbox.exec(["true"]).result()
            assert sandbox.get_status() is SandboxStatus.TERMINATED


class TestLatency:
    def test_it_is_added_to_every_call_and_changes_no_reward(self) -> None:
        with faulty_session("create-latency=0.4", "exec-latency=0.3") as session:
            started = time.monotonic()
            session.sandbox().wait()
            created = time.monotonic()
            assert created - started >= 0.4
            session.sandbox().exec(["true"]).result()
            assert time.monotonic() - created >= 0.7
            assert rewards(session, RIGHT, WRONG, retries=0) == [1.0, 0.0]


class TestStarting:
    def test_a_runner_says_which_faults_it_injects(self, tmp_path: Path) -> None:
        faults = ("exec-lost@0.5", "create-latency=3")
        try:
            served = runner.join_or_start(tmp_path, lifeline=os.getpid(), faults=faults)
            environment = served.environment({})
            assert environment[runner.LOCAL_MARKER].endswith(
                "; injected faults: exec-lost@0.5, create-latency=3"
            )
        finally:
            runner.stop(tmp_path)

    def test_one_that_injects_none_says_nothing(self, tmp_path: Path) -> None:
        try:
            served = runner.join_or_start(tmp_path, lifeline=os.getpid())
            assert "fault" not in served.environment({})[runner.LOCAL_MARKER]
        finally:
            runner.stop(tmp_path)

    def test_an_inherited_runner_is_not_taken_for_a_faulty_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        served = runner.join_or_start(tmp_path, lifeline=os.getpid())
        try:
            for name, value in served.environment({}).items():
                monkeypatch.setenv(name, value)
            with (
                faulty_session("create-unavailable") as session,
                pytest.raises(SandboxUnavailableError),
            ):
                session.sandbox().start().result()
            assert os.environ["CWSANDBOX_BASE_URL"] == served.address
        finally:
            runner.stop(tmp_path)

    def test_the_hosted_service_cannot_be_asked_for_faults(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CWSANDBOX_API_KEY", "a-key")
        monkeypatch.delenv(runner.LOCAL_MARKER, raising=False)
        with (
            pytest.raises(BackendError, match="only the local runner injects faults"),
            grading_session(BackendOptions("hosted"), faults=["exec-lost"]),
        ):
            pass

    def test_serve_passes_faults_on(self) -> None:
        program = "import cwsandbox; cwsandbox.Sandbox.run().exec(['true']).result()"
        command = [sys.executable, "-m", "pytest_cwsandbox", "serve", "--fault", "exec-unavailable"]
        done = subprocess.run(
            [*command, "--", sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert "SandboxUnavailableError: Service unavailable: injected fault" in done.stderr
