"""A call behind grpcio reaches its handler when its message is whole, or ends. For grpcio alone.

grpcio waits for the message of a unary call as long as the caller likes. So its calls are taken as streams of
one message, which is read within a time and within the caller's share of half-sent calls. The statuses are
those of `decider.server`: DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED; no event tells of them: nothing was asked.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import grpc
import grpc.aio

from licet.clock import wall_ms
from licet.intake import HALF_SENT_MS, Intake, bucket_of
from licet.peer import certified_peer

SILENCE: Final = "half a request, then silence"
TOO_MANY: Final = "too many half-sent calls"


class Whole(grpc.GenericRpcHandler):
    """Serves the unary handlers of others, with whole messages.

    Args:
        services: Whose handlers they are.
        half_sent_ms: From headers to the whole message.
        intake: Counts the half-sent calls.
    """

    def __init__(self, services: Any, half_sent_ms: int = HALF_SENT_MS, intake: Intake | None = None) -> None:
        self._services = services
        self._within_s = half_sent_ms / 1_000
        self.intake: Final = Intake() if intake is None else intake

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        """Return the handler of a call, None where nobody has a unary one."""
        handler = self._services.service(details)
        if handler is None or handler.unary_unary is None:
            return None
        run, read = handler.unary_unary, handler.request_deserializer

        async def whole(_messages: Any, context: Any) -> Any:
            message = await self._message(context)
            return await run(await _read(read, message, context), context)

        return grpc.stream_unary_rpc_method_handler(whole, response_serializer=handler.response_serializer)

    async def _message(self, context: Any) -> bytes:
        bucket = bucket_of(certified_peer(context.auth_context(), now_ms=wall_ms()), context.peer())
        if not self.intake.enter(bucket):
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, TOO_MANY)
        message: Any = None
        try:
            async with asyncio.timeout(self._within_s):
                message = await context.read()
        except TimeoutError:
            pass
        finally:
            self.intake.leave(bucket)
        if message is None:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, SILENCE)
        if message is grpc.aio.EOF:
            await context.abort(grpc.StatusCode.INTERNAL, "not one whole message")
        return bytes(message)


async def _read(read: Callable[[bytes], Any] | None, message: bytes, context: Any) -> Any:
    """Return a message as its handler has it; what a parser says of it is told to nobody."""
    try:
        return message if read is None else read(message)
    except Exception:  # noqa: BLE001 - whatever a parser raises, the message is none
        await context.abort(grpc.StatusCode.INTERNAL, "the message cannot be read")
