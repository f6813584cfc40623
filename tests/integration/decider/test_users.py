"""A call with a user token, end to end: the task's own principal, or nobody."""

import asyncio
from pathlib import Path

import grpc
import grpc.aio
import pytest

from licet.embedded.dev_issuer import JWKS_FILE, dev_token, make_dev_issuer
from licet.refusal import Reason
from licet.v1.decision_pb2 import DECISION_TYPE_ALLOW, DECISION_TYPE_DENY
from tests.integration.decider.test_decide import reason_of
from tests.worlds.decisions import Ground, furnish

pytestmark = pytest.mark.asyncio

ANA = "ana@t1.example.com"


async def test_call_is_for_the_user_whose_token_came_or_for_nobody(ground: Ground) -> None:
    """The task's principal passes; another user, a stale token, none where one is wanted: denied."""
    keys = ground.keys_dir
    issuers = make_dev_issuer(keys)
    issuers.write_text("required: true\n" + issuers.read_text())
    house = await furnish(ground, issuers_file=issuers)
    try:
        lawful = await house.decide(user_token=dev_token(keys, ANA))
        assert lawful.decision == DECISION_TYPE_ALLOW
        assert house.permit(lawful).principal == ANA
        bad = {
            Reason.PRINCIPAL_INVALID: dev_token(keys, "ben@t2.example.com"),
            Reason.TOKEN_EXPIRED: dev_token(keys, ANA, now_s=1_700_000_000),
            Reason.TOKEN_SIGNATURE: dev_token(keys, ANA)[:-8] + "AAAAAAAA",
            Reason.TOKEN_MISSING: "",
        }
        for at, (reason, token) in enumerate(bad.items()):
            denied = await house.decide(user_token=token, call_id=f"bad-{at}")
            assert (denied.decision, denied.refusal.reason) == (DECISION_TYPE_DENY, str(reason))
            assert denied.refusal.escalate_to == "finance-desk@example.com"
            (event,) = await house.decisions(f"bad-{at}")
            assert (event.kind, event.reason) == ("decision.denied", str(reason))
            assert token[:40] not in event.detail or not token
    finally:
        await house.close()


async def test_keys_that_cannot_be_had_are_no_decision(ground: Ground) -> None:
    issuers = make_dev_issuer(ground.keys_dir)
    await asyncio.to_thread(Path.unlink, ground.keys_dir / JWKS_FILE)
    house = await furnish(ground, issuers_file=issuers)
    try:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await house.decide(user_token=dev_token(ground.keys_dir, ANA))
        assert error.value.code() == grpc.StatusCode.UNAVAILABLE
        assert reason_of(error.value) == "TOKEN_KEYS_UNAVAILABLE"
        assert (await house.decide(call_id="call-2")).decision == DECISION_TYPE_ALLOW
        (event,) = await house.decisions()
        assert event.kind == "decision.failed"
    finally:
        await house.close()
