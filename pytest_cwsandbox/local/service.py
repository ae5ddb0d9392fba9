"""The RPCs about sandboxes and their files; commands are in ``execution``."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

from cwsandbox._proto import sandbox_pb2 as pb
from grpc import StatusCode

from pytest_cwsandbox.local.records import RUNNER_ID, TERMINAL, Record
from pytest_cwsandbox.local.sandbox import FileError, LocalSandbox
from pytest_cwsandbox.local.specs import translate
from pytest_cwsandbox.local.status import (
    Refusal,
    invalid,
    no_such_sandbox,
    not_running,
    unsupported,
)

if TYPE_CHECKING:
    from grpc.aio import ServicerContext

    from pytest_cwsandbox.local.fleet import Fleet

FILE_BYTES = 32 << 20
PATH_BYTES = 1024  # of a path that an error shows
PAGE_RECORDS = 1000
PAGE_BYTES = 16 << 20
POLL_SECONDS = 10.0  # the SDK gives a poll 15 s
DELETE_SECONDS = 1.0  # nearly every sandbox is gone by then; a drain goes on behind the answer

FILE_ERRORS = {
    "not_found": (StatusCode.NOT_FOUND, "CWSANDBOX_FILE_NOT_FOUND"),
    "is_directory": (StatusCode.FAILED_PRECONDITION, "CWSANDBOX_FILE_IS_DIRECTORY"),
    "permission_denied": (StatusCode.PERMISSION_DENIED, "CWSANDBOX_FILE_PERMISSION_DENIED"),
    "too_large": (StatusCode.FAILED_PRECONDITION, "CWSANDBOX_FILE_TOO_LARGE"),
    "io_failed": (StatusCode.INTERNAL, "CWSANDBOX_FILE_IO_FAILED"),
}


class SandboxService:
    """What clients may ask of a fleet; the public coroutines answer the RPC of the same name."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._records = fleet.records

    def record(self, sandbox_id: str) -> Record:
        """The record of a sandbox, alive or gone; raises ``Refusal``."""
        record = self._records.get(sandbox_id)
        if record is None:
            raise no_such_sandbox(sandbox_id)
        return record

    def running(self, sandbox_id: str, container: str) -> LocalSandbox:
        """A sandbox that takes commands and files; raises ``Refusal``."""
        record = self.record(sandbox_id)
        if container not in ("", record.message.spec.containers[0].name):
            raise invalid("container", f"the sandbox has no container {container!r}")
        if record.sandbox is None or record.state != pb.STATE_RUNNING:
            raise not_running(sandbox_id, record.describe())
        if not isinstance(record.sandbox, LocalSandbox):
            raise unsupported("a command or a file in a one-shot sandbox is")
        return record.sandbox

    async def create_sandbox(
        self, request: pb.CreateSandboxRequest, _: ServicerContext
    ) -> pb.Sandbox:
        """Answer when the sandbox runs, or failed to: the SDK's first poll then settles it."""
        record = self._records.made_by(request.request_id)
        if record is None:
            spec = request.sandbox.spec
            translated = translate(spec)
            for file in spec.containers[0].files:
                file.ClearField("content")  # not kept: it may be large
            record = Record(str(uuid.uuid4()), spec, request.request_id)
            self._fleet.start(record, translated)
        if not record.started.done():
            await asyncio.wait((record.started,))
        return record.message

    async def get_sandbox(
        self, request: pb.GetSandboxRequest, context: ServicerContext
    ) -> pb.Sandbox:
        """Answer at once, or when a sandbox on its way in or out has arrived: it saves polls."""
        record = self.record(request.sandbox_id)
        if record.settling:
            remaining = context.time_remaining()  # None without a deadline
            await record.settle(min(POLL_SECONDS, (remaining or 2 * POLL_SECONDS) / 2))
        return record.message

    async def list_sandboxes(
        self, request: pb.ListSandboxesRequest, _: ServicerContext
    ) -> pb.ListSandboxesResponse:
        """Sandboxes that match every filter, newest first unless asked otherwise.

        A page token is the number of the last sandbox listed: numbers only ever grow.
        """
        if request.volume_ids or (request.runner_ids and RUNNER_ID not in request.runner_ids):
            return pb.ListSandboxesResponse()
        ascending = request.sort_direction == pb.SORT_DIRECTION_ASCENDING
        after = _number(request.page_token)
        tags = frozenset(request.tags)
        records = self._records.live()
        if request.show_terminated or request.state in TERMINAL:
            records += self._records.ended()
        matching = sorted(
            (
                record
                for record in records
                if tags.issubset(record.message.spec.tags)
                and request.state in (pb.STATE_UNSPECIFIED, record.state)
                and (record.number > after if ascending else not after or record.number < after)
            ),
            key=lambda record: record.number,
            reverse=not ascending,
        )
        limit = min(request.page_size, PAGE_RECORDS) if request.page_size > 0 else PAGE_RECORDS
        page: list[Record] = []
        size = 0
        for record in matching:
            if len(page) == limit or size > PAGE_BYTES:
                break
            page.append(record)
            size += record.message.ByteSize()
        return pb.ListSandboxesResponse(
            sandboxes=[record.message for record in page],
            next_page_token=str(page[-1].number) if len(page) < len(matching) else "",
        )

    async def delete_sandbox(
        self, request: pb.DeleteSandboxRequest, _: ServicerContext
    ) -> pb.DeleteSandboxResponse:
        if request.snapshot_volumes:
            raise unsupported("snapshot_volumes is", reason="CWSANDBOX_FSS_NOT_SUPPORTED")
        if request.grace_period_seconds < 0:
            raise invalid("grace_period_seconds", "must not be negative")
        record = self._records.get(request.sandbox_id)
        if record is None:
            if request.allow_missing:
                return pb.DeleteSandboxResponse()
            raise no_such_sandbox(request.sandbox_id)
        record.output = None  # nobody waits for it
        self._fleet.stop(record, grace=request.grace_period_seconds)
        await record.settle(DELETE_SECONDS)
        return pb.DeleteSandboxResponse(sandbox=record.message)

    async def write_file(
        self, request: pb.WriteFileRequest, _: ServicerContext
    ) -> pb.WriteFileResponse:
        sandbox = self.running(request.sandbox_id, request.container)
        path = _path(request.path)
        if len(request.content) > FILE_BYTES:
            raise _file_refusal("too_large", "write_file", path, len(request.content))
        try:
            await sandbox.write_file(path, request.content)
        except FileError as error:
            self.running(request.sandbox_id, request.container)  # an ended one explains it better
            raise _file_refusal(error.kind, "write_file", path, error.size) from error
        return pb.WriteFileResponse()

    async def read_file(
        self, request: pb.ReadFileRequest, _: ServicerContext
    ) -> pb.ReadFileResponse:
        sandbox = self.running(request.sandbox_id, request.container)
        path = _path(request.path)
        try:
            content = await sandbox.read_file(path, FILE_BYTES)
        except FileError as error:
            self.running(request.sandbox_id, request.container)  # an ended one explains it better
            raise _file_refusal(error.kind, "read_file", path, error.size) from error
        return pb.ReadFileResponse(content=content)


def _number(token: str) -> int:
    if not token:
        return 0
    if not (token.isascii() and token.isdecimal()):
        raise invalid("page_token", "not one of this service's tokens")
    return int(token)


def _path(path: str) -> str:
    if not path.startswith("/") or "\0" in path:
        raise invalid("path", f"must be absolute: {path[:100]!r}")
    return path


def _file_refusal(kind: str, operation: str, path: str, size: int | None) -> Refusal:
    code, reason = FILE_ERRORS[kind]
    # The path is sent three times, escaped in part, in metadata of which gRPC takes 8 KiB.
    shown = path.encode()[:PATH_BYTES].decode(errors="ignore")
    metadata = {"filepath": shown, "operation": operation}
    if kind == "too_large":
        metadata |= {"size_bytes": str(size), "max_size_bytes": str(FILE_BYTES)}
    return Refusal(code, f"{shown}: {kind.replace('_', ' ')}", reason=reason, metadata=metadata)
