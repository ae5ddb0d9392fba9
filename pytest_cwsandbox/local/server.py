"""The runner's event loop: one gRPC server on loopback, until it is told to end."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import secrets
import signal
from typing import TYPE_CHECKING

import grpc

from pytest_cwsandbox.local.execution import Execution
from pytest_cwsandbox.local.fleet import Fleet
from pytest_cwsandbox.local.host import prepare
from pytest_cwsandbox.local.methods import Methods
from pytest_cwsandbox.local.service import SandboxService

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_cwsandbox.local.faults import Faults
    from pytest_cwsandbox.local.host import PreparedHost

OPEN_FILES = 8192
MESSAGE_BYTES = 100 << 20
OPTIONS = (
    ("grpc.so_reuseport", 0),  # or another process of any user could share the port
    ("grpc.max_send_message_length", MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
)


def run(
    state_dir: Path,
    *,
    announce: Callable[[str], None],
    lifeline: int | None = None,
    max_lifetime: float | None = None,
    faults: Faults | None = None,
) -> None:
    """Serve until SIGTERM, SIGINT, or the end of ``lifeline``; then end every sandbox.

    ``announce`` gets the rendezvous as JSON once clients can connect. ``lifeline`` is the reading
    end of a pipe that nobody writes to, or a pidfd. ``faults`` are injected. Raises
    ``BackendError``.
    """
    _allow_files()
    host = prepare(state_dir)
    asyncio.run(_serve(host, announce, lifeline, max_lifetime, faults))


def _allow_files() -> None:
    """Every sandbox, command and client holds a few open files; the usual 1024 are soon used up."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _serve(
    host: PreparedHost,
    announce: Callable[[str], None],
    lifeline: int | None,
    max_lifetime: float | None,
    faults: Faults | None,
) -> None:
    loop = asyncio.get_running_loop()
    ending = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, ending.set)
    if lifeline is not None:
        loop.add_reader(lifeline, ending.set)
    token = secrets.token_urlsafe(32)
    fleet, parts = _service(host, max_lifetime, faults)
    server = grpc.aio.server(options=OPTIONS)
    server.add_generic_rpc_handlers((Methods(token, *parts),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        announce(_rendezvous(host, port, token, faults))
        await ending.wait()
    finally:
        if lifeline is not None:
            loop.remove_reader(lifeline)
        await server.stop(0.2)  # at once, clients would note an error on their standard error
        await fleet.close()


def _service(
    host: PreparedHost, max_lifetime: float | None, faults: Faults | None
) -> tuple[Fleet, tuple[SandboxService, Execution]]:
    if faults is None:
        fleet = Fleet(host, max_lifetime=max_lifetime)
        service = SandboxService(fleet)
        return fleet, (service, Execution(service))
    from pytest_cwsandbox.local.injection import FaultyExecution, FaultyFleet, FaultySandboxService

    faulty = FaultyFleet(host, faults, max_lifetime=max_lifetime)
    service = FaultySandboxService(faulty)
    return faulty, (service, FaultyExecution(service, faulty))


def _rendezvous(host: PreparedHost, port: int, token: str, faults: Faults | None) -> str:
    return json.dumps(
        {
            "version": 1,
            "address": f"http://127.0.0.1:{port}",
            "token": token,
            "pid": os.getpid(),
            "isolation": host.isolation,
            "limits": host.limits,
            "images": list(host.images),
            "faults": str(faults or ""),
        }
    )
