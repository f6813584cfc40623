"""Sends kept traces on to a collector or a trace viewer, as they were: ids, times, parents, links, errors."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from opentelemetry.trace import SpanKind

from licet.embedded.trace_store import StoredSpan
from licet.tracing import Span, TraceContext, configure

_KINDS: Final = {kind.name.lower(): kind for kind in SpanKind}


def send(spans: Sequence[StoredSpan], endpoint: str) -> None:
    """Send spans to an OTLP/gRPC endpoint (`http://host:port`), each under the service that left it.

    Not guaranteed: that they arrive; what a collector does not take within seconds is dropped.
    """
    by_service: dict[str, list[StoredSpan]] = defaultdict(list)
    for span in spans:
        by_service[span.service].append(span)
    for service, left in by_service.items():
        tracing = configure(service, endpoint)
        tracing.export(map(_span, left))
        tracing.shutdown()


def _span(stored: StoredSpan) -> Span:
    span = Span(
        stored.name,
        _KINDS.get(stored.kind, SpanKind.INTERNAL),
        stored.trace_id,
        TraceContext(stored.trace_id, stored.parent_id) if stored.parent_id else None,
        [TraceContext(*link) for link in stored.links],
    )
    span.span_id = stored.span_id
    span.started_ns, span.ended_ns = stored.start_ns, stored.end_ns
    for key, value in stored.attributes.items():
        if isinstance(value, list):
            span.set(key, tuple(map(str, value)))
        elif isinstance(value, str | bool | int | float):
            span.set(key, value)
    if stored.error:
        span.fail(stored.error)
    return span
