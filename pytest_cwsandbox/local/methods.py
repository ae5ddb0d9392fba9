"""The door of the server: who may call, which methods exist, how errors travel."""

from __future__ import annotations

import hmac
import re
from typing import TYPE_CHECKING, NoReturn

import grpc
from cwsandbox._proto import sandbox_pb2 as pb
from google.protobuf.message_factory import GetMessageClass
from grpc import StatusCode

from pytest_cwsandbox.local.status import Refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from google.protobuf.descriptor import MethodDescriptor
    from google.protobuf.message import Message
    from grpc.aio import ServicerContext

    Served = Callable[[object, ServicerContext], Awaitable[Message | None]]


class Methods(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc ships no types
    """Finds the handler of a call: the methods of ``parts``, for holders of ``token``.

    Whatever the parts do not define answers UNIMPLEMENTED, whatever service it belongs to.
    """

    def __init__(self, token: str, *parts: object) -> None:
        self._authorization = f"Bearer {token}".encode()
        self._handlers: dict[str, grpc.RpcMethodHandler] = {}
        service = pb.DESCRIPTOR.services_by_name["SandboxService"]
        for part in parts:
            for method in service.methods:
                if served := getattr(part, _attribute(method.name), None):
                    path = f"/{service.full_name}/{method.name}"
                    self._handlers[path] = _handler(method, served)

    def service(self, call: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        given = dict(call.invocation_metadata).get("authorization", "")
        if not hmac.compare_digest(given.encode(), self._authorization):
            return _refusing(
                Refusal(
                    StatusCode.UNAUTHENTICATED,
                    "not this runner's token: CWSANDBOX_API_KEY must be the one it announced",
                )
            )
        return self._handlers.get(call.method) or _refusing(
            Refusal(
                StatusCode.UNIMPLEMENTED,
                f"{call.method.rpartition('/')[2]} is not implemented by the local runner",
                reason="CWSANDBOX_NOT_IMPLEMENTED",
            )
        )


def _attribute(rpc: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", rpc).lower()


def _handler(method: MethodDescriptor, served: Served) -> grpc.RpcMethodHandler:
    """Serve a unary method, or one that answers with a stream."""

    async def answer(request: object, context: ServicerContext) -> Message | None:
        try:
            return await served(request, context)
        except Refusal as refusal:
            await _abort(refusal, context)

    make = (
        grpc.stream_stream_rpc_method_handler
        if method.client_streaming
        else grpc.unary_stream_rpc_method_handler
        if method.server_streaming
        else grpc.unary_unary_rpc_method_handler
    )
    return make(
        answer,
        request_deserializer=GetMessageClass(method.input_type).FromString,
        response_serializer=GetMessageClass(method.output_type).SerializeToString,
    )


def _refusing(refusal: Refusal) -> grpc.RpcMethodHandler:
    """Fits a method of any kind: it neither reads the request nor answers."""

    async def refuse(_: AsyncIterator[bytes], context: ServicerContext) -> None:
        await _abort(refusal, context)

    return grpc.stream_stream_rpc_method_handler(refuse)


async def _abort(refusal: Refusal, context: ServicerContext) -> NoReturn:
    await context.abort(refusal.code, refusal.message, refusal.trailers())
    raise AssertionError("unreachable")
