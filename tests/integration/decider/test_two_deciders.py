"""Two deciders behind one address: what one began the other goes on with, and none is asked twice."""

import shutil
from pathlib import Path

import pytest

from decider.process import DeciderProcess
from licet.v1 import decider_pb2
from licet.v1.decision_pb2 import DECISION_TYPE_ALLOW, DECISION_TYPE_DENY
from tests.integration.decider.test_configuration import beacon_of
from tests.integration.decider.test_holds import Desk, desk_of, held
from tests.worlds.decisions import House, first_beacon, refund

pytestmark = pytest.mark.asyncio


async def second(house: House, directory: Path) -> House:
    """Start another decider on the same stores, with a spool of its own, and a way to ask it."""
    import grpc.aio

    from licet.v1 import decider_pb2_grpc

    settings = house.ground.settings(f"finance=127.0.0.1:{house.finance.port}", instance="1")
    process = DeciderProcess(settings.model_copy(update={"spool_dir": directory / "spool-1"}))
    await process.start()
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{process.port}")
    stub = decider_pb2_grpc.DeciderServiceStub(channel)
    await first_beacon(stub)
    return House(house.ground, process, house.finance, channel, stub)


async def test_hold_of_one_decider_is_approved_at_another_and_goes_on_at_either(
    house: House, tmp_path: Path
) -> None:
    await desk_of(house)
    other = await second(house, tmp_path)
    try:
        hold = await held(house)
        assert (await held(other)) == hold
        await Desk(other).answer(hold, "lena")
        assert await Desk(house).refused(hold, "lena") == "APPROVAL_INVALID"
        permits = [one.permit(await one.decide(refund(minor=82_000))) for one in (house, other)]
        assert {permit.hold_id for permit in permits} == {hold.hold_id}
        assert len({permit.spend_id for permit in permits}) == 1, (
            "one step has one effect, whoever permits it"
        )
        requested = [
            event
            for event in await house.events()
            if event.kind == "approval.requested" and event.hold_id == hold.hold_id
        ]
        assert len(requested) == 1
        mine, theirs = await beacon_of(house), await beacon_of(other)
        assert (mine.config_seq, mine.bundle_version) == (theirs.config_seq, theirs.bundle_version)
    finally:
        await other.channel.close()
        await other.process.stop()


async def test_one_decider_that_goes_leaves_the_other_deciding(house: House, tmp_path: Path) -> None:
    other = await second(house, tmp_path)
    try:
        await house.channel.close()
        await house.process.stop()
        assert (await other.decide()).decision == DECISION_TYPE_ALLOW
        assert (await other.decide(refund("O3"), call_id="o3")).decision == DECISION_TYPE_DENY
        assert (await other.stub.GetBeacon(decider_pb2.GetBeaconRequest(), timeout=30)).beacon.payload
    finally:
        await other.channel.close()
        await other.process.stop()
        shutil.rmtree(tmp_path / "spool-1", ignore_errors=True)
