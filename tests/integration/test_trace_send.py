"""A kept trace that is sent on arrives as it was kept."""

from pathlib import Path

from licet import telemetry
from licet.embedded.otlp_receiver import OtlpReceiver
from licet.embedded.trace_send import send
from licet.embedded.trace_store import StoredSpan, TraceStore

TRACE, ROOT, CHILD, OTHER = "a" * 32, "1" * 16, "2" * 16, "3" * 16
SPANS = (
    StoredSpan(
        TRACE, ROOT, "", "agent", "execute_tool refund", "internal", 10, 90, "",
        {telemetry.GEN_AI_TOOL_NAME: "refund", telemetry.RULE_IDS: ["a", "b"], telemetry.TIER: 4}, (),
    ),
    StoredSpan(
        TRACE, CHILD, ROOT, "licet-sidecar", telemetry.SPAN_PERMIT_VERIFY, "server", 20, 30, "INTERNAL",
        {telemetry.ERROR_TYPE: "INTERNAL", telemetry.TOOL_REACHED: False}, (("b" * 32, OTHER),),
    ),
)  # fmt: skip


def test_what_is_sent_on_arrives_as_it_was_kept(tmp_path: Path) -> None:
    with TraceStore(tmp_path / "there.db") as there:
        receiver = OtlpReceiver(there)
        receiver.start()
        send(SPANS, receiver.endpoint)
        receiver.stop()
        assert there.trace(TRACE) == SPANS
