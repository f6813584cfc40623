"""What the spans of a decision say: what was decided and what is enforced are two things."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from licet import telemetry
from licet.embedded.otlp_receiver import OtlpReceiver
from licet.embedded.trace_store import StoredSpan, TraceStore
from licet.metadata import DEV_IDENTITY
from licet.tracing import TraceContext, inject
from licet.v1 import decider_pb2
from licet.v1.decision_pb2 import CODEC_PROTOBUF
from tests.worlds.decisions import REFUND, REFUND_BOT, Ground, furnish, refund

TRACES = {"O1": "1" * 32, "O3": "3" * 32}


async def decided(ground: Ground, directory: Path) -> dict[str, StoredSpan]:
    """Ask for a refund that the rules allow and for one they forbid; return the span of each decision."""
    store = TraceStore(directory / "traces.db")
    receiver = OtlpReceiver(store)
    receiver.start()
    house = await furnish(ground, otlp_endpoint=receiver.endpoint)
    for order, trace_id in TRACES.items():
        asked = decider_pb2.DecideRequest(
            method=REFUND, request=refund(order), codec=CODEC_PROTOBUF, task_id="task_789", call_id=order
        )
        sent = ((DEV_IDENTITY, REFUND_BOT), *inject(TraceContext(trace_id, "5" * 16)))
        await house.stub.Decide(asked, metadata=sent, timeout=10)
    await house.close()
    receiver.stop()
    spans = {
        order: next(one for one in store.trace(trace_id) if one.name == telemetry.SPAN_DECIDE)
        for order, trace_id in TRACES.items()
    }
    store.close()
    return spans


@pytest.mark.asyncio
async def test_shadow_stage_says_what_is_enforced_and_what_it_would_have_decided(
    ground: Ground, tmp_path: Path
) -> None:
    """Whoever counts only what was enforced would never see what the new rules would have stopped."""
    manifest = ground.policy / "bundle.yaml"
    until = datetime.now(UTC).date() + timedelta(days=2)
    waived = f'stage: shadow\nwaiver: {{until: "{until}", reason: "a trial"}}'
    manifest.write_text(manifest.read_text().replace("stage: enforce", waived))
    spans = await decided(ground, tmp_path)
    assert spans["O3"].attributes[telemetry.DECISION] == "allow"
    assert spans["O3"].attributes[telemetry.SHADOW_DECISION] == "deny"
    assert spans["O1"].attributes[telemetry.DECISION] == "allow"
    assert telemetry.SHADOW_DECISION not in spans["O1"].attributes


@pytest.mark.asyncio
async def test_enforcing_stage_has_one_decision_and_it_is_what_is_enforced(
    ground: Ground, tmp_path: Path
) -> None:
    spans = await decided(ground, tmp_path)
    assert spans["O3"].attributes[telemetry.DECISION] == "deny"
    assert spans["O3"].attributes[telemetry.REASON] == "POLICY_DENIED"
    assert spans["O1"].attributes[telemetry.DECISION] == "allow"
    assert not any(telemetry.SHADOW_DECISION in one.attributes for one in spans.values())
    assert {one.error for one in spans.values()} == {""}, "a denial is no error"
