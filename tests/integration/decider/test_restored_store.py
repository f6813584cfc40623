"""A store put back from a backup is said in the beacon, so that no sidecar spends a lost step again."""

import asyncio
import shutil
import time
from pathlib import Path

import pytest

from decider.in_force.beacon import INTERVAL_S
from licet.beacon import Beacon, read_beacon
from licet.embedded.nats_accounts import sidecar_user
from licet.refusal import Refusal
from licet.streams import Publisher, connect, subject_spend
from licet.v1 import decider_pb2
from tests.worlds.decisions import ENV, House

pytestmark = pytest.mark.asyncio


async def spend(house: House, *numbers: int) -> None:
    """Use steps up as a sidecar does; what stands in the records does not matter to the beacon."""
    connection = await connect(house.ground.nats.settings(sidecar_user("finance")), "test")
    publisher = await Publisher.open(connection)
    for number in numbers:
        await publisher.publish(subject_spend(ENV, "finance", f"{number:032x}", 0, "reserve"), b"record")
    await connection.close()


async def beacon_when(house: House, *, safe: bool, floor: int) -> Beacon:
    """Wait for a beacon that calls the store safe or not and knows of `floor` spends."""
    async with asyncio.timeout(30):
        while True:
            answer = await house.stub.GetBeacon(decider_pb2.GetBeaconRequest(), wait_for_ready=True)
            beacon = read_beacon(
                answer.beacon, house.ground.keys, environment=ENV, now_ms=time.time_ns() // 1_000_000
            )
            if not isinstance(beacon, Refusal) and (beacon.store_safe, beacon.spend_floor) == (safe, floor):
                return beacon
            await asyncio.sleep(INTERVAL_S / 4)


@pytest.mark.negative(25)
async def test_store_put_back_from_a_backup_is_called_unsafe_and_keeps_its_floor(
    house: House, tmp_path: Path
) -> None:
    server = house.ground.nats
    await spend(house, 1)
    server.stop()
    store, backup = server.directory / "store", tmp_path / "backup"
    shutil.copytree(store, backup)
    server.start()
    await spend(house, 2, 3)
    await beacon_when(house, safe=True, floor=3)
    server.stop()
    shutil.rmtree(store)
    shutil.copytree(backup, store)
    server.start()
    await beacon_when(house, safe=False, floor=3)


async def test_store_that_only_restarted_stays_safe(house: House) -> None:
    """The lawful twin: the same stop and start without the swap."""
    await spend(house, 1, 2)
    house.ground.nats.stop()
    house.ground.nats.start()
    await spend(house, 3)
    await beacon_when(house, safe=True, floor=3)
