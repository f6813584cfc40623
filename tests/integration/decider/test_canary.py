"""A secret that a caller or a tool tells a decider stays where it was told: not even debug logs have it."""

import contextlib
import secrets
from pathlib import Path

import grpc
import pytest

from licet import telemetry
from licet.embedded.otlp_receiver import OtlpReceiver
from licet.embedded.trace_store import TraceStore
from licet.metadata import DEV_IDENTITY
from licet.tracing import TraceContext, inject
from licet.v1 import approvals_pb2, decider_pb2
from licet.v1.decision_pb2 import CODEC_PROTOBUF
from tests.integration.decider.test_holds import desk_of, held
from tests.worlds.decisions import REFUND, REFUND_BOT, TYPES, Ground, House, furnish, order, refund
from tests.worlds.log_lines import log_lines
from tests.worlds.stored_files import files_with

CANARY = f"canary{secrets.token_hex(12)}"
KNOWN = "call-facts"


def secret_refund(order: str = "O1") -> bytes:
    message = TYPES("IssueRefundRequest").FromString(refund(order))
    message.reason = CANARY
    return bytes(message.SerializeToString())


@pytest.mark.asyncio
async def test_a_secret_is_in_no_log_span_event_or_answer_of_a_decider(
    ground: Ground, tmp_path: Path
) -> None:
    store = TraceStore(tmp_path / "traces.db")
    receiver = OtlpReceiver(store)
    receiver.start()
    with log_lines() as lines:
        house = await furnish(ground, otlp_endpoint=receiver.endpoint)
        house.finance.says = f"no order for {CANARY}"
        house.finance.orders["O-odd"] = order("O-odd", currency=CANARY)
        sent = (
            (DEV_IDENTITY, REFUND_BOT),
            ("authorization", f"Bearer {CANARY}"),
            ("baggage", f"customer={CANARY}"),
            ("x-note-bin", CANARY.encode()),
            *inject(TraceContext("7" * 32, "8" * 16, sampled=False)),
        )
        said = ""
        for call_id, body in (
            ("call-allowed", secret_refund()),
            ("call-denied", secret_refund("O3")),
            ("call-odd", secret_refund("O-odd")),
            (KNOWN, secret_refund("O-unknown")),
            ("call-broken", secret_refund() + b"\xff" + CANARY.encode()),
        ):
            asked = decider_pb2.DecideRequest(
                method=REFUND,
                request=body,
                codec=CODEC_PROTOBUF,
                task_id="task_789",
                call_id=call_id,
                claimed_intent=CANARY,
            )
            try:
                answer = await house.stub.Decide(asked, metadata=sent, timeout=10)
                said += str(answer.refusal)
            except grpc.aio.AioRpcError as error:
                said += f"{error.code()} {error.details()} {error.trailing_metadata()}"
        asked.user_token = CANARY
        with contextlib.suppress(grpc.aio.AioRpcError):
            await house.stub.Decide(asked, metadata=sent, timeout=10)
        events = [str(event) for event in await house.events()]
        await house.close()
    receiver.stop()
    spans = store.trace("7" * 32)
    store.close()
    assert "RESOURCE_UNKNOWN" in said
    assert any(KNOWN in one for one in events), "the search finds what is there"
    assert any(one.name.startswith(telemetry.SPAN_FACTS) for one in spans)
    assert any(one["level"] == "debug" for one in lines)
    told = {"answers": said, "events": str(events), "spans": str(spans), "logs": str(lines)}
    assert [name for name, text in told.items() if CANARY in text or CANARY.encode().hex() in text] == []
    assert not [*files_with(ground.directory, CANARY.encode())]
    assert [*files_with(ground.directory, KNOWN.encode())]


@pytest.mark.asyncio
async def test_what_an_approver_writes_finds_no_room_in_an_answer(house: House) -> None:
    """Answers are kept as they are signed, unsealed; the lawful twin is kept and lifts the hold."""
    desk = await desk_of(house)
    hold = await held(house)
    with log_lines() as lines:
        assert (
            await desk.refused(hold, "lena", authenticated_method=CANARY + " said so") == "APPROVAL_INVALID"
        )
        assert await desk.refused(hold, "lena", role=CANARY) == "APPROVAL_INVALID"
        assert await desk.refused(hold, "lena", rule_ids=[CANARY]) == "APPROVAL_INVALID"
        status = await desk.answer(hold, "lena", authenticated_method="webauthn")
    assert status.state == approvals_pb2.HOLD_STATE_LIFTED
    events = [str(event) for event in await house.events()]
    assert any("approval.voted" in one for one in events), "the search finds what is there"
    assert [
        name for name, text in {"events": str(events), "logs": str(lines)}.items() if CANARY in text
    ] == []
    assert not [*files_with(house.ground.directory, CANARY.encode())]
    assert [*files_with(house.ground.directory, hold.hold_id.encode())]
