"""Check 1 at the door: a caller within its quota holds up nobody, whatever its calls weigh."""

import asyncio

import pytest

from licet.intake import Share
from sidecar import admission
from sidecar.admission import BYTES_OF_A_TOKEN, Admission
from sidecar.quota import Quota
from tests.unit.sidecar.conftest import World, reason
from tests.worlds.mint import AGENT, OTHER_AGENT, refund

pytestmark = pytest.mark.asyncio
LARGE = bytes(10 * BYTES_OF_A_TOKEN)


async def test_a_call_costs_what_it_weighs_before_it_is_read(world: World) -> None:
    """A permit may be presented again and again, with arguments that take a tenth of a second to refuse."""
    world.quota = Quota(per_second=1, burst=13)
    world.door = world.make_door()
    replies = [reason(await world.call(body=LARGE)) for _ in range(3)]
    assert replies == ["NO_PERMIT", "QUOTA_EXCEEDED", "QUOTA_EXCEEDED"]
    # its twins: another caller, and the same one later
    assert reason(await world.call(body=LARGE, peer=OTHER_AGENT)) == "NO_PERMIT"
    world.clock.monotonic += 13_000
    assert reason(await world.call(body=LARGE)) == "NO_PERMIT"


@pytest.mark.parametrize("burst", [1, 2, 400])
async def test_the_largest_call_is_possible_with_a_full_bucket(burst: int) -> None:
    now = 0
    door = Admission(Quota(per_second=1, burst=burst), lambda: now)
    for _ in range(2):
        place = door.enter(AGENT)
        assert isinstance(place, admission.Place)
        with place:
            assert place.weigh(1 << 20) is None
        now += 1_000 * burst


async def test_open_calls_of_one_caller_are_bounded_and_take_nothing_from_another(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "EACH", Share(2, 1 << 20))
    world.door, world.tool.gate = world.make_door(), asyncio.Event()
    waiting = []
    for number in range(2):
        world.tool.called.clear()
        permit = world.mint.permit(call_id=f"step-{number}")
        waiting.append(asyncio.ensure_future(world.call(permit)))
        await world.tool.called.wait()
    assert reason(await world.call(world.mint.permit(call_id="step-3"))) == "QUOTA_EXCEEDED"
    assert reason(await world.call(peer=OTHER_AGENT)) == "NO_PERMIT"
    world.tool.gate.set()
    assert [reason(reply) for reply in await asyncio.gather(*waiting)] == ["passed", "passed"]
    assert reason(await world.call(world.mint.permit(call_id="step-3"))) == "passed"


async def test_what_open_calls_hold_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    body = refund(reason="x" * 600).SerializeToString()
    monkeypatch.setattr(admission, "EACH", Share(100, 1_000))
    world.door, world.tool.gate = world.make_door(), asyncio.Event()
    first = asyncio.ensure_future(world.call(world.mint.permit(body=body), body=body))
    await world.tool.called.wait()
    assert reason(await world.call(body=body)) == "QUOTA_EXCEEDED"
    world.tool.gate.set()
    assert reason(await first) == "passed"
    assert reason(await world.call(body=body)) == "NO_PERMIT"


async def test_a_call_whose_caller_has_gone_stays_open_until_it_ends(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "EACH", Share(1, 1 << 20))
    world.door, world.tool.gate = world.make_door(), asyncio.Event()
    gone = asyncio.ensure_future(world.call(world.mint.permit()))
    await world.tool.called.wait()
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    assert reason(await world.call()) == "QUOTA_EXCEEDED"
    world.tool.gate.set()
    await world.door.drain(60_000)
    assert reason(await world.call()) == "NO_PERMIT"


async def test_a_fault_gives_the_place_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "EACH", Share(1, 1 << 20))
    world.door, world.tool.fault = world.make_door(), ZeroDivisionError()
    assert reason(await world.call(world.mint.permit(call_id="a"))) == "OUTCOME_UNKNOWN"
    world.tool.fault = None
    assert reason(await world.call(world.mint.permit(call_id="b"))) == "passed"
