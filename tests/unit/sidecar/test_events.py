"""Every refusal at the door leaves exactly one event with its reason, and no call of the tool.

All ways of `tests.worlds.permit_flaws` at a running door, and every reason there is, before the tool.
"""

from typing import Any

import pytest

from licet.metadata import APPROVAL, PERMIT
from licet.refusal import Reason, Refusal
from sidecar.exchange import Refused
from tests.worlds.fakes import request
from tests.worlds.permit_flaws import FLAWS, Flaw, Scene

pytestmark = pytest.mark.asyncio


async def enter(world: Any, scene: Scene) -> Any:
    """Present a scene to a door that stands in its setting."""
    presented = scene.presented
    world.clock.now = world.clock.monotonic = scene.now_ms
    world.beacons.set(scene.setting.door())
    world.door = world.make_door(beacon_wait_ms=0)
    pairs = (
        *((PERMIT, permit) for permit in presented.permits),
        *((APPROVAL, proof) for proof in presented.approvals),
    )
    return await world.door.handle(request(presented.path, presented.body, pairs, peer=presented.peer))


@pytest.mark.parametrize("flaw", FLAWS, ids=lambda flaw: flaw.name)
async def test_refusal_is_one_event_and_its_lawful_twin_another(world: Any, flaw: Flaw) -> None:
    reply = await enter(world, flaw.scene)
    assert isinstance(reply, Refused)
    assert reply.refusal.reason is flaw.reason
    kind, fields = world.event
    assert (str(kind), fields["reason"]) == ("door.refused", flaw.reason.value)
    assert world.tool.got == []
    world.journal.events.clear()
    await enter(world, flaw.twin)
    assert str(world.event[0]) == "door.passed"
    assert len(world.tool.got) == 1


@pytest.mark.parametrize("reason", list(Reason))
async def test_every_reason_there_is_makes_one_event(world: Any, reason: Reason) -> None:
    world.spend.refuse = Refusal(reason)
    reply = await world.call(world.mint.permit())
    assert isinstance(reply, Refused)
    kind, fields = world.event
    assert (str(kind), fields["reason"]) == ("door.refused", reason.value)
    assert world.tool.got == []
    world.journal.events.clear()
    world.spend.refuse = None
    await world.call(world.mint.permit(call_id="another"))
    assert str(world.event[0]) == "door.passed"
