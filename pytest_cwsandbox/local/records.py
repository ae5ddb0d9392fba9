"""What the service knows of each sandbox, alive or gone."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

from cwsandbox._proto import sandbox_pb2 as pb

if TYPE_CHECKING:
    from pytest_cwsandbox.local.one_shot import OneShot
    from pytest_cwsandbox.local.sandbox import LocalSandbox

RUNNER_ID = "local"
RUNTIME_CLASS = "bubblewrap"
# Runs its main process and nothing else, and keeps what that prints: no commands, no files.
ONE_SHOT = "bubblewrap-one-shot"
TERMINAL = frozenset({pb.STATE_COMPLETED, pb.STATE_FAILED, pb.STATE_TERMINATED})
UNSETTLED = frozenset({pb.STATE_CREATING, pb.STATE_TERMINATING})

# How much is remembered of sandboxes that are gone; the oldest are forgotten first.
ENDED_RECORDS = 10_000
ENDED_BYTES = 64 << 20


class Record:
    """One sandbox: the message that every answer about it carries, and the sandbox while it lives.

    ``started`` is done when the sandbox runs or failed to, ``ended`` when nothing is left of it.
    """

    number = 0  # in order of creation; given by Records

    def __init__(self, sandbox_id: str, spec: pb.SandboxSpec, request_id: str = "") -> None:
        loop = asyncio.get_running_loop()
        self.id = sandbox_id
        self.request_id = request_id
        self.sandbox: LocalSandbox | OneShot | None = None
        # Of a one-shot sandbox that has ended. None when it was read: it may be large, and to bound
        # what is kept would be to lose what others have yet to read.
        self.output: bytes | None = b""
        self.truncated = False
        self.started: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self.message = pb.Sandbox(sandbox_id=sandbox_id, spec=spec)
        status = self.message.status
        status.create_time.GetCurrentTime()
        status.runner_id = RUNNER_ID
        status.effective_runtime_class = spec.runtime_class or RUNTIME_CLASS
        status.effective_max_lifetime_seconds = spec.max_lifetime_seconds
        container = spec.containers[0]
        if container.HasField("resource_requirements"):
            status.effective_resource_requirements.CopyFrom(container.resource_requirements)
        status.container_statuses.add(name=container.name)
        self._enter(pb.STATE_CREATING)

    @property
    def state(self) -> pb.State:
        return self.message.status.state

    def describe(self) -> str:
        """The state in words, with its reason."""
        name = pb.State.Name(self.state).removeprefix("STATE_").lower()
        reason = self.message.status.state_reason
        return f"{name} ({reason})" if reason else name

    def run(self, sandbox: LocalSandbox | OneShot) -> None:
        self.sandbox = sandbox
        if self.state == pb.STATE_CREATING:  # else it is being stopped already
            self._enter(pb.STATE_RUNNING)
        self.message.status.start_time.GetCurrentTime()
        self.started.set_result(None)

    def terminate(self) -> None:
        self._enter(pb.STATE_TERMINATING)

    def end(self, state: pb.State, *, reason: str = "", exit_code: int | None = None) -> None:
        """Enter a terminal state. COMPLETED needs an exit code: the SDK waits seconds for one."""
        self.sandbox = None
        self._enter(state)
        status = self.message.status
        status.state_reason = reason
        status.end_time.GetCurrentTime()
        if exit_code is not None:
            status.exit_code = exit_code
            status.container_statuses[0].exit_code = exit_code
        if not self.started.done():
            self.started.set_result(None)
        self.ended.set_result(None)

    def _enter(self, state: pb.State) -> None:
        self.message.status.state = state
        self.message.status.container_statuses[0].state = state

    @property
    def settling(self) -> bool:
        """Also a one-shot sandbox that runs: what its client waits for is the end."""
        return self.state in UNSETTLED or (self.one_shot and self.state == pb.STATE_RUNNING)

    @property
    def one_shot(self) -> bool:
        return self.message.spec.runtime_class == ONE_SHOT

    @property
    def size(self) -> int:
        """Bytes that it takes to remember it."""
        return int(self.message.ByteSize())

    async def settle(self, seconds: float) -> None:
        """Wait, but not for long, while the sandbox is on its way into or out of running."""
        if self.settling:
            change = self.started if self.state == pb.STATE_CREATING else self.ended
            await asyncio.wait((change,), timeout=seconds)


class Records:
    """Every sandbox of the runner, by id and by the request that made it."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._live: dict[str, Record] = {}
        self._ended: dict[str, Record] = {}
        self._ended_bytes = 0
        self._requests: dict[str, Record] = {}

    def add(self, record: Record) -> None:
        record.number = next(self._numbers)
        self._live[record.id] = record
        if record.request_id:
            self._requests[record.request_id] = record

    def get(self, sandbox_id: str) -> Record | None:
        return self._live.get(sandbox_id) or self._ended.get(sandbox_id)

    def made_by(self, request_id: str) -> Record | None:
        """The sandbox that a create with this id made before."""
        return self._requests.get(request_id)

    def live(self) -> list[Record]:
        return list(self._live.values())

    def ended(self) -> list[Record]:
        return list(self._ended.values())

    def retire(self, record: Record) -> None:
        """Keep an ended sandbox's record, and forget the oldest ones beyond the bounds."""
        self._ended[record.id] = self._live.pop(record.id)
        self._ended_bytes += record.size
        while len(self._ended) > ENDED_RECORDS or self._ended_bytes > ENDED_BYTES:
            oldest = self._ended.pop(next(iter(self._ended)))
            self._ended_bytes -= oldest.size
            self._requests.pop(oldest.request_id, None)
