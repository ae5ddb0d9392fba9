"""However a runner ends, or whoever it belongs to, nothing of it stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cwsandbox import Sandbox, SandboxStatus

from pytest_cwsandbox.errors import BackendError
from pytest_cwsandbox.runner import join_or_start

from .conftest import launched

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .conftest import Runner


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    """A runner of the test's own, to be harmed."""
    with launched(tmp_path) as running:
        yield running


@contextmanager
def busy(runner: Runner) -> Iterator[set[int]]:
    """Sandboxes at work in a runner; the processes of it all."""
    sandboxes = [Sandbox.run(defaults=runner.defaults) for _ in range(2)]
    for sandbox in sandboxes:
        sandbox.wait()
        sandbox.exec(["sh", "-c", "setsid sleep 4444 & sleep 4444"])
        assert sandbox.exec(["true"]).result().returncode == 0
    yield runner.processes()


def test_the_rendezvous_is_its_owners_alone(runner: Runner) -> None:
    status = runner.rendezvous.stat()
    assert status.st_mode & 0o777 == 0o600
    assert status.st_uid == os.getuid()


def test_a_terminated_runner_leaves_nothing(runner: Runner) -> None:
    with busy(runner) as processes:
        runner.process.send_signal(signal.SIGTERM)
        runner.wait_until_gone(processes)
    assert runner.process.returncode == 0


def test_a_killed_runner_leaves_nothing(runner: Runner) -> None:
    with busy(runner) as processes:
        runner.process.kill()
        runner.wait_until_gone(processes)


def test_sandboxes_may_live_no_longer_than_the_runner_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with launched(tmp_path, "--max-lifetime", "1") as runner:
        for name, value in runner.environment.items():
            monkeypatch.setenv(name, value)
        sandbox = Sandbox.run(defaults=runner.defaults)
        sandbox.wait_until_complete(timeout=60, raise_on_termination=False).result()
        assert sandbox.status == SandboxStatus.TERMINATED
        assert sandbox.status_reason == "its lifetime of 1 s is over"


def test_a_runner_survives_what_its_session_does_not_get(runner: Runner) -> None:
    """The terminal's Ctrl-C goes to the foreground group, which a runner is not part of."""
    assert os.getpgid(runner.pid) != os.getpgrp()


@contextmanager
def held(tmp_path: Path) -> Iterator[tuple[Runner, subprocess.Popen[bytes]]]:
    """A runner, and the process on whose life its own depends."""
    fifo = tmp_path / "lifeline"
    os.mkfifo(fifo)
    script = "import sys, time; held = open(sys.argv[1], 'wb', 0); time.sleep(3600)"
    holder = subprocess.Popen([sys.executable, "-c", script, str(fifo)])
    try:
        reader = fifo.open("rb")  # returns when the holder has opened its side
        with launched(tmp_path, "--lifeline", str(fifo)) as runner:
            reader.close()
            yield runner, holder
    finally:
        holder.kill()
        holder.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_runner_ends_with_the_holder_of_its_lifeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    with held(tmp_path) as (runner, holder):
        for name, value in runner.environment.items():
            monkeypatch.setenv(name, value)
        with busy(runner) as processes:
            holder.send_signal(number)
            holder.wait()
            runner.wait_until_gone(processes)
        assert runner.process.returncode == 0


def test_a_lifeline_may_be_a_process(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as holder:
        pidfd = os.pidfd_open(holder.pid)
        os.set_inheritable(pidfd, True)
        with launched(tmp_path, "--lifeline-fd", str(pidfd), pass_fds=(pidfd,)) as runner:
            processes = runner.processes()
            assert runner.process.poll() is None
            holder.kill()
            runner.wait_until_gone(processes)
        os.close(pidfd)


def ended(tmp_path: Path, *arguments: str, **environment: str) -> tuple[int, str]:
    """Exit code and last words of a runner that does not get to serve."""
    completed = subprocess.run(
        [
            *(sys.executable, "-m", "pytest_cwsandbox.local"),
            *("--state-dir", str(tmp_path / "state"), *arguments),
        ],
        env={**os.environ, **environment},
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    assert not (tmp_path / "state").exists()
    return completed.returncode, completed.stderr


def test_without_a_holder_a_runner_does_not_start(tmp_path: Path) -> None:
    fifo = tmp_path / "lifeline"
    os.mkfifo(fifo)
    assert ended(tmp_path, "--lifeline", str(fifo)) == (0, "")


def test_a_runner_that_cannot_say_where_it_is_ends(tmp_path: Path) -> None:
    code, said = ended(tmp_path, "--rendezvous", str(tmp_path / "missing" / "runner.json"))
    assert code == 3
    assert said.startswith("error: the rendezvous file cannot be written: ")
    assert len(said.splitlines()) == 1


def test_all_who_wanted_one_that_cannot_start_hear_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if Path("/usr/bin/bwrap").exists():
        pytest.skip("the system's bwrap comes first, and cannot be replaced here")
    bwrap = tmp_path / "bin" / "bwrap"
    bwrap.parent.mkdir()
    bwrap.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = --version ]; then echo bubblewrap 0.11.0; exit 0; fi\n'
        "echo no such luck >&2; exit 1\n"
    )
    for each in (tmp_path, bwrap.parent, bwrap):
        each.chmod(0o755)
    monkeypatch.setenv("PATH", str(bwrap.parent), prepend=":")

    def want(_: int) -> str:
        with pytest.raises(BackendError) as caught:
            join_or_start(tmp_path / "runs" / "run", lifeline=os.getpid())
        return str(caught.value)

    with ThreadPoolExecutor(4) as wanting:
        reasons = set(wanting.map(want, range(12)))
    (reason,) = reasons
    assert "no such luck" in reason
