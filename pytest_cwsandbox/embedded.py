"""Processes of this package that serve a run on loopback: started once, by whoever needs it first.

Such a process is a module of ours. It takes ``--rendezvous FILE``, which it writes, readable by its
owner alone, when it serves and removes when it ends; and ``--lifeline-fd FD``, a pidfd that becomes
readable when it must end. The line ``error: ...`` on its standard error says why it cannot serve.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from pytest_cwsandbox.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

START_SECONDS = 60.0  # a loaded machine may take long; what cannot start says so at once
STOP_SECONDS = 10.0

# Those that this process started: one that is forgotten while it runs is a ResourceWarning.
_started: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True, slots=True)
class Embedded:
    """A kind of such process. ``file`` names its rendezvous; ``title`` and ``remedy`` are words."""

    file: str
    module: str
    title: str
    remedy: str

    @property
    def rendezvous(self) -> str:
        return f"{self.file}.json"

    @property
    def lock(self) -> str:
        return f"{self.file}.lock"

    def join_or_start(
        self, folder: Path, *, lifeline: int, arguments: Sequence[str] = ()
    ) -> dict[str, object]:
        """The rendezvous of the run whose folder this is; its process is started if need be.

        ``lifeline`` is the process id with which it ends. ``arguments`` are for a process that is
        started: one that is there already keeps its own. Raises ``BackendError``.
        """
        rendezvous = folder / self.rendezvous
        with self._locked(folder):
            if not rendezvous.exists():
                self._start(rendezvous, lifeline, arguments)
            return read(rendezvous)

    def stop(self, folder: Path) -> None:
        """End the run's process, if there is one, with everything that it started."""
        if not folder.is_dir():
            return
        rendezvous = folder / self.rendezvous
        with contextlib.suppress(FileNotFoundError):  # it ended by itself
            self.end(int(str(read(rendezvous)["pid"])))
        rendezvous.unlink(missing_ok=True)
        (folder / self.lock).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # holds the run's files: it stays
            folder.rmdir()

    def end(self, pid: int) -> None:
        """Ask a process to end and wait for it; kill it when it does not."""
        try:
            process = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if self.module.encode() not in command:
                return  # it is gone and its number belongs to another process now
            signal.pidfd_send_signal(process, signal.SIGTERM)
            if not select.select([process], [], [], STOP_SECONDS)[0]:
                signal.pidfd_send_signal(process, signal.SIGKILL)
        except (ProcessLookupError, FileNotFoundError):
            return
        finally:
            os.close(process)
            _forget_ended()

    @contextlib.contextmanager
    def _locked(self, folder: Path) -> Iterator[None]:
        from filelock import FileLock

        lock = FileLock(folder / self.lock)
        while not lock.is_locked:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise BackendError(unwritable(folder, error)) from error
            # A process that could not serve took the folder with it while this one waited.
            with contextlib.suppress(FileNotFoundError):
                lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def _start(self, rendezvous: Path, lifeline: int, arguments: Sequence[str]) -> None:
        _forget_ended()
        lifeline_fd = os.pidfd_open(lifeline)
        try:
            with tempfile.TemporaryFile() as log:
                process = subprocess.Popen(
                    [
                        *(sys.executable, "-P", "-m", self.module),
                        *("--rendezvous", str(rendezvous)),
                        *("--lifeline-fd", str(lifeline_fd)),
                        *arguments,
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    pass_fds=[lifeline_fd],
                    start_new_session=True,  # the terminal's Ctrl-C is pytest's
                )
                _started[process.pid] = process
                self._await(rendezvous, process, log)
        finally:
            os.close(lifeline_fd)

    def _await(self, rendezvous: Path, process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not rendezvous.exists():
            if process.poll() is not None:
                raise BackendError(self._reason(log, process.returncode))
            if time.monotonic() > deadline:
                process.kill()
                process.wait()
                raise BackendError(
                    f"{self.title} did not start within {START_SECONDS:.0f} s; {self.remedy}"
                )
            time.sleep(0.005)

    def _reason(self, log: IO[bytes], status: int) -> str:
        log.seek(0)
        lines = log.read().decode(errors="replace").splitlines()
        for line in reversed(lines):
            if line.startswith("error: "):
                return line.removeprefix("error: ")
        last = lines[-1] if lines else "it printed nothing"
        return (
            f"{self.title} ended with exit code {status} before it served ({last}); {self.remedy}"
        )


def _forget_ended() -> None:
    for pid, process in [*_started.items()]:
        if process.poll() is not None:
            _started.pop(pid, None)


def read(rendezvous: Path) -> dict[str, object]:
    """Read a rendezvous file."""
    row = json.loads(rendezvous.read_text())
    if not isinstance(row, dict):
        raise TypeError(f"{rendezvous} holds no object")
    return row


def unwritable(folder: Path, error: OSError) -> str:
    """What to tell somebody whose run has no folder to work in."""
    return (
        f"the run's folder {folder} cannot be made: {error.strerror}; choose another place with "
        "--cwsandbox-report-dir"
    )


def wait(pid: int) -> None:
    """Return when the process has ended."""
    with contextlib.suppress(ProcessLookupError):
        process = os.pidfd_open(pid)
        try:
            select.select([process], [], [])
        finally:
            os.close(process)
