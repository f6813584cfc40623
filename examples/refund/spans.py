"""The tool's spans: of reads, and of refunds when nobody gates. The guard leaves those of guarded refunds."""

from collections.abc import Iterator
from contextlib import contextmanager

import grpc
from opentelemetry.trace import SpanKind

from licet.guard.method import served
from licet.log import of_trace
from licet.tracing import Recording, Span, Tracing, extract, rpc


class ToolSpans:
    """Makes a server span for a call, under its caller's."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing

    @contextmanager
    def call(self, method: str, context: grpc.ServicerContext) -> Iterator[tuple[Recording, Span]]:
        """Record one call of `fin.v1.Finance/<method>`."""
        recording = self._tracing.record(extract(tuple(context.invocation_metadata())))
        name = f"fin.v1.Finance/{method}"
        with of_trace(recording.trace_id):
            try:
                span = recording.span(name, kind=SpanKind.SERVER, attributes=rpc(name))
                with served(span, context):
                    yield recording, span
            finally:
                recording.close()
