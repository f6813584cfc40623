"""What is asked of the door itself over gRPC: health, and what the tool's services look like.

Guaranteed: nothing here reaches the tool, a permit or a record; only exact paths are taken, everything else
goes on to the door. Each question takes a token of its caller's quota, and a half-sent one ends as at the
door. Reflection is off unless a setting turns it on; it shows the services of the signed catalog and nothing
else that this process serves or knows. Not guaranteed: an event for each question; it asks nothing of the
tool.

Health is `grpc.health.v1.Health`: `""` and each service of the catalog are SERVING exactly while `/ready`
says ready. Reflection is `grpc.reflection.v1.ServerReflection`, also under its older name `v1alpha`: the
messages are the same.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError
from grpc import aio
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest, ServerReflectionResponse

from licet.catalog import Catalog
from licet.log import log
from sidecar.entrance.described import Described, services_of

LOG: Final = logging.getLogger(__name__)

LOOK_S: Final = 0.5
"""Between two looks of a health watch."""

MAX_WATCHES: Final = 64
"""Health watches at once in one process; they stay open for as long as their caller likes."""

WATCHES_EACH: Final = 8
"""Of one caller: whoever takes every place lets no load balancer see that the door is well."""

IDLE_S: Final = 10.0
"""How long a question may stay half-sent, and a reflection stream without a question."""

_HEALTH: Final = "/grpc.health.v1.Health/"
_REFLECTION: Final = tuple(
    f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo" for version in ("v1", "v1alpha")
)


class Probe(grpc.GenericRpcHandler):
    """Answers what is asked of the door itself.

    Args:
        admit: Takes a token of the caller's quota and returns whose it is; empty when there is none left.
        reasons: Subsystem to why it is not ready; empty texts when it is.
        catalog: The catalog as it is now; None before the first.
        reflected: What answers for reflection while it is off; None shows the tool's services.
    """

    def __init__(
        self,
        admit: Callable[[Any], str],
        reasons: Callable[[], Mapping[str, str]],
        catalog: Callable[[], Catalog | None],
        *,
        reflected: Callable[[str], Any] | None,
    ) -> None:
        self._admit = admit
        self._reasons = reasons
        self._catalog = catalog
        self._watches: Counter[str] = Counter()
        self._described: Described | None = None
        self._closing = asyncio.Event()
        self._handlers: dict[str, Any] = {
            f"{_HEALTH}Check": grpc.stream_unary_rpc_method_handler(self._guarded(self._check)),
            f"{_HEALTH}Watch": grpc.stream_stream_rpc_method_handler(self._guarded(self._watch)),
        }
        for path in _REFLECTION:
            reflect: Any = grpc.stream_stream_rpc_method_handler(self._guarded(self._reflect))
            self._handlers[path] = reflect if reflected is None else reflected(path)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Take the paths of this module; None leaves every other to the door."""
        return self._handlers.get(handler_call_details.method)

    def close(self) -> None:
        """End every watch: a drain must not wait for them."""
        self._closing.set()

    def _guarded(self, answer: Callable[[Any], Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[Any]]:
        """Let nothing that goes wrong in here be told to a caller."""

        async def run(_messages: Any, context: Any) -> Any:
            try:
                return await answer(context)
            except DecodeError:
                return _end(context, grpc.StatusCode.INVALID_ARGUMENT, "this is no question of that service")
            except TimeoutError:
                return _end(context, grpc.StatusCode.DEADLINE_EXCEEDED, "no whole question came in time")
            except Exception as fault:  # noqa: BLE001 # grpcio would tell the caller what went wrong in here
                log(LOG, logging.ERROR, "probe.fault", error=type(fault).__name__)
                return _end(context, grpc.StatusCode.INTERNAL, "")

        return run

    # --- health

    async def _check(self, context: Any) -> bytes:
        if not self._admit(context):
            return _end(context, grpc.StatusCode.RESOURCE_EXHAUSTED, "quota")
        status = self._status(HealthCheckRequest.FromString(await _question(context)).service)
        if status == HealthCheckResponse.SERVICE_UNKNOWN:
            return _end(context, grpc.StatusCode.NOT_FOUND, "no such service")
        answer: bytes = HealthCheckResponse(status=status).SerializeToString()
        return answer

    async def _watch(self, context: Any) -> None:
        bucket = self._admit(context)
        if not bucket or self._watches[bucket] >= WATCHES_EACH or self._watches.total() >= MAX_WATCHES:
            _end(context, grpc.StatusCode.RESOURCE_EXHAUSTED, "quota")
            return
        self._watches[bucket] += 1
        try:
            service = HealthCheckRequest.FromString(await _question(context)).service
            await self._watched(service, context)
        finally:
            self._watches -= Counter((bucket,))  # and forget who has none left

    async def _watched(self, service: str, context: Any) -> None:
        said = None
        while not context.done():
            closing = self._closing.is_set()  # before the status: a drain that begins meanwhile is told
            status = self._status(service)
            if status != said:
                await context.write(HealthCheckResponse(status=status).SerializeToString())
                said = status
            if closing:
                _end(context, grpc.StatusCode.UNAVAILABLE, "draining")
                return
            await _set_or_later(self._closing, LOOK_S)

    def _status(self, service: str) -> int:
        status: int = HealthCheckResponse.SERVING
        if service and service not in services_of(self._catalog()):
            status = HealthCheckResponse.SERVICE_UNKNOWN
        elif any(self._reasons().values()):
            status = HealthCheckResponse.NOT_SERVING
        return status

    # --- reflection

    async def _reflect(self, context: Any) -> None:
        while True:
            raw = await _question(context, last=True)
            if raw is None:
                return
            if not self._admit(context):
                _end(context, grpc.StatusCode.RESOURCE_EXHAUSTED, "quota")
                return
            answer = self._answer(ServerReflectionRequest.FromString(raw))
            await context.write(answer.SerializeToString())

    def _answer(self, question: ServerReflectionRequest) -> ServerReflectionResponse:
        catalog = self._catalog()
        if self._described is None or self._described.catalog is not catalog:
            self._described = Described(catalog)
        return self._described.answer(question)


async def _question(context: Any, *, last: bool = False) -> Any:
    """Return the next message; None at the end of a stream that may end (`last`). Raises TimeoutError."""
    async with asyncio.timeout(IDLE_S):
        raw = await context.read()
    if raw is not aio.EOF:
        return raw
    if last:
        return None
    raise DecodeError("no question came")


async def _set_or_later(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


def _end(context: Any, code: grpc.StatusCode, text: str) -> bytes:
    context.set_code(code)
    context.set_details(text)
    return b""
