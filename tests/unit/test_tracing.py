"""A trace must not be hidden by its caller, nor carry what a caller smuggles."""

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from licet import telemetry
from licet.tracing import TraceContext, Tracing, extract, inject, parse_traceparent

TRACE, SPAN = "a" * 32, "b" * 16


@pytest.fixture
def exported() -> InMemorySpanExporter:
    return InMemorySpanExporter()


def _tracing(exporter: InMemorySpanExporter) -> Tracing:
    return Tracing("test", exporter=exporter)


def test_traceparent_round_trips_through_metadata() -> None:
    context = TraceContext(TRACE, SPAN, sampled=False, tracestate="k=v")
    assert extract(inject(context)) == context


@pytest.mark.parametrize(
    "text",
    ["", "00", f"01-{TRACE}-{SPAN}-01", f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01",
     f"00-{TRACE.upper()}-{SPAN}-01", f"00-{TRACE}-{SPAN}-01\n", f"00-{TRACE}-{SPAN}-01-x"],
)  # fmt: skip
def test_malformed_traceparent_is_no_context(text: str) -> None:
    assert parse_traceparent(text) is None


def test_two_traceparents_are_none_so_neither_can_be_chosen() -> None:
    both = (*inject(TraceContext(TRACE, SPAN)), *inject(TraceContext("c" * 32, SPAN)))
    assert extract(both) is None


def test_tracestate_past_its_cap_is_dropped_and_at_its_cap_kept() -> None:
    header = f"00-{TRACE}-{SPAN}-01"
    at_cap, past = "a" * telemetry.MAX_TRACESTATE_BYTES, "a" * (telemetry.MAX_TRACESTATE_BYTES + 1)
    kept, dropped = parse_traceparent(header, at_cap), parse_traceparent(header, past)
    assert kept is not None
    assert kept.tracestate == at_cap
    assert dropped is not None
    assert dropped.tracestate == ""


def test_baggage_does_not_travel() -> None:
    context = extract((*inject(TraceContext(TRACE, SPAN)), ("baggage", "tenant=t2")))
    assert context is not None
    assert all(key != "baggage" for key, _ in inject(context))


def test_caller_that_does_not_sample_drops_an_ordinary_read(exported: InMemorySpanExporter) -> None:
    tracing = _tracing(exported)
    recording = tracing.record(TraceContext(TRACE, SPAN, sampled=False))
    recording.span("read").end()
    recording.close()
    tracing.shutdown()
    assert exported.get_finished_spans() == ()


def test_caller_that_does_not_sample_cannot_hide_what_is_kept(exported: InMemorySpanExporter) -> None:
    tracing = _tracing(exported)
    recording = tracing.record(TraceContext(TRACE, SPAN, sampled=False))
    with recording.span("door") as door, recording.span(telemetry.SPAN_PERMIT_VERIFY, under=door):
        recording.keep()
    recording.close()
    tracing.shutdown()
    spans = {one.name: one for one in exported.get_finished_spans()}
    assert set(spans) == {"door", telemetry.SPAN_PERMIT_VERIFY}
    verify = spans[telemetry.SPAN_PERMIT_VERIFY]
    assert verify.parent is not None
    assert spans["door"].context is not None
    assert verify.parent.span_id == spans["door"].context.span_id
    assert f"{spans['door'].context.trace_id:032x}" == TRACE


def test_second_close_exports_nothing_again(exported: InMemorySpanExporter) -> None:
    tracing = _tracing(exported)
    recording = tracing.record()
    recording.span("once")
    recording.close()
    recording.close()
    tracing.shutdown()
    assert len(exported.get_finished_spans()) == 1


def test_refusal_is_no_span_error_but_a_raise_is(exported: InMemorySpanExporter) -> None:
    tracing = _tracing(exported)
    recording = tracing.record()
    with recording.span("refused") as refused:
        refused.set(telemetry.REASON, "DIGEST_MISMATCH")
    with pytest.raises(TimeoutError), recording.span("failed"):
        raise TimeoutError
    recording.close()
    tracing.shutdown()
    statuses = {one.name: one.status.status_code for one in exported.get_finished_spans()}
    assert statuses == {"refused": StatusCode.UNSET, "failed": StatusCode.ERROR}


def test_links_point_without_becoming_parents(exported: InMemorySpanExporter) -> None:
    tracing = _tracing(exported)
    recording = tracing.record()
    other = TraceContext("c" * 32, "d" * 16)
    with recording.span("verify", links=[other]) as span:
        span.link(TraceContext("e" * 32, "f" * 16))
    recording.close()
    tracing.shutdown()
    (one,) = exported.get_finished_spans()
    assert [f"{link.context.span_id:016x}" for link in one.links] == ["d" * 16, "f" * 16]
    assert one.parent is None
