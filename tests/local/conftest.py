"""The runner as its users meet it: a process of its own, the unmodified SDK talking to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
from cwsandbox import DataPlaneMode, SandboxDefaults
from cwsandbox._proto import sandbox_pb2_grpc

from .child import ACCOUNTS, Child

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cwsandbox._proto.sandbox_pb2_grpc import SandboxServiceStub

START_SECONDS = 60
GONE_SECONDS = 10
IMAGE = f"python:{sys.version_info.major}.{sys.version_info.minor}"


@dataclass(frozen=True)
class Runner:
    """A running runner: what its rendezvous says, and what it holds on this machine."""

    process: subprocess.Popen[bytes]
    rendezvous: Path
    state_dir: Path
    address: str
    token: str
    images: tuple[str, ...]

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def environment(self) -> dict[str, str]:
        """What the SDK needs; gRPC would send even loopback calls to a proxy."""
        return {
            "CWSANDBOX_BASE_URL": self.address,
            "CWSANDBOX_API_KEY": self.token,
            "CWSANDBOX_DISABLE_SIGNAL_HANDLERS": "1",
            "no_proxy": "127.0.0.1",
            "NO_PROXY": "127.0.0.1",
        }

    @property
    def defaults(self) -> SandboxDefaults:
        return SandboxDefaults(
            container_image=IMAGE,
            base_url=self.address,
            data_plane_mode=DataPlaneMode.GATEWAY,
            max_lifetime_seconds=300,
        )

    @property
    def credentials(self) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self.token}"),)

    def processes(self) -> set[int]:
        """The runner and everything that it started, directly or not."""
        return {self.pid, *descendants(self.pid)}

    def wait_until_gone(self, processes: set[int]) -> None:
        """Fail unless these processes and the runner's files go away, as they must, in time."""
        deadline = time.monotonic() + GONE_SECONDS
        left: list[object] = []
        while time.monotonic() < deadline:
            self.process.poll()  # collects it: a zombie would count as a process
            left = [pid for pid in processes if alive(pid)]
            left += [path for path in (self.state_dir, self.rendezvous) if path.exists()]
            if not left:
                return
            time.sleep(0.02)
        pytest.fail(f"still there {GONE_SECONDS} s after the end: {left}")


def alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be collected does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def descendants(pid: int) -> set[int]:
    children: dict[int, set[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            children.setdefault(int(stat.rpartition(")")[2].split()[1]), set()).add(int(entry.name))
    found: set[int] = set()
    unseen = {pid}
    while unseen:
        below = children.get(unseen.pop(), set()) - found
        found |= below
        unseen |= below
    return found


@contextmanager
def launched(folder: Path, *arguments: str, pass_fds: tuple[int, ...] = ()) -> Iterator[Runner]:
    """Start a runner whose files are in ``folder``; ended with the block, and with this process."""
    own = os.pidfd_open(os.getpid())
    if not any(argument.startswith("--lifeline") for argument in arguments):
        arguments += ("--lifeline-fd", str(own))
        pass_fds += (own,)
    state_dir = folder / "state"
    state_dir.mkdir()
    rendezvous = folder / "runner.json"
    with (folder / "errors").open("w+b") as errors:
        process = subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "pytest_cwsandbox.local"),
                *("--rendezvous", str(rendezvous), "--state-dir", str(state_dir), *arguments),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
            pass_fds=pass_fds,
        )
        os.close(own)
        try:
            deadline = time.monotonic() + START_SECONDS
            while not rendezvous.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    errors.seek(0)
                    pytest.fail(f"the runner did not start: {errors.read().decode()}")
                time.sleep(0.01)
            row = json.loads(rendezvous.read_text())
            assert row["pid"] == process.pid
            yield Runner(
                process,
                rendezvous,
                state_dir,
                address=row["address"],
                token=row["token"],
                images=tuple(row["images"]),
            )
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(timeout=GONE_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            errors.seek(0)
            # Shown by pytest when a test fails.
            sys.stderr.write(errors.read().decode())


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    """One runner for all tests that do not harm it."""
    with launched(tmp_path_factory.mktemp("runner")) as running:
        yield running


@pytest.fixture(autouse=True)
def _sdk_environment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Point the SDK at the runner, for the tests that use one and for no others."""
    if "runner" in request.fixturenames:
        running: Runner = request.getfixturevalue("runner")
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)


@pytest.fixture
def defaults(runner: Runner, request: pytest.FixtureRequest) -> SandboxDefaults:
    """SDK defaults for sandboxes on the runner, tagged with the test."""
    return runner.defaults.with_overrides(tags=(tag(request.node.name),))


def tag(name: str) -> str:
    return f"test:{os.getpid()}-{name}"


@pytest.fixture
def stub(runner: Runner) -> Iterator[SandboxServiceStub]:
    """The protocol without the SDK's behaviour around it."""
    with grpc.insecure_channel(
        runner.address.removeprefix("http://"),
        options=[("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", 100 << 20)],
    ) as channel:
        yield sandbox_pb2_grpc.SandboxServiceStub(channel)  # type: ignore[no-untyped-call]  # generated


@pytest.fixture(scope="module", params=ACCOUNTS)
def child(request: pytest.FixtureRequest) -> Iterator[Child]:
    """A process with a prepared host, for each account that can start a runner."""
    child = Child(request.param)
    yield child
    child.close()
