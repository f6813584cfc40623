"""Whatever a request is denied with, or cannot be decided for, is on record once and with its reason.

The reason is put in the place of one check's verdict, one by one over the whole closed list; the decider, its
journal and the stream are real. Which check gives which reason is shown where the check is tested.
"""

import asyncio
from typing import Any

import grpc
import pytest

import decider.decision.case
from licet.refusal import Reason, Refusal
from licet.v1.decision_pb2 import DECISION_TYPE_DENY
from tests.worlds.decisions import House

pytestmark = pytest.mark.asyncio

FAILURES = [reason for reason in Reason if reason is not Reason.RESOURCE_UNKNOWN]
"""What a read of facts may fail with; what the tool does not have is denied instead."""


async def test_every_reason_of_a_denial_is_one_event(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    for reason in Reason:
        with monkeypatch.context() as patch:
            patch.setattr(decider.decision.case, "admit", lambda *_args, one=reason, **_more: Refusal(one))
            response = await house.decide(call_id=f"denied-{reason}")
        assert (response.decision, response.refusal.reason) == (DECISION_TYPE_DENY, str(reason))
    assert (await house.decide(call_id="lawful")).refusal.reason == ""
    told = [event for event in await house.events() if event.call_id.startswith("denied-")]
    assert [(event.kind, event.decision, event.reason, event.call_id) for event in told] == [
        ("decision.denied", "deny", str(reason), f"denied-{reason}") for reason in Reason
    ]


async def test_every_reason_of_a_failure_is_one_event(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unread(*_args: object, one: Reason, **_more: object) -> Refusal:
        return Refusal(one)

    for reason in FAILURES:
        with monkeypatch.context() as patch:
            patch.setattr(
                decider.decision.case, "read_facts", lambda *args, one=reason, **more: unread(one=one)
            )
            with pytest.raises(grpc.RpcError):
                await house.decide(call_id=f"failed-{reason}")
    told: list[Any] = []
    async with asyncio.timeout(60):  # a failure does not wait for NATS
        while len(told) < len(FAILURES):
            told = [event for event in await house.events() if event.call_id.startswith("failed-")]
    assert [(event.kind, event.decision, event.reason, event.call_id) for event in told] == [
        ("decision.failed", "failed", str(reason), f"failed-{reason}") for reason in FAILURES
    ]
