"""Who sees and answers holds: desks, each for its tenants; and what a peer may ask beside decisions."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest
import pytest_asyncio

from licet.metadata import DEV_IDENTITY
from licet.v1 import approvals_pb2, task_pb2, task_pb2_grpc
from licet.v1.hold_pb2 import Hold
from licet.v1.statement_pb2 import Signed
from tests.integration.decider.test_decide import reason_of
from tests.integration.decider.test_holds import Desk, desk_of, held
from tests.worlds.decisions import Ground, House, furnish, refund

pytestmark = pytest.mark.asyncio

BASE = "spiffe://licet.local/dev/app/"
DESKS = {"app/one": frozenset({"t0", "t1"}), "app/two": frozenset({"t2"}), "app/all": frozenset({"*"})}


def known_as(name: str) -> tuple[tuple[str, str]]:
    return ((DEV_IDENTITY, BASE + name),)


@pytest_asyncio.fixture
async def house(ground: Ground) -> AsyncIterator[House]:
    made = await furnish(ground, desks=DESKS, quota_per_second=0.01, quota_burst=1_000)
    try:
        yield made
    finally:
        await made.close()


async def said(call: Any, request: Any, who: str) -> Any:
    """Return the answer, or the reason of the refusal."""
    try:
        return await call(request, metadata=known_as(who), timeout=60)
    except grpc.aio.AioRpcError as error:
        return reason_of(error)


async def test_a_desk_sees_and_answers_the_holds_of_its_tenants_alone(house: House) -> None:
    desk: Desk = await desk_of(house)
    hold: Hold = await held(house)
    one = approvals_pb2.GetHoldRequest(hold_id=hold.hold_id)
    answer = approvals_pb2.AnswerRequest(approval=desk.signed(hold, "lena"))
    for who in ("two", "nobody"):
        listed = await said(desk.stub.ListHolds, approvals_pb2.ListHoldsRequest(), who)
        assert list(listed.holds) == []
        assert await said(desk.stub.GetHold, one, who) == "APPROVAL_INVALID"
        assert await said(desk.stub.Answer, answer, who) == "APPROVAL_INVALID"
    for who in ("one", "all"):
        listed = await said(desk.stub.ListHolds, approvals_pb2.ListHoldsRequest(), who)
        assert hold.hold_id in {Hold.FromString(shown.hold).hold_id for shown in listed.holds}
        assert (await said(desk.stub.GetHold, one, who)).hold.state == approvals_pb2.HOLD_STATE_OPEN
    lifted = await said(desk.stub.Answer, answer, "one")
    assert lifted.hold.state == approvals_pb2.HOLD_STATE_LIFTED
    assert house.permit(await house.decide(refund(minor=82_000))).hold_id == hold.hold_id


async def test_answers_and_registrations_use_up_the_quota_of_their_own_caller(house: House) -> None:
    desk = Desk(house)
    tasks: Any = task_pb2_grpc.TaskServiceStub(house.channel)
    large = Signed(payload=b"x" * (1 << 20))
    answer, task = (
        approvals_pb2.AnswerRequest(approval=large),
        task_pb2.RegisterTaskRequest(intent="x" * (1 << 20)),
    )
    assert await said(desk.stub.Answer, answer, "one") == "APPROVAL_INVALID"
    assert await said(desk.stub.Answer, answer, "one") == "QUOTA_EXCEEDED"
    assert await said(tasks.RegisterTask, task, "one") == "QUOTA_EXCEEDED"
    assert await said(tasks.RegisterTask, task, "two") == "REGISTRATION_REFUSED"
    assert await said(tasks.RegisterTask, task, "two") == "QUOTA_EXCEEDED"
    assert await said(desk.stub.Answer, answer, "two") == "QUOTA_EXCEEDED"
    small = approvals_pb2.ListHoldsRequest()
    assert not isinstance(await said(desk.stub.ListHolds, small, "all"), str)
