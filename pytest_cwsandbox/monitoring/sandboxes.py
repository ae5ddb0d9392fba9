"""Sandboxes by tag, on either backend: who is there, and their removal."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_cwsandbox import backend, connections, runner, tags
from pytest_cwsandbox.backend import REACH_SECONDS, BackendOptions
from pytest_cwsandbox.errors import BackendError, InfrastructureError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cwsandbox import AuthHeaders, AuthStrategy, Sandbox

RUNS = Path(".cwsandbox/runs")
REMOVALS = 32  # at once


@dataclass(frozen=True, slots=True)
class Service:
    """Where sandboxes can be asked for."""

    address: str
    auth: AuthHeaders | AuthStrategy


def services(options: BackendOptions | None = None, runs: Path = RUNS) -> list[Service]:
    """The hosted service, or the local runner of the environment, or those under way here.

    Those are of test runs, in their folder ``runs`` (``--cwsandbox-report-dir``), and of this
    user's training jobs and other processes. Raises ``BackendError`` when there is none.
    """
    options = options or BackendOptions()
    if options.choose(os.environ) == "hosted":
        return [Service(*backend.hosted(options))]
    if runner.inherited(os.environ):
        runner.reach(os.environ)
        token = os.environ["CWSANDBOX_API_KEY"]
        return [Service(os.environ["CWSANDBOX_BASE_URL"], backend.bearer(token))]
    rendezvous = [*sorted(runs.glob(f"*/{runner.RENDEZVOUS}")), *connections.rendezvous()]
    found = [_of_run(file) for file in rendezvous]
    running = [service for service in found if service is not None]
    if not running:
        raise BackendError(
            f"no local runner is there: no test run is under way in {runs}, no training job of "
            "yours on this machine, and the environment has none of `pytest-cwsandbox serve`; for "
            "the hosted service set CWSANDBOX_API_KEY"
        )
    return running


def _of_run(rendezvous: Path) -> Service | None:
    try:
        served = runner.read(rendezvous)
        runner.reach({"CWSANDBOX_BASE_URL": served.address})
    except (OSError, ValueError, BackendError):  # it ended, just now or without saying so
        return None
    for name in runner.NO_PROXY:  # gRPC honours a proxy even for loopback addresses
        os.environ[name] = served.environment(os.environ)[name]
    return Service(served.address, backend.bearer(served.token))


def find(
    service: Service, wanted: Sequence[str] = (), *, older_than: timedelta | None = None
) -> list[Sandbox]:
    """Live sandboxes that carry all these tags, oldest first.

    A tag may be given as it was written or as labels have it. One whose age is unknown is not
    older than anything. Raises ``BackendError`` for credentials that are refused, and
    ``InfrastructureError`` when the service does not answer.
    """
    from cwsandbox import CWSandboxAuthenticationError, CWSandboxError, Sandbox

    sandboxes: dict[str, Sandbox] = {}
    for each in dict.fromkeys((tuple(wanted), tuple(map(tags.tag, wanted)))):
        try:
            listed = Sandbox.list(
                tags=list(each),
                base_url=service.address,
                auth=service.auth,
                timeout_seconds=REACH_SECONDS,
            ).result(timeout=REACH_SECONDS * 2)
        except CWSandboxAuthenticationError as error:
            raise BackendError(f"{service.address} refuses the credentials: {error}") from error
        except (CWSandboxError, TimeoutError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise InfrastructureError(
                f"sandboxes at {service.address} cannot be listed: {reason}"
            ) from error
        sandboxes |= {str(sandbox.sandbox_id): sandbox for sandbox in listed}
    return sorted(
        (
            sandbox
            for sandbox in sandboxes.values()
            if older_than is None or (age(sandbox) or timedelta()) > older_than
        ),
        key=lambda sandbox: age(sandbox) or timedelta(),
        reverse=True,
    )


def age(sandbox: Sandbox) -> timedelta | None:
    """Time since its creation, None if the service does not tell."""
    created = sandbox.created_at
    return None if created is None else datetime.now(UTC) - created


def remove(sandboxes: Iterable[Sandbox]) -> dict[str, str]:
    """Remove them all; what could not be removed, by id, and why."""
    from cwsandbox import CWSandboxError

    failures: dict[str, str] = {}
    waiting = list(sandboxes)
    while waiting:
        now, waiting = waiting[:REMOVALS], waiting[REMOVALS:]
        stops = [(box, box.stop(graceful_shutdown_seconds=0, missing_ok=True)) for box in now]
        for box, stop in stops:
            try:
                stop.result()
            except CWSandboxError as error:
                reason = " ".join(str(error).split()) or type(error).__name__
                failures[str(box.sandbox_id)] = reason
    return failures


def count_active_sandboxes(
    run_id: str, *, options: BackendOptions | None = None, runs: Path = RUNS
) -> dict[str, int]:
    """How many sandboxes of a training run are ``running`` and ``pending``, and the ``total``.

    ``run_id`` is that of the tag ``training-run:ID``. Pending are all that are yet to run. Raises
    ``BackendError`` when there is no service, ``InfrastructureError`` when it does not answer.
    """
    from cwsandbox import SandboxStatus

    wanted = [tags.tag(f"training-run:{run_id}")]
    statuses = [
        sandbox.status for service in services(options, runs) for sandbox in find(service, wanted)
    ]
    running = statuses.count(SandboxStatus.RUNNING)
    pending = sum(
        statuses.count(status)
        for status in (SandboxStatus.PENDING, SandboxStatus.CREATING, SandboxStatus.PREPARING)
    )
    return {"running": running, "pending": pending, "total": running + pending}
