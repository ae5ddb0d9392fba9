"""Commands in a sandbox, over one bidirectional stream each."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from cwsandbox._proto import sandbox_pb2 as pb
from grpc import StatusCode
from grpc.aio import EOF

from pytest_cwsandbox.local.status import Refusal, invalid, not_running, unsupported

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grpc.aio import ServicerContext

    from pytest_cwsandbox.local.sandbox import Exec
    from pytest_cwsandbox.local.service import SandboxService

# The SDK's exec buffers everything; its file fallbacks stream up to 256 MiB.
OUTPUT_BYTES = 256 << 20
# A client without input ends its side right after the first message, one with input waits for
# ``ready``: this long a wait tells them apart, so that most commands need no stdin pipe.
HALF_CLOSE_SECONDS = 0.002
LOG_BYTES = 1 << 18  # of one message
STREAMS = {
    "stdout": pb.ExecStreamOutput.STREAM_STDOUT,
    "stderr": pb.ExecStreamOutput.STREAM_STDERR,
}


class Execution:
    """Serves StreamExec: output as it comes, then exactly one exit or error.

    A call that is cancelled, or whose deadline passes, kills the command with all its descendants.
    """

    def __init__(self, service: SandboxService) -> None:
        self._service = service

    async def stream_exec(
        self, _: AsyncIterator[pb.ExecStreamRequest], context: ServicerContext
    ) -> None:
        first = await context.read()
        if first is EOF or not first.HasField("init"):
            raise invalid("init", "the first message of the stream must be init")
        init = first.init
        if not init.command or any("\0" in part for part in init.command):
            raise invalid("init.command", "must be a command line without NUL")
        if init.env:
            raise unsupported("init.env is")
        await self._execute(init, context)

    async def stream_logs(self, request: pb.StreamLogsRequest, context: ServicerContext) -> None:
        """What the main process of a one-shot sandbox wrote, once; ``follow`` waits for its end."""
        record = self._service.record(request.sandbox_id)
        unknown = {field.name for field, _ in request.ListFields()} - {"sandbox_id", "follow"}
        if unknown or not record.one_shot:
            raise unsupported("logs other than all of a one-shot sandbox's are")
        if request.follow:
            await asyncio.wait((record.ended,))
        output = record.output
        if output is None:
            gone = f"the log of sandbox {record.id} was read, or deleted with it"
            raise Refusal(StatusCode.FAILED_PRECONDITION, gone)
        for start in range(0, len(output), LOG_BYTES):
            await context.write(pb.LogEntry(data=output[start : start + LOG_BYTES]))
        if record.truncated:
            error = pb.LogStreamError(code="STREAM_TRUNCATED", message="too much output")
            await context.write(pb.LogEntry(error=error))
        if record.ended.done():
            record.output = None

    async def _execute(self, init: pb.ExecStreamInit, context: ServicerContext) -> None:
        sandbox = self._service.running(init.sandbox_id, init.container)
        following = asyncio.ensure_future(context.read())
        await asyncio.wait((following,), timeout=HALF_CLOSE_SECONDS)
        stdin = init.tty or not following.done() or following.result() is not EOF
        size = (init.tty_width or 80, init.tty_height or 24)
        try:
            process = await sandbox.exec(init.command, stdin=stdin, tty=size if init.tty else None)
        except OSError as error:  # the host is short of something, such as open files
            raise Refusal(StatusCode.RESOURCE_EXHAUSTED, f"no command: {error}") from error
        feeding: asyncio.Task[None] | None = None
        try:
            if stdin:
                feeding = asyncio.ensure_future(_feed(process, following, context))
                ready = pb.ExecStreamReady()
                ready.ready_time.GetCurrentTime()
                await context.write(pb.ExecStreamResponse(ready=ready))
            end = await self._relay(init.sandbox_id, process, context)
        finally:
            if feeding is not None:
                feeding.cancel()
            process.close()
            if process.returncode is None:
                await process.kill()
        await context.write(end)

    async def _relay(
        self, sandbox_id: str, process: Exec, context: ServicerContext
    ) -> pb.ExecStreamResponse:
        """Send the output on; the message that ends the stream.

        Raises ``Refusal`` when the sandbox ended before the command.
        """
        produced = 0
        async for stream, data in process:
            produced += len(data)
            if produced > OUTPUT_BYTES:
                return pb.ExecStreamResponse(
                    error=pb.ExecStreamError(
                        code="STREAM_TRUNCATED",
                        message="the command was killed: "
                        f"more than {OUTPUT_BYTES >> 20} MiB of output",
                    )
                )
            output = pb.ExecStreamOutput(stream=STREAMS[stream], data=data)
            await context.write(pb.ExecStreamResponse(output=output))
        if process.returncode is None:
            record = self._service.record(sandbox_id)
            await asyncio.wait((record.ended,), timeout=1.0)  # to say why
            raise not_running(sandbox_id, record.describe())
        return pb.ExecStreamResponse(exit=pb.ExecStreamExit(exit_code=process.returncode))


async def _feed(
    process: Exec, following: asyncio.Future[pb.ExecStreamRequest], context: ServicerContext
) -> None:
    """Hand the client's messages to the command until its side of the stream ends."""
    message = await following
    while message is not EOF and not message.HasField("close"):
        if message.HasField("stdin"):
            await process.write_stdin(message.stdin)
        elif message.HasField("resize"):
            await process.resize(message.resize.width, message.resize.height)
        message = await context.read()
    await process.close_stdin()
