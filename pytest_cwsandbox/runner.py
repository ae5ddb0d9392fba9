"""The embedded runner of a run: how to start it, join it, reach it."""

from __future__ import annotations

import secrets
import socket
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pytest_cwsandbox import embedded
from pytest_cwsandbox.embedded import Embedded, unwritable, wait
from pytest_cwsandbox.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "LOCAL_MARKER",
    "LOCK",
    "NO_PROXY",
    "RENDEZVOUS",
    "Rendezvous",
    "end",
    "inherited",
    "join_or_start",
    "reach",
    "read",
    "stop",
    "unwritable",
    "wait",
]

RUNNER = Embedded(
    file="runner",
    module="pytest_cwsandbox.local",
    title="the local runner",
    remedy="run `pytest-cwsandbox doctor`, or use --cwsandbox-backend=hosted",
)
RENDEZVOUS = RUNNER.rendezvous
LOCK = RUNNER.lock
REACH_SECONDS = 5.0
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
    injected = [part for fault in faults for part in ("--fault", fault)]
    # The runner makes this folder and removes it.
    state = Path(tempfile.gettempdir()) / f"cwsandbox-{secrets.token_hex(8)}"
    arguments = ["--state-dir", str(state), *injected, "--fault-seed", str(fault_seed)]
    return _rendezvous(RUNNER.join_or_start(folder, lifeline=lifeline, arguments=arguments))


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
    return _rendezvous(embedded.read(rendezvous))


def stop(folder: Path) -> None:
    """End the run's runner, if it has one, with everything that it started."""
    RUNNER.stop(folder)


def end(pid: int) -> None:
    """Ask a runner to end and wait for it; kill it when it does not."""
    RUNNER.end(pid)


def _rendezvous(row: Mapping[str, object]) -> Rendezvous:
    images, pid = row["images"], row["pid"]
    if not (isinstance(images, list) and isinstance(pid, int)):
        raise TypeError("the rendezvous file is not a runner's")
    return Rendezvous(
        address=str(row["address"]),
        token=str(row["token"]),
        pid=pid,
        isolation=str(row["isolation"]),
        limits=str(row["limits"]),
        images=tuple(images),
        faults=str(row["faults"]),
    )
