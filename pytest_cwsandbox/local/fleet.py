"""The life of every sandbox: started, run, taken down once, remembered."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from cwsandbox._proto import sandbox_pb2 as pb

from pytest_cwsandbox.local.one_shot import OneShot
from pytest_cwsandbox.local.records import Records
from pytest_cwsandbox.local.sandbox import LocalSandbox, StartError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from pytest_cwsandbox.local.host import PreparedHost
    from pytest_cwsandbox.local.records import Record
    from pytest_cwsandbox.local.sandbox import Spec

CLOSE_SECONDS = 3.0
KILLED = 137  # exit code of a main process that was killed: 128 + SIGKILL

_log = logging.getLogger(__name__)


class Fleet:
    """The sandboxes of one runner. ``max_lifetime`` bounds every one of them, in seconds."""

    def __init__(self, host: PreparedHost, *, max_lifetime: float | None = None) -> None:
        self.records = Records()
        self._host = host
        self._max_lifetime = max_lifetime
        self._stopping: set[str] = set()
        # Work on sandboxes has tasks of its own: a client that gives up must not interrupt it.
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, record: Record, spec: Spec) -> None:
        self.records.add(record)
        self._spawn(self._start(record, spec))

    def stop(self, record: Record, *, grace: float = 0.0, expired: str = "") -> None:
        """Take a sandbox down; when several ask, the first one decides how and why."""
        if record.id not in self._stopping and not record.ended.done():
            self._stopping.add(record.id)
            record.terminate()
            self._spawn(self._stop(record, grace, expired))

    async def close(self) -> None:
        """End every sandbox. One that still drains ends with this process."""
        for record in self.records.live():
            self.stop(record)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS)

    async def _start(self, record: Record, spec: Spec) -> None:
        try:
            sandbox: LocalSandbox | OneShot
            if spec.one_shot:
                sandbox = OneShot(self._host, spec)
            else:
                sandbox = await LocalSandbox.start(self._host, spec)
        except StartError as error:
            self._end(record, pb.STATE_FAILED, reason=str(error))
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, its client must learn of it
            _log.exception("sandbox %s did not start", record.id)
            self._end(record, pb.STATE_FAILED, reason=f"{type(error).__name__}: {error}")
            return
        for end in (sandbox.main_exit, sandbox.died):
            end.add_done_callback(lambda _: self.stop(record))
        self._limit_lifetime(record)
        record.run(sandbox)

    def _limit_lifetime(self, record: Record) -> None:
        wanted = (record.message.spec.max_lifetime_seconds, self._max_lifetime)
        seconds = min((limit for limit in wanted if limit), default=None)
        if seconds is not None:
            record.message.status.effective_max_lifetime_seconds = round(seconds)
            why = f"its lifetime of {seconds:g} s is over"
            loop = asyncio.get_running_loop()
            timer = loop.call_later(seconds, lambda: self.stop(record, expired=why))
            record.ended.add_done_callback(lambda _: timer.cancel())

    async def _stop(self, record: Record, grace: float, expired: str) -> None:
        if not record.started.done():
            await asyncio.wait((record.started,))
        sandbox = record.sandbox
        if sandbox is None:  # it never ran
            self._stopping.discard(record.id)
            return
        try:
            await sandbox.stop(grace)
        finally:
            self._stopping.discard(record.id)
            if isinstance(sandbox, OneShot) and record.output is not None:
                record.truncated = sandbox.truncated
                record.output = b"" if sandbox.truncated else bytes(sandbox.output)
            if expired:
                self._end(record, pb.STATE_TERMINATED, reason=expired)
            elif sandbox.died.done() and not sandbox.died.cancelled():
                self._end(record, pb.STATE_FAILED, reason=sandbox.died.result())
            else:
                exited = sandbox.main_exit.done() and not sandbox.main_exit.cancelled()
                code = sandbox.main_exit.result() if exited else KILLED
                self._end(record, pb.STATE_COMPLETED, exit_code=code)

    def _end(
        self, record: Record, state: pb.State, *, reason: str = "", exit_code: int | None = None
    ) -> None:
        record.end(state, reason=reason, exit_code=exit_code)
        self.records.retire(record)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
