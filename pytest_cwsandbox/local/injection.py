"""The service with faults: it fails as it is asked to, and otherwise works.

What it injects it reports as a failure of its own, never as the end of a program.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from cwsandbox._proto import sandbox_pb2 as pb
from grpc import StatusCode

from pytest_cwsandbox.local.execution import Execution
from pytest_cwsandbox.local.faults import Kind
from pytest_cwsandbox.local.fleet import Fleet
from pytest_cwsandbox.local.service import SandboxService
from pytest_cwsandbox.local.status import Refusal

if TYPE_CHECKING:
    from grpc.aio import ServicerContext

    from pytest_cwsandbox.local.faults import Faults
    from pytest_cwsandbox.local.host import PreparedHost
    from pytest_cwsandbox.local.records import Record
    from pytest_cwsandbox.local.sandbox import Exec, LocalSandbox, Spec


class FaultyFleet(Fleet):
    """Sandboxes of which some do not start, and some are lost."""

    def __init__(
        self, host: PreparedHost, faults: Faults, *, max_lifetime: float | None = None
    ) -> None:
        super().__init__(host, max_lifetime=max_lifetime)
        self.faults = faults
        self._lost: set[str] = set()

    def start(self, record: Record, spec: Spec) -> None:
        if self.faults.strikes(Kind.START_FAILED):
            self.records.add(record)
            self._end(record, pb.STATE_FAILED, reason=_injected(Kind.START_FAILED))
        else:
            super().start(record, spec)

    async def lose(self, sandbox_id: str) -> None:
        """Destroy a sandbox as the loss of its node would, with all that runs in it."""
        record = self.records.get(sandbox_id)
        if record is not None and (sandbox := record.sandbox) is not None:
            self._lost.add(sandbox_id)
            if not sandbox.died.done():
                sandbox.died.set_result(_injected(Kind.EXEC_LOST))
            await sandbox.stop(0)

    async def take_away(self, sandbox_id: str) -> None:
        """End a sandbox as its operator would: TERMINATED, whatever it was doing."""
        record = self.records.get(sandbox_id)
        if record is not None:
            self.stop(record, expired=_injected(Kind.SANDBOX_TAKEN))
            await asyncio.wait((record.ended,))

    def require(self, sandbox_id: str) -> None:
        """Refuse any call to a sandbox that was lost: it did not end by itself."""
        if sandbox_id in self._lost:
            raise _unavailable(Kind.EXEC_LOST)


class FaultySandboxService(SandboxService):
    def __init__(self, fleet: FaultyFleet) -> None:
        super().__init__(fleet)
        self._faults = fleet.faults
        self._require = fleet.require

    def running(self, sandbox_id: str, container: str) -> LocalSandbox:
        self._require(sandbox_id)
        return super().running(sandbox_id, container)

    async def create_sandbox(
        self, request: pb.CreateSandboxRequest, context: ServicerContext
    ) -> pb.Sandbox:
        await asyncio.sleep(self._faults.seconds(Kind.CREATE_LATENCY))
        if self._faults.strikes(Kind.CREATE_UNAVAILABLE):
            raise _unavailable(Kind.CREATE_UNAVAILABLE)
        if self._faults.strikes(Kind.CREATE_EXHAUSTED):
            raise Refusal(StatusCode.RESOURCE_EXHAUSTED, _injected(Kind.CREATE_EXHAUSTED))
        if self._faults.is_full(len(self._records.live())):
            raise Refusal(StatusCode.RESOURCE_EXHAUSTED, _injected(Kind.CAPACITY))
        mounted = any(container.files for container in request.sandbox.spec.containers)
        if mounted and self._faults.strikes(Kind.FILE_UNAVAILABLE):
            raise _unavailable(Kind.FILE_UNAVAILABLE)
        return await super().create_sandbox(request, context)

    async def write_file(
        self, request: pb.WriteFileRequest, context: ServicerContext
    ) -> pb.WriteFileResponse:
        if self._faults.strikes(Kind.FILE_UNAVAILABLE):
            raise _unavailable(Kind.FILE_UNAVAILABLE)
        return await super().write_file(request, context)

    async def read_file(
        self, request: pb.ReadFileRequest, context: ServicerContext
    ) -> pb.ReadFileResponse:
        if self._faults.strikes(Kind.FILE_UNAVAILABLE):
            raise _unavailable(Kind.FILE_UNAVAILABLE)
        return await super().read_file(request, context)


class FaultyExecution(Execution):
    def __init__(self, service: SandboxService, fleet: FaultyFleet) -> None:
        super().__init__(service)
        self._fleet = fleet
        self._faults = fleet.faults

    async def stream_logs(self, request: pb.StreamLogsRequest, context: ServicerContext) -> None:
        """The result of a one-shot sandbox: what strikes commands strikes it."""
        await asyncio.sleep(self._faults.seconds(Kind.EXEC_LATENCY))
        for kind in (Kind.EXEC_UNAVAILABLE, Kind.SANDBOX_TAKEN, Kind.EXEC_LOST):
            if self._faults.strikes(kind):
                raise _unavailable(kind)
        await super().stream_logs(request, context)
        if self._faults.strikes(Kind.EXEC_DROPPED):
            raise _unavailable(Kind.EXEC_DROPPED)

    async def _execute(self, init: pb.ExecStreamInit, context: ServicerContext) -> None:
        await asyncio.sleep(self._faults.seconds(Kind.EXEC_LATENCY))
        if self._faults.strikes(Kind.EXEC_UNAVAILABLE):
            raise _unavailable(Kind.EXEC_UNAVAILABLE)
        if self._faults.strikes(Kind.SANDBOX_TAKEN):
            await self._fleet.take_away(init.sandbox_id)
        with suppress(_DroppedError):
            await super()._execute(init, context)

    async def _relay(
        self, sandbox_id: str, process: Exec, context: ServicerContext
    ) -> pb.ExecStreamResponse:
        if self._faults.strikes(Kind.EXEC_LOST):
            await self._fleet.lose(sandbox_id)
            self._fleet.require(sandbox_id)
        try:
            end = await super()._relay(sandbox_id, process, context)
        except Refusal:  # may be another command's loss of the sandbox
            self._fleet.require(sandbox_id)
            raise
        if self._faults.strikes(Kind.EXEC_DROPPED):
            raise _DroppedError
        return end


class _DroppedError(Exception):
    """The stream ends here: all output was sent, how the command ended is never told."""


def _unavailable(kind: Kind) -> Refusal:
    return Refusal(StatusCode.UNAVAILABLE, _injected(kind))


def _injected(kind: Kind) -> str:
    return f"injected fault: {kind}"
