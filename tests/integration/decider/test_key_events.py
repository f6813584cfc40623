"""Keys that come and keys that are revoked are on record: the verifier must know what was signed too late."""

import pytest

from licet.embedded.rotation import rotate
from tests.integration.decider.test_change import beacon_when, policy
from tests.worlds.decisions import House, start_house

pytestmark = pytest.mark.asyncio


async def told(house: House, kind: str) -> list[tuple[str, bool]]:
    return [
        (event.key_id, event.source.endswith("/decider"))
        for event in await house.events()
        if event.kind == kind
    ]


async def test_a_revoked_key_is_told_once_and_again_by_a_decider_that_starts(house: House) -> None:
    assert await told(house, "key.revoked") == []
    await policy(house.ground, "revoke", "key", "spend-finance")
    await policy(house.ground, "revoke", "task", "task_000")
    await beacon_when(house, lambda beacon: beacon.revocations_seq == 2)
    assert await told(house, "key.revoked") == [("spend-finance", True)]
    await house.process.stop()
    again = await start_house(house.ground, house.finance)
    try:
        assert await told(again, "key.revoked") == [("spend-finance", True)] * 2
    finally:
        await again.close()


async def test_a_key_that_comes_into_force_is_told_and_those_of_the_start_are_not(house: House) -> None:
    rotate(house.ground.keys_dir, "dev", "decider")
    await policy(house.ground, "keyset")
    await beacon_when(house, lambda beacon: beacon.keyset_version == 2)
    assert await told(house, "key.added") == [("decider-2", True)]
