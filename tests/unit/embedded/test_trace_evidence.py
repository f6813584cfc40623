"""Which steps a trace is about, and which trace is a call's."""

from pathlib import Path

from licet import telemetry
from licet.embedded.trace_evidence import steps_of
from licet.embedded.trace_store import OWN_TRACES, StoredSpan, TraceStore


def span(name: str, number: int, **attributes: object) -> StoredSpan:
    trace = f"{number:032x}"
    return StoredSpan(
        trace, f"{number:016x}", "", "test", name, "internal", number, number + 1, "", attributes, ()
    )


def test_steps_are_named_by_their_spends_once_each_in_order() -> None:
    spans = [
        span("door", 1, **{telemetry.DECISION_ID: "facts"}),
        span("door", 2, **{telemetry.SPEND_ID: "b", telemetry.DECISION_ID: "d1"}),
        span("door", 3, **{telemetry.SPEND_ID: "a"}),
        span("door", 4, **{telemetry.SPEND_ID: "b"}),
    ]
    assert steps_of(spans) == (("b", ""), ("a", ""))


def test_reads_alone_are_named_by_their_decisions_and_a_trace_of_neither_names_no_step() -> None:
    assert steps_of([span("door", 1, **{telemetry.DECISION_ID: "d1"})]) == (("", "d1"),)
    assert steps_of([span("door", 1)]) == ()


def test_newest_trace_is_that_of_a_call_and_not_of_what_licet_does_alone(tmp_path: Path) -> None:
    with TraceStore(tmp_path / "traces.db") as store:
        store.add([span(name, number) for number, name in enumerate(OWN_TRACES, 10)])
        assert store.latest() is None
        store.add([span("execute_tool refund", 1)])
        assert store.latest() == f"{1:032x}"
