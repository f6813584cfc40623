"""What a decider logs of a call leads to the call's trace."""

import grpc
import pytest

from decider.decision.case import Case
from licet.metadata import DEV_IDENTITY
from licet.v1 import decider_pb2
from licet.v1.decision_pb2 import CODEC_PROTOBUF
from tests.worlds.decisions import REFUND, REFUND_BOT, House, refund
from tests.worlds.log_lines import log_lines

TRACE = "c" * 32


@pytest.mark.asyncio
async def test_a_faults_lines_have_the_callers_trace(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object, **__: object) -> object:
        raise RuntimeError("a fault of the rules")

    monkeypatch.setattr(Case, "run", broken)
    metadata = ((DEV_IDENTITY, REFUND_BOT), ("traceparent", f"00-{TRACE}-{'d' * 16}-00"))
    asked = decider_pb2.DecideRequest(
        method=REFUND, request=refund(), codec=CODEC_PROTOBUF, task_id="task_789", call_id="call-1"
    )
    with log_lines() as lines, pytest.raises(grpc.aio.AioRpcError):
        await house.stub.Decide(asked, metadata=metadata, timeout=10)
    faults = [one for one in lines if one["event"] == "decide.fault"]
    assert faults
    assert {one["trace_id"] for one in faults} == {TRACE}
    assert "a fault of the rules" not in str(lines)
