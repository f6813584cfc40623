"""A call that rules narrow, in the running house: the client sends it narrowed, and only that passes."""

import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from audit.judging.evidence import NoEvidenceError, read
from examples.refund.demo.house import TASK, TOOL, House
from examples.refund.demo.play import refund, refund_message
from examples.refund.demo.wire import REFUND
from examples.refund.fin.v1.finance_pb2_grpc import FinanceStub
from licet.client import Client
from licet.client.exchange import reason_of
from licet.metadata import DEV_IDENTITY, PERMIT
from licet.strict import canonical
from licet.v1 import decider_pb2, decider_pb2_grpc
from licet.v1.decision_pb2 import CODEC_PROTOBUF, DECISION_TYPE_MODIFY

pytestmark = pytest.mark.timeout(180)

CLAMP = """
@id("desk-limit") @modify
forbid (principal, action == Action::"refund", resource is Order) when { context.amount_minor > 2000 };
"""
TERMS = "\nmodify: {desk-limit: {fin.v1.Finance/IssueRefund: {amount.minor: {at_most: 2000}}}}\n"


@pytest.fixture
def clamped(house: House) -> Iterator[House]:
    """The house with a desk limit in its rules, and without it again afterwards."""
    rules, manifest = house.policy / "rules.cedar", house.policy / "bundle.yaml"
    before = rules.read_text(), manifest.read_text()
    try:
        rules.write_text(before[0] + CLAMP)
        manifest.write_text(before[1] + TERMS)
        version, activation = house.next_bundle()
        house.put_in_force(activation)
        house.wait_for_bundle(version)
        yield house
    finally:
        rules.write_text(before[0])
        manifest.write_text(manifest.read_text().replace(TERMS, ""))
        version, activation = house.next_bundle()
        house.put_in_force(activation)
        house.wait_for_bundle(version)


def test_client_sends_the_narrowed_call_and_the_ledger_has_it(clamped: House) -> None:
    """50.00 is asked, 20.00 is paid, and the record has both digests, the field, and the smaller amount."""
    house, order, call_id = clamped, clamped.order(), clamped.call_id()
    before = house.balance_minor()
    address = {TOOL: house.stack.sidecar(TOOL)}
    with Client(decider=house.stack.decider, tools=address, identity=house.identity) as client:
        finance: Any = client.stub(FinanceStub, task=TASK)
        finance.IssueRefund(refund_message(order), call_id=call_id)
    assert house.balance_minor() == before - 2_000
    found = settled(house, call_id)
    assert str(found.finding.finding) == "ALLOWED_EXECUTED"
    (event,) = [row for row in found.policy if row["kind"] == "decision.modified"]
    assert (event["amount_minor"], event["detail"]) == (2_000, "changed amount.minor")
    asked = "SELECT original_call_digest, call_digest FROM events WHERE event_id = {id:String}"
    found_rows = house.store.query(asked, parameters={"id": event["event_id"]}).result_rows
    ((before_digest, after_digest),) = found_rows
    assert before_digest not in {"", after_digest}


def settled(house: House, call_id: str) -> Any:
    deadline = time.monotonic() + 90
    while True:
        try:
            found = read(house.store, now_us=time.time_ns() // 1_000, task_id=TASK, call_id=call_id)
            if str(found.finding.finding) == "ALLOWED_EXECUTED" or time.monotonic() > deadline:
                return found
        except NoEvidenceError:  # the writer is on its way
            assert time.monotonic() < deadline
        time.sleep(0.1)


def test_permit_of_a_narrowed_call_opens_nothing_for_the_call_that_was_asked(clamped: House) -> None:
    """The door rewrites nothing and takes nothing else: the original bytes are another call."""
    house, body = clamped, refund(clamped.order())
    identity, before = ((DEV_IDENTITY, house.identity),), house.balance_minor()
    with grpc.insecure_channel(house.stack.decider) as decider:
        stub: Any = decider_pb2_grpc.DeciderServiceStub(decider)
        request = decider_pb2.DecideRequest(
            method=REFUND, request=body, codec=CODEC_PROTOBUF, task_id=TASK, call_id=house.call_id()
        )
        answer = stub.Decide(request, metadata=identity, timeout=30)
    assert answer.decision == DECISION_TYPE_MODIFY
    metadata = (*identity, (PERMIT, canonical(answer.signed)))
    with grpc.insecure_channel(house.stack.sidecar(TOOL)) as door:
        method: Any = door.unary_unary(REFUND, request_serializer=bytes, response_deserializer=bytes)
        with pytest.raises(grpc.RpcError) as refused:
            method(body, metadata=metadata, timeout=30)
        assert reason_of(refused.value)[0] == "DIGEST_MISMATCH"
        assert house.balance_minor() == before
        method(answer.effective_request, metadata=metadata, timeout=30)
    assert house.balance_minor() == before - 2_000
