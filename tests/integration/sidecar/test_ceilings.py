"""Row 20: permits that bind limits instead of exact arguments, at a real door and its tool's guard."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import pytest_asyncio

from examples.refund.fin.v1 import finance_pb2
from licet.v1.decision_pb2 import Constraint, ConstraintOp
from tests.worlds.mint import refund, scalar
from tests.worlds.rig import Rig

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("sidecar_ceilings")]

INT64 = (-(2**63), 2**63 - 1)
LIMIT = 5_000


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path_factory.mktemp("rig"))
    rig.mint.write_catalog(IssueRefund={"ceilings": True})
    await rig.start()
    yield rig
    await rig.stop()


def constraint(path: str, op: str, *values: str | int) -> Constraint:
    number = ConstraintOp.Value(f"CONSTRAINT_OP_{op}")
    return Constraint(path=path.split("."), op=number, values=[scalar(value) for value in values])


def up_to(rig: Rig, order: str, limit: int = LIMIT) -> bytes:
    """A permit to refund `order` up to `limit` cents of USD, as the decider would mint it."""
    ceilings = [
        constraint("order_id", "EQ", order),
        constraint("amount.currency", "EQ", "USD"),
        constraint("amount.minor", "GE", 1),
        constraint("amount.minor", "LE", limit),
    ]
    return rig.permit(refund(order), call_digest=b"", ceilings=ceilings)


ATTACKS: Mapping[str, tuple[dict[str, Any], int, str]] = {
    "over the limit": ({"minor": LIMIT + 1}, LIMIT, "CEILING_EXCEEDED"),
    "a field that no limit covers": ({"memo": "x"}, LIMIT, "CEILING_UNCOVERED"),
    "an empty field that no limit covers": ({"memo": ""}, LIMIT, "CEILING_UNCOVERED"),
    "a map": ({"notes": {"ana": finance_pb2.Note(text="late")}}, LIMIT, "CEILING_UNCOVERED"),
    "the currency dropped": ({"currency": ""}, LIMIT, "CEILING_UNMET"),
    "another currency": ({"currency": "JPY"}, LIMIT, "CEILING_EXCEEDED"),
    "below nothing": ({"minor": -1}, LIMIT, "CEILING_EXCEEDED"),
    "nothing": ({"minor": 0}, LIMIT, "CEILING_UNMET"),
    "2^53+1 past 2^53": ({"minor": 2**53 + 1}, 2**53, "CEILING_EXCEEDED"),
    "the largest integer": ({"minor": INT64[1]}, INT64[1] - 1, "CEILING_EXCEEDED"),
    "the smallest integer": ({"minor": INT64[0]}, LIMIT, "CEILING_EXCEEDED"),
}


@pytest.mark.negative(20)
@pytest.mark.parametrize(("fields", "limit", "reason"), ATTACKS.values(), ids=ATTACKS)
async def test_a_call_outside_its_limits_is_refused_and_one_within_passes(
    rig: Rig, fields: dict[str, Any], limit: int, reason: str
) -> None:
    order, calls = rig.order(), rig.calls()
    permit = up_to(rig, order, limit)
    await rig.mark()
    assert await rig.call(permit, body=refund(order, **fields).SerializeToString()) == reason
    (event,) = await rig.door_events(1, within_s=60)
    assert (event.kind, event.reason) == ("door.refused", reason)
    assert (rig.calls(), rig.refunded(order), await rig.spends(event.spend_id)) == (calls, 0, [])
    await rig.mark()
    assert await rig.call(permit, body=refund(order, minor=LIMIT - 100).SerializeToString()) == "passed"
    (event,) = await rig.door_events(1, within_s=60)
    assert (event.kind, event.outcome, event.amount_minor) == ("door.passed", "EXECUTED", LIMIT - 100)
    assert (rig.calls(), rig.refunded(order)) == (calls + 1, LIMIT - 100)


@pytest.mark.negative(20)
async def test_what_a_limit_leaves_open_is_still_one_effect(rig: Rig) -> None:
    order = rig.order()
    permit = up_to(rig, order)
    bodies = [refund(order, minor=minor).SerializeToString() for minor in (LIMIT - 200, LIMIT - 100)]
    assert [await rig.call(permit, body=body) for body in bodies] == ["passed", "SPENT"]
    assert rig.refunded(order) == LIMIT - 200


async def test_every_call_left_exactly_one_door_event(rig: Rig) -> None:
    assert await rig.all_door_events(rig.made) == rig.made
