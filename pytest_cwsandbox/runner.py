"""The embedded runner's process: started once per run by whoever needs it first, then shared."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pytest_cwsandbox.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

START_SECONDS = 60.0  # a loaded machine may take long; a runner that cannot start says so at once
STOP_SECONDS = 10.0
REACH_SECONDS = 5.0
RENDEZVOUS = "runner.json"
LOCK = "runner.lock"
NO_PROXY = ("no_proxy", "NO_PROXY")

# Marks the address in the environment as a local runner's: an inherited one is not "hosted".
LOCAL_MARKER = "CWSANDBOX_LOCAL_RUNNER"


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Where a runner serves and what it promises; the text lines are for people."""

    address: str
    token: str
    pid: int
    isolation: str
    limits: str
    images: tuple[str, ...]
    faults: str

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """The variables with which the SDK, in this or a child process, talks to this runner."""
        # gRPC honours a proxy even for loopback addresses.
        bypass = {name: base.get(name, "") for name in NO_PROXY}
        return {
            "CWSANDBOX_BASE_URL": self.address,
            "CWSANDBOX_API_KEY": self.token,
            LOCAL_MARKER: f"{self.isolation}; limits: {self.limits}"
            + (f"; injected faults: {self.faults}" if self.faults else ""),
            **{
                name: hosts
                if "127.0.0.1" in hosts.split(",")
                else ",".join(filter(None, (hosts, "127.0.0.1")))
                for name, hosts in bypass.items()
            },
        }


def join_or_start(
    folder: Path, *, lifeline: int, faults: Sequence[str] = (), fault_seed: int = 0
) -> Rendezvous:
    """The runner of the run whose folder this is, started if it is not there yet.

    ``lifeline`` is the process id with which the runner ends. ``faults``, as ``--fault`` takes
    them, are what the runner is started with: one that is there already keeps its own. Raises
    ``BackendError``.
    """
    from filelock import FileLock

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BackendError(unwritable(folder, error)) from error
    rendezvous = folder / RENDEZVOUS
    with FileLock(folder / LOCK):
        if not rendezvous.exists():
            injected = [part for fault in faults for part in ("--fault", fault)]
            _start(rendezvous, lifeline, [*injected, "--fault-seed", str(fault_seed)])
        return read(rendezvous)


def unwritable(folder: Path, error: OSError) -> str:
    """What to tell somebody whose run has no folder to work in."""
    return (
        f"the run's folder {folder} cannot be made: {error.strerror}; choose another place with "
        "--cwsandbox-report-dir"
    )


def inherited(environ: Mapping[str, str]) -> bool:
    """Whether the environment leads to a local runner that somebody else started."""
    return bool(environ.get(LOCAL_MARKER) and environ.get("CWSANDBOX_BASE_URL"))


def reach(environ: Mapping[str, str]) -> None:
    """Raise ``BackendError`` where the inherited runner does not answer."""
    address = environ["CWSANDBOX_BASE_URL"]
    parts = urlsplit(address)
    try:
        socket.create_connection((parts.hostname, parts.port), timeout=REACH_SECONDS).close()
    except OSError as error:
        raise BackendError(
            f"the environment leads to a local runner at {address} that does not answer "
            f"({error.strerror or error}): unset CWSANDBOX_BASE_URL, CWSANDBOX_API_KEY and "
            f"{LOCAL_MARKER}, or start it again with `pytest-cwsandbox serve`"
        ) from error


def read(rendezvous: Path) -> Rendezvous:
    """Read a rendezvous file."""
    row = json.loads(rendezvous.read_text())
    return Rendezvous(
        row["address"],
        row["token"],
        row["pid"],
        row["isolation"],
        row["limits"],
        tuple(row["images"]),
        row["faults"],
    )


def _start(rendezvous: Path, lifeline: int, arguments: Sequence[str]) -> None:
    state = Path(tempfile.mkdtemp(prefix="cwsandbox-"))
    log = state.with_suffix(".log")
    lifeline_fd = os.pidfd_open(lifeline)
    try:
        with log.open("wb") as errors:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", "pytest_cwsandbox.local"),
                    *("--rendezvous", str(rendezvous)),
                    *("--lifeline-fd", str(lifeline_fd)),
                    *("--state-dir", str(state)),
                    *arguments,
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=[lifeline_fd],
                start_new_session=True,  # the terminal's Ctrl-C is pytest's
            )
        deadline = time.monotonic() + START_SECONDS
        while not rendezvous.exists():
            if process.poll() is not None:
                raise BackendError(_reason(log, process.returncode))
            if time.monotonic() > deadline:
                process.kill()
                process.wait()
                raise BackendError(
                    f"the local runner did not start within {START_SECONDS:.0f} s; run "
                    "`pytest-cwsandbox doctor`, or use --cwsandbox-backend=hosted"
                )
            time.sleep(0.005)
    except BackendError:
        shutil.rmtree(state, ignore_errors=True)
        raise
    finally:
        os.close(lifeline_fd)
        log.unlink(missing_ok=True)


def _reason(log: Path, status: int) -> str:
    lines = log.read_text(errors="replace").splitlines()
    for line in reversed(lines):
        if line.startswith("error: "):
            return line.removeprefix("error: ")
    last = lines[-1] if lines else "it printed nothing"
    return (
        f"the local runner ended with exit code {status} before it served ({last}); "
        "run `pytest-cwsandbox doctor`"
    )


def stop(folder: Path) -> None:
    """End the run's runner, if it has one, with everything that it started."""
    if not folder.is_dir():
        return
    rendezvous = folder / RENDEZVOUS
    if rendezvous.exists():
        end(read(rendezvous).pid)
        rendezvous.unlink(missing_ok=True)
    (folder / LOCK).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # holds the run's files: it stays
        folder.rmdir()


def end(pid: int) -> None:
    """Ask a runner to end and wait for it; kill it when it does not."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if b"pytest_cwsandbox.local" not in Path(f"/proc/{pid}/cmdline").read_bytes():
            return  # the runner is gone and its number belongs to another process now
        signal.pidfd_send_signal(process, signal.SIGTERM)
        if not select.select([process], [], [], STOP_SECONDS)[0]:
            signal.pidfd_send_signal(process, signal.SIGKILL)
    except (ProcessLookupError, FileNotFoundError):
        return
    finally:
        os.close(process)


def wait(pid: int) -> None:
    """Return when the runner has ended."""
    with contextlib.suppress(ProcessLookupError):
        process = os.pidfd_open(pid)
        try:
            select.select([process], [], [])
        finally:
            os.close(process)
