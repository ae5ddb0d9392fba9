"""Errors as the SDK reads them: a gRPC status with ``google.rpc`` details in its trailers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from google.rpc.status_pb2 import Status
from grpc import StatusCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.message import Message

DOMAIN = "cwsandbox.com"  # the SDK ignores reasons of any other domain


class Refusal(Exception):  # noqa: N818 - it is an answer of the service, not an error of the runner
    """An RPC that is answered with an error.

    ``reason`` is one of the service's ``CWSANDBOX_`` strings; ``violations`` are pairs of field and
    description.
    """

    def __init__(
        self,
        code: StatusCode,
        message: str,
        *,
        reason: str = "",
        metadata: Mapping[str, str] | None = None,
        violations: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self._reason = reason
        self._metadata = metadata or {}
        self._violations = violations

    def trailers(self) -> tuple[tuple[str, bytes], ...]:
        """The trailing metadata that carries the details."""
        details: list[Message] = []
        if self._reason:
            info = ErrorInfo(reason=self._reason, domain=DOMAIN, metadata=self._metadata)
            details.append(info)
        if self._violations:
            rows = [
                BadRequest.FieldViolation(field=field, description=description)
                for field, description in self._violations
            ]
            details.append(BadRequest(field_violations=rows))
        if not details:
            return ()
        status = Status(code=self.code.value[0], message=self.message)
        for detail in details:
            packed = AnyMessage()
            packed.Pack(detail)
            status.details.append(packed)
        return (("grpc-status-details-bin", status.SerializeToString()),)


def invalid(field: str, description: str) -> Refusal:
    """The request is wrong in one field."""
    return Refusal(
        StatusCode.INVALID_ARGUMENT,
        f"{field}: {description}",
        violations=((field, description),),
    )


def unsupported(what: str, *, reason: str = "CWSANDBOX_NOT_IMPLEMENTED") -> Refusal:
    """The request asks for something that only the hosted service can do."""
    return Refusal(
        StatusCode.FAILED_PRECONDITION,
        f"{what} not implemented by the local runner",
        reason=reason,
    )


def no_such_sandbox(sandbox_id: str) -> Refusal:
    return Refusal(
        StatusCode.NOT_FOUND,
        f"no sandbox {sandbox_id!r}",
        reason="CWSANDBOX_SANDBOX_NOT_FOUND",
    )


def not_running(sandbox_id: str, state: str) -> Refusal:
    """The sandbox is not there to serve the call, or ended under it.

    CANCELLED is the status that the SDK turns into ``SandboxNotRunningError``.
    """
    return Refusal(
        StatusCode.CANCELLED,
        f"sandbox {sandbox_id} is not running: {state}",
        reason="CWSANDBOX_SANDBOX_NOT_RUNNING",
    )
