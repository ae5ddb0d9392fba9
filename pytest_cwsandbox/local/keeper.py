"""A small process beside the runner that clears up after it, however the runner ends.

The runner may give up its rights to the folders that it was started with, and may be killed; the
keeper is forked before either can happen. It learns of the end by the end of a socket.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import time
from typing import TYPE_CHECKING

from pytest_cwsandbox.errors import BackendError
from pytest_cwsandbox.local import limits

if TYPE_CHECKING:
    from pathlib import Path

WRITTEN = "written"
CLEAR_SECONDS = 5.0  # sandboxes of a killed runner need a moment to die


def start(state_dir: Path, rendezvous: Path | None) -> int:
    """Fork the keeper; a file descriptor for ``announce`` and ``finish``."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        try:
            _keep(theirs.detach(), state_dir, rendezvous)
        finally:
            os._exit(0)
    theirs.close()
    return ours.detach()


def announce(keeper: int, text: str) -> None:
    """Have the rendezvous file written, whole, as the one who started the runner.

    Raises ``BackendError`` when it cannot be.
    """
    os.write(keeper, text.encode())
    problem = os.read(keeper, 1 << 16).decode(errors="replace")
    if problem != WRITTEN:
        raise BackendError(f"the rendezvous file cannot be written: {problem or 'its keeper died'}")


def finish(keeper: int) -> None:
    """Have everything cleared up; returns when it is, or when the keeper is gone."""
    with socket.socket(fileno=keeper) as channel:
        channel.shutdown(socket.SHUT_WR)
        channel.recv(1)


def _keep(channel: int, state_dir: Path, rendezvous: Path | None) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    os.closerange(3, channel)
    os.closerange(channel + 1, os.sysconf("SC_OPEN_MAX"))
    while text := os.read(channel, 1 << 20):
        os.write(channel, _write(rendezvous, text).encode())
    if rendezvous is not None:
        rendezvous.unlink(missing_ok=True)
        # The lock is of those who wanted a runner at the same time; the folder, if only for this.
        rendezvous.with_suffix(".lock").unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            rendezvous.parent.rmdir()
    deadline = time.monotonic() + CLEAR_SECONDS
    while state_dir.exists() and time.monotonic() < deadline:
        shutil.rmtree(state_dir, ignore_errors=True)
        if state_dir.exists():
            time.sleep(0.05)
    os.close(channel)  # the runner waits for this, and its cgroups wait for the runner
    limits.clear(state_dir)


def _write(path: Path | None, text: bytes) -> str:
    if path is None:
        return WRITTEN
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        part.touch(mode=0o600, exist_ok=False)  # before the token is in it
        part.write_bytes(text)
        part.rename(path)
    except OSError as error:
        return str(error)
    return WRITTEN
