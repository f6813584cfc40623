"""Revoking, rotating, beginning a generation: by the commands, on a real NATS, under a running decider."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from typer.testing import CliRunner

from decider.in_force.beacon import INTERVAL_S
from decider.in_force.change import Place, revoke
from licet.beacon import Beacon, read_beacon
from licet.cli import app
from licet.embedded.rotation import rotate
from licet.keyfile import read_public, read_signed, read_signing_key
from licet.keys import KeySet, read_keyset
from licet.metadata import DEV_IDENTITY
from licet.refusal import Refusal
from licet.revocation import REASON_OF_KIND, RevocationKind
from licet.streams import EMBEDDED_SIZES, apply_streams, connect
from licet.v1 import decider_pb2
from licet.v1.decision_pb2 import DECISION_TYPE_ALLOW, DECISION_TYPE_DENY
from tests.worlds.decisions import ENV, REFUND_BOT, Ground, House, start_house

pytestmark = pytest.mark.asyncio
WITHIN_S = 60


@pytest_asyncio.fixture
async def applied(ground: Ground) -> AsyncIterator[Ground]:
    """Streams and a bundle in force, no decider."""
    nc = await connect(ground.nats.settings("setup"), "setup")
    await apply_streams(nc, ENV, sizes=EMBEDDED_SIZES)
    await nc.close()
    await ground.activate()
    yield ground


async def policy(ground: Ground, *words: str, fails: str = "") -> str:
    """Run `licet policy …` as the setup user, in a thread of its own: it has its own loop."""
    told = {
        "LICET_ENVIRONMENT": ENV,
        "LICET_ROOT_KEY_FILE": str(ground.keys_dir / "root.pub"),
        "LICET_KEYS_DIR": str(ground.keys_dir),
        "LICET_NATS_URL": ground.nats.url,
        "LICET_NATS_USER": "setup",
        "LICET_NATS_PASSWORD_FILE": str(ground.nats.password_file("setup")),
    }
    done = await asyncio.to_thread(CliRunner().invoke, app, ["policy", *words], env=told)
    assert done.exit_code == (1 if fails else 0), done.output
    assert fails in done.output
    return str(done.output)


def keyset(ground: Ground) -> KeySet:
    signed, root = read_signed(ground.keys_dir / "keyset.signed"), read_public(ground.keys_dir / "root.pub")
    found = read_keyset(signed, root, environment=ENV)
    assert isinstance(found, KeySet)
    return found


async def beacon_when(house: House, holds: Callable[[Beacon], bool]) -> Beacon:
    async with asyncio.timeout(WITHIN_S):
        while True:
            answer = await house.stub.GetBeacon(decider_pb2.GetBeaconRequest(), wait_for_ready=True)
            beacon = read_beacon(
                answer.beacon, keyset(house.ground), environment=ENV, now_ms=time.time_ns() // 1_000_000
            )
            if not isinstance(beacon, Refusal) and holds(beacon):
                return beacon
            await asyncio.sleep(INTERVAL_S / 4)


async def test_a_revoked_agent_is_denied_and_another_is_not(house: House) -> None:
    assert (await house.decide(call_id="before")).decision == DECISION_TYPE_ALLOW
    await policy(house.ground, "revoke", "agent", "refund-bot", "somebody-else")
    beacon = await beacon_when(house, lambda beacon: beacon.revocations_seq == 1)
    asked = decider_pb2.GetArtifactRequest(sha256=beacon.revocations_sha256)
    listed = await house.stub.GetArtifact(asked, metadata=((DEV_IDENTITY, REFUND_BOT),))
    assert sha256(listed.artifact).digest() == beacon.revocations_sha256, "a list is for every door"
    answer = await house.decide(call_id="after")
    assert answer.decision == DECISION_TYPE_DENY
    assert answer.refusal.reason == REASON_OF_KIND[RevocationKind.AGENT]
    activated = [event for event in await house.events() if event.kind == "bundle.activated"]
    assert "AGENT `refund-bot`" in activated[-1].detail


async def test_a_stopped_environment_decides_again_in_a_new_generation(house: House) -> None:
    await policy(house.ground, "revoke", "environment", ENV)
    await policy(house.ground, "revoke", "task", "task_000")
    await beacon_when(house, lambda beacon: beacon.revocations_seq == 2)
    answer = await house.decide(call_id="stopped")
    assert answer.refusal.reason == REASON_OF_KIND[RevocationKind.ENVIRONMENT]
    said = await policy(house.ground, "generation", "--lift", f"environment:{ENV}")
    assert "generation 2 is in force" in said
    await beacon_when(house, lambda beacon: beacon.generation == 2)
    answer = await house.decide(call_id="goes-on")
    assert answer.decision == DECISION_TYPE_ALLOW
    assert house.permit(answer).generation == 2
    listed = await policy(house.ground, "revocations")
    assert "task_000" in listed, "what was not lifted stays"
    assert "environment" not in listed


async def test_the_decider_goes_on_with_the_next_key_and_the_current_one_stays_good(house: House) -> None:
    """The order of the runbook: the key set first, then the process."""
    ground = house.ground
    before = await house.decide(call_id="one")
    rotate(ground.keys_dir, ENV, "decider")
    await policy(ground, "keyset")
    await beacon_when(house, lambda beacon: beacon.keyset_version == 2)
    between = await house.decide(call_id="two")
    assert {before.signed.key_id, between.signed.key_id} == {"decider"}
    await house.process.stop()
    ground.keys = keyset(ground)
    house.finance.keys = ground.keys
    again = await start_house(ground, house.finance)
    try:
        after = await again.decide(call_id="three")
        assert after.signed.key_id == "decider-2"
        for answer in (before, between, after):
            assert again.permit(answer).call_id
    finally:
        await again.channel.close()
        await again.process.stop()


async def test_what_would_be_in_vain_or_goes_back_changes_nothing(applied: Ground) -> None:
    before = await policy(applied, "status", "--json")
    await policy(applied, "revoke", "key", "decidr", fails="no key `decidr`")
    await policy(applied, "revoke", "environment", "prod", fails="not `prod`")
    await policy(applied, "generation", "--lift", "agent:nobody", fails="not revoked")
    assert "already" in await policy(applied, "keyset")
    (applied.keys_dir / "keyset.signed").write_bytes(b"damaged")
    await policy(applied, "keyset", fails="no signed artifact")
    (applied.keys_dir / "decider.key").write_bytes((applied.keys_dir / "beacon.key").read_bytes())
    await policy(applied, "revoke", "agent", "a", fails="SIGNATURE_INVALID")
    assert await policy(applied, "status", "--json") == before


async def test_revocations_of_two_people_at_once_both_land(applied: Ground) -> None:
    names = [f"agent-{number}" for number in range(4)]
    place = Place(ENV, applied.keys_dir / "root.pub", applied.nats.settings("setup"))
    key = read_signing_key(applied.keys_dir / "decider.key")
    await asyncio.gather(*(revoke(place, [(RevocationKind.AGENT, name)], key) for name in names))
    listed = await policy(applied, "revocations")
    assert all(name in listed for name in names)
    assert "already" in await policy(applied, "revoke", "agent", names[0])


async def test_after_a_lost_store_the_next_generation_begins_with_what_was_revoked(
    applied: Ground, tmp_path: Path
) -> None:
    kept = tmp_path / "revocations.signed"
    await policy(applied, "revoke", "agent", "refund-bot", "--keep", str(kept))
    key: tuple[Any, ...] = ("--key", str(applied.keys_dir / "bundle.key"))
    again = ("activate", str(applied.policy), *key, "--generation", "2", "--revocations", str(kept))
    await policy(applied, *again, fails="a generation is in force already")
    applied.nats.stop()
    for stored in (applied.nats.directory / "store").rglob("*"):
        if stored.is_file():
            stored.unlink()
    applied.nats.start()
    nc = await connect(applied.nats.settings("setup"), "setup")
    await apply_streams(nc, ENV, sizes=EMBEDDED_SIZES)
    await nc.close()
    await policy(applied, *again)
    assert '"generation": 2' in await policy(applied, "status", "--json")
    assert "refund-bot" in await policy(applied, "revocations")
