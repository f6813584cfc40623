"""Spans go over real OTLP into the store and come back as one tree."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.trace import SpanKind

from licet import telemetry
from licet.embedded.otlp_receiver import OtlpReceiver
from licet.embedded.trace_store import TraceStore
from licet.embedded.trace_tree import render
from licet.tracing import configure


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TraceStore]:
    with TraceStore(tmp_path / "traces.db") as store:
        yield store


@pytest.fixture
def receiver(store: TraceStore) -> Iterator[OtlpReceiver]:
    receiver = OtlpReceiver(store)
    receiver.start()
    yield receiver
    receiver.stop()


def test_two_processes_join_in_one_trace_and_a_reconciler_links_to_it(
    store: TraceStore, receiver: OtlpReceiver
) -> None:
    agent = configure("agent", receiver.endpoint)
    door = configure("sidecar", receiver.endpoint)
    reconciler = configure("reconciler", receiver.endpoint)
    calling = agent.record()
    root = calling.span(f"{telemetry.SPAN_EXECUTE_TOOL} issue_refund")
    enforcing = door.record(root.context)
    server = enforcing.span("fin.v1.Finance/IssueRefund", kind=SpanKind.SERVER)
    verify = enforcing.span(telemetry.SPAN_PERMIT_VERIFY, under=server)
    verify.set(telemetry.REASON, "DIGEST_MISMATCH")
    verify.set(telemetry.RULE_IDS, ("a", "b"))
    enforcing.close()
    calling.close()
    later = reconciler.record()
    later.span(telemetry.SPAN_RECONCILE, links=[verify.context]).set(telemetry.FINDING, "DENIED_STOPPED")
    later.close()
    for one in (agent, door, reconciler):
        one.shutdown()

    trace = root.context.trace_id
    assert render(store.trace(trace), store.linked_to(trace)).splitlines() == [
        _timed(store, trace, root.context.span_id, "execute_tool issue_refund [agent] {} ms"),
        _timed(store, trace, server.context.span_id, "└ fin.v1.Finance/IssueRefund [sidecar] {} ms"),
        _timed(
            store,
            trace,
            verify.context.span_id,
            "  └ permit.verify [sidecar] {} ms reason=DIGEST_MISMATCH rule.ids=a+b",
        ),
        "reconcile [reconciler] links to permit.verify finding=DENIED_STOPPED",
    ]


def test_span_sent_twice_is_kept_once(store: TraceStore, receiver: OtlpReceiver) -> None:
    tracing = configure("agent", receiver.endpoint)
    recording = tracing.record()
    span = recording.span("once")
    recording.close()
    tracing.export([span])
    tracing.shutdown()
    assert len(store.trace(span.context.trace_id)) == 1


def test_span_whose_parent_never_arrived_is_shown_as_such(store: TraceStore, receiver: OtlpReceiver) -> None:
    lost = configure("agent", None).record()
    parent = lost.span("lost")
    tracing = configure("sidecar", receiver.endpoint)
    recording = tracing.record(parent.context)
    recording.span("door")
    recording.close()
    tracing.shutdown()
    assert "(parent missing)" in render(store.trace(parent.context.trace_id))


def _timed(store: TraceStore, trace_id: str, span_id: str, line: str) -> str:
    """Fill in the milliseconds that the store has for a span: the one thing a test cannot know beforehand."""
    (span,) = (one for one in store.trace(trace_id) if one.span_id == span_id)
    return line.format(f"{(span.end_ns - span.start_ns) / 1e6:.1f}")
