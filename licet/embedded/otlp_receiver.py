"""A receiver for OTLP/gRPC traces that keeps them in a `TraceStore`.

It speaks the collector's protocol (opentelemetry-proto, TraceService/Export), so a process traces to it
exactly as to a real collector. Loopback only; at most 4 MiB a request, which is grpc's own limit.
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span, Status

from licet import telemetry
from licet.embedded.trace_store import StoredSpan, TraceStore

_KIND_PREFIX: Final = len("SPAN_KIND_")


class _TraceService(trace_service_pb2_grpc.TraceServiceServicer):
    def __init__(self, store: TraceStore) -> None:
        self._store = store

    def Export(  # noqa: N802 - the protocol's name
        self, request: trace_service_pb2.ExportTraceServiceRequest, context: grpc.ServicerContext
    ) -> trace_service_pb2.ExportTraceServiceResponse:
        del context
        for resource_spans in request.resource_spans:
            self._store.add(_stored(resource_spans))
        return trace_service_pb2.ExportTraceServiceResponse()


class OtlpReceiver:
    """A running receiver; `endpoint` is what `LICET_OTLP_ENDPOINT` wants."""

    def __init__(self, store: TraceStore, listen: str = "127.0.0.1:0") -> None:
        # One thread: the store's connection is used by one at a time.
        self._server = grpc.server(ThreadPoolExecutor(max_workers=1))
        add = trace_service_pb2_grpc.add_TraceServiceServicer_to_server
        add(_TraceService(store), self._server)  # type: ignore[no-untyped-call] # generated without types
        host, _, _ = listen.rpartition(":")
        self.port = self._server.add_insecure_port(listen)
        self.endpoint = f"http://{host}:{self.port}"

    def start(self) -> None:
        """Begin to receive."""
        self._server.start()

    def stop(self) -> None:
        """Finish what is in flight, for at most one second, and stop."""
        self._server.stop(grace=1).wait()


def _stored(resource_spans: ResourceSpans) -> list[StoredSpan]:
    service = str(_attributes(resource_spans.resource.attributes).get(telemetry.SERVICE_NAME, ""))
    return [_one(span, service) for scope in resource_spans.scope_spans for span in scope.spans]


def _one(span: Span, service: str) -> StoredSpan:
    return StoredSpan(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        service=service,
        name=span.name,
        kind=Span.SpanKind.Name(span.kind)[_KIND_PREFIX:].lower(),
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        error=(span.status.message or "error") if span.status.code == Status.STATUS_CODE_ERROR else "",
        attributes=_attributes(span.attributes),
        links=tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
    )


def _attributes(pairs: Iterable[KeyValue]) -> dict[str, object]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> object:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    plain: object = getattr(value, kind)
    return plain if isinstance(plain, str | bool | int | float) else str(plain)
