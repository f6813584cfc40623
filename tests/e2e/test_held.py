"""A call that a person must approve, in the running house: approved it runs once; without, it is found out.

The forger has the decider's own key, the worst that can be stolen below tier 5: the ledger changes, and the
finding says that nobody had approved. The lawful twin is approved by the command that people use.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
from typing import Any

import grpc
import pytest

from audit.judging.evidence import NoEvidenceError, read
from examples.refund.demo.house import House
from examples.refund.demo.play import refund
from examples.refund.demo.wire import REFUND
from licet.keyfile import read_signing_key
from licet.metadata import DEV_IDENTITY, PERMIT
from licet.statement import PayloadType
from licet.strict import canonical
from licet.v1 import decider_pb2, decider_pb2_grpc
from licet.v1.decision_pb2 import (
    CODEC_PROTOBUF,
    DECISION_TYPE_ALLOW,
    DECISION_TYPE_HOLD,
    Decision,
)

pytestmark = pytest.mark.timeout(180)

TASK = "task_792"
"""Its contract lets refunds through only when the task's owner approves."""


def licet(house: House, *words: str, status: int = 0) -> str:
    environment = {
        **os.environ,
        **house.stack.audit_environment(),
        "LICET_DECIDER": house.stack.decider,
        "LICET_IDENTITY": "spiffe://licet.local/dev/desk",
    }
    command = [sys.executable, "-m", "licet", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    return done.stdout


class Agent:
    """Asks the decider and goes to the door, with whatever permit it has."""

    def __init__(self, house: House) -> None:
        self._metadata = ((DEV_IDENTITY, house.identity),)
        self._decider = grpc.insecure_channel(house.stack.decider)
        self._door = grpc.insecure_channel(house.stack.sidecar("finance"))

    def decide(self, body: bytes, call_id: str, task: str = TASK) -> decider_pb2.DecideResponse:
        request = decider_pb2.DecideRequest(
            method=REFUND, request=body, codec=CODEC_PROTOBUF, task_id=task, call_id=call_id
        )
        stub: Any = decider_pb2_grpc.DeciderServiceStub(self._decider)
        response = stub.Decide(request, metadata=self._metadata, timeout=30)
        assert isinstance(response, decider_pb2.DecideResponse)
        return response

    def call(self, body: bytes, permit: bytes) -> bytes:
        method: Any = self._door.unary_unary(REFUND, request_serializer=bytes, response_deserializer=bytes)
        return bytes(method(body, metadata=(*self._metadata, (PERMIT, permit)), timeout=30))

    def close(self) -> None:
        self._decider.close()
        self._door.close()


def finding_of(house: House, call_id: str, wanted: str) -> str:
    """Read the evidence until it says what is wanted; what it said last, else."""
    deadline, said = time.monotonic() + 90, ""
    while time.monotonic() < deadline and said != wanted:
        with contextlib.suppress(NoEvidenceError):  # the writer is on its way
            now_us = time.time_ns() // 1_000
            said = str(read(house.store, now_us=now_us, task_id=TASK, call_id=call_id).finding.finding)
        time.sleep(0.1)
    return said


def forged(house: House, held: Decision, lawful: Decision) -> bytes:
    """Sign what the decider would have, had people approved: with its own key."""
    permit = Decision()
    permit.CopyFrom(lawful)
    permit.task_id, permit.call_id, permit.spend_id = held.task_id, held.call_id, held.spend_id
    permit.decision_id = "f" * 32
    key = read_signing_key(house.stack.layout.keys / "decider.key")
    return canonical(key.sign(PayloadType.PERMIT, canonical(permit)))


def test_held_call_runs_once_when_approved_and_is_found_out_when_not(house: House) -> None:
    """HELD_WITHOUT_APPROVAL against ALLOWED_EXECUTED, from the same hold of the same contract."""
    agent = Agent(house)
    try:
        order, call_id = house.order(), house.call_id()
        body, before = refund(order), house.balance_minor()
        response = agent.decide(body, call_id)
        assert response.decision == DECISION_TYPE_HOLD
        held = Decision.FromString(response.signed.payload)
        lawful = agent.decide(body, house.call_id(), task="task_789")
        assert lawful.decision == DECISION_TYPE_ALLOW
        agent.call(body, forged(house, held, Decision.FromString(lawful.signed.payload)))
        assert house.balance_minor() == before - 5_000
        assert finding_of(house, call_id, "HELD_WITHOUT_APPROVAL") == "HELD_WITHOUT_APPROVAL"

        order, call_id = house.order(), house.call_id()
        body, before = refund(order), house.balance_minor()
        held_again = agent.decide(body, call_id)
        assert held_again.decision == DECISION_TYPE_HOLD
        assert house.balance_minor() == before
        shown = json.loads(licet(house, "approvals", "show", held_again.hold.hold_id, "--json"))
        assert shown["text"] == f"Refund 50.00 USD for order {order}"
        key = str(house.stack.layout.keys / "approver-lena.key")
        licet(house, "approvals", "approve", held_again.hold.hold_id, "--key", key, "--yes")
        permitted = agent.decide(body, call_id)
        assert permitted.decision == DECISION_TYPE_ALLOW
        agent.call(body, canonical(permitted.signed))
        assert house.balance_minor() == before - 5_000
        assert finding_of(house, call_id, "ALLOWED_EXECUTED") == "ALLOWED_EXECUTED"
        answers = json.loads(licet(house, "explain", f"{TASK}/{call_id}", "--json"))["answers"]
        (approval,) = [one for one in answers if one["question"] == "did the people approve that must?"]
        assert approval["value"] == "approved by lena"
    finally:
        agent.close()
