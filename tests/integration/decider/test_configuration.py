"""What is in force: activation by compare-and-set, refusal of bad records, beacons that never lie."""

import asyncio
import time
from itertools import pairwise
from pathlib import Path

import pytest

from decider.in_force.activate import ActivationError
from decider.source import SourceError
from licet.beacon import Beacon, read_beacon, succeeds
from licet.doctor import State
from licet.doctor.servers import check_beacon
from licet.doctor.settings import DoctorSettings
from licet.metadata import DEV_IDENTITY
from licet.refusal import Refusal
from licet.streams import (
    ActivationLost,
    ConfigStore,
    Publisher,
    apply_streams,
    connect,
    subject_beacon,
)
from licet.v1 import decider_pb2
from licet.v1.decision_pb2 import DECISION_TYPE_ALLOW, DECISION_TYPE_DENY
from licet.v1.statement_pb2 import Signed
from tests.worlds.decisions import ENV, REFUND_BOT, Ground, House

pytestmark = pytest.mark.asyncio


def raise_version(policy: Path, version: int, *, rules: str | None = None) -> None:
    manifest = policy / "bundle.yaml"
    lines = manifest.read_text().splitlines()
    manifest.write_text(
        "\n".join(f"version: {version}" if line.startswith("version:") else line for line in lines) + "\n"
    )
    if rules is not None:
        (policy / "rules.cedar").write_text(rules)


async def beacon_of(house: House) -> Beacon:
    for _ in range(100):
        try:
            response = await house.stub.GetBeacon(decider_pb2.GetBeaconRequest(), timeout=60)
            break
        except Exception:  # noqa: BLE001 - not yet there
            await asyncio.sleep(0.05)
    beacon = read_beacon(response.beacon, house.ground.keys, environment=ENV, now_ms=now())
    assert not isinstance(beacon, Refusal), beacon
    return beacon


def now() -> int:
    return time.time_ns() // 1_000_000


async def wait_for_bundle(house: House, version: int) -> Beacon:
    for _ in range(100):
        beacon = await beacon_of(house)
        if beacon.bundle_version == version:
            return beacon
        await asyncio.sleep(0.05)
    raise AssertionError(f"no beacon names bundle {version}")


async def test_new_bundle_decides_from_its_beacon_on(house: House) -> None:
    before = await beacon_of(house)
    only_deny = '@id("stop") forbid (principal, action, resource);'
    (house.ground.policy / "bundle.yaml").write_text('version: 2\nescalate_to: "desk@example.com"\n')
    (house.ground.policy / "rules.cedar").write_text(only_deny)
    await house.ground.activate()
    after = await wait_for_bundle(house, 2)
    assert succeeds(before, after) is None
    assert after.config_seq > before.config_seq
    response = await house.decide()
    assert (response.decision, response.refusal.reason) == (DECISION_TYPE_DENY, "POLICY_DENIED")
    assert response.refusal.escalate_to == "desk@example.com"


async def test_activation_that_is_no_newer_is_refused_and_changes_nothing(house: House) -> None:
    raise_version(house.ground.policy, 3)
    await house.ground.activate()
    raise_version(house.ground.policy, 2)
    with pytest.raises(ActivationError, match="older than 3"):
        await house.ground.activate()
    raise_version(house.ground.policy, 3, rules="// changed, with the same version")
    (house.ground.policy / "bundle.yaml").write_text('version: 3\nescalate_to: "x"\n')
    with pytest.raises(ActivationError, match="two bundles have the version 3"):
        await house.ground.activate()
    assert (await wait_for_bundle(house, 3)).bundle_version == 3


async def test_bad_bundle_never_gets_signed_or_active(house: House) -> None:
    raise_version(
        house.ground.policy, 2, rules='@id("x") forbid (principal, action, resource) when { resource.none };'
    )
    with pytest.raises(SourceError, match="none"):
        await house.ground.activate()
    assert (await house.decide()).decision == DECISION_TYPE_ALLOW


async def test_bundle_signed_by_another_key_is_not_activated(house: House) -> None:
    raise_version(house.ground.policy, 2)
    for key in ("decider", "catalog", "beacon"):
        with pytest.raises(ActivationError, match="KEY_ROLE"):
            await house.ground.activate(key=key)


async def test_record_that_names_a_bad_bundle_keeps_the_old_one_loudly(house: House) -> None:
    """A broken activation tool, or who may write the stream, cannot switch the rules off."""
    before = await beacon_of(house)
    nc = await connect(house.ground.nats.settings("setup"), "test")
    store = ConfigStore(await Publisher.open(nc), ENV)
    found = await store.active()
    assert found is not None
    config, seq = found
    config.bundle_version, config.bundle_sha256 = 2, config.keyset_sha256
    await store.activate(config, seq)
    with pytest.raises(ActivationLost):
        await store.activate(config, seq)
    await nc.close()
    await asyncio.sleep(1.5)
    after = await beacon_of(house)
    assert (after.bundle_version, after.config_seq) == (before.bundle_version, before.config_seq)
    assert after.issued_at_ms > before.issued_at_ms
    assert (await house.decide()).decision == DECISION_TYPE_ALLOW
    rejected = [event for event in await house.events() if event.kind == "bundle.rejected"]
    assert len(rejected) == 1
    assert "KEY" in rejected[0].detail or "SIGNATURE" in rejected[0].detail


async def test_beacons_go_out_every_second_and_say_the_store_is_safe(house: House) -> None:
    nc = await connect(house.ground.nats.settings("decider"), "test")
    heard: list[Beacon] = []
    enough = asyncio.Event()

    async def hear(message: object) -> None:
        signed = Signed.FromString(message.data)  # type: ignore[attr-defined]
        beacon = read_beacon(signed, house.ground.keys, environment=ENV, now_ms=now())
        assert not isinstance(beacon, Refusal)
        heard.append(beacon)
        if len(heard) == 3:
            enough.set()

    await nc.subscribe(subject_beacon(ENV), cb=hear)
    await nc.flush()
    await asyncio.wait_for(enough.wait(), 60)
    await nc.close()
    apart = [after.issued_at_ms - before.issued_at_ms for before, after in pairwise(heard)]
    assert sum(apart) > 500, "one a second, and not as fast as it can"
    assert all(beacon.store_safe for beacon in heard)
    assert all(succeeds(one, two) is None for one, two in pairwise(heard))


async def test_decider_cut_off_from_nats_says_nothing_is_fresh(house: House) -> None:
    await beacon_of(house)
    house.ground.nats.kill()
    await asyncio.sleep(0.5)
    first = await beacon_of(house)
    await asyncio.sleep(1.5)
    assert (await beacon_of(house)).issued_at_ms == first.issued_at_ms


async def test_key_sets_are_served_by_digest_to_known_peers_and_rules_to_nobody(house: House) -> None:
    import grpc
    import grpc.aio

    beacon = await beacon_of(house)
    me = ((DEV_IDENTITY, REFUND_BOT),)
    ask = house.stub.GetArtifact
    answer = await ask(decider_pb2.GetArtifactRequest(sha256=beacon.keyset_sha256), metadata=me, timeout=60)
    assert answer.artifact == (house.ground.keys_dir / "keyset.signed").read_bytes()
    for sha256, metadata, code in (
        (beacon.bundle_sha256, me, grpc.StatusCode.NOT_FOUND),
        (b"x" * 32, me, grpc.StatusCode.NOT_FOUND),
        (b"x", me, grpc.StatusCode.INVALID_ARGUMENT),
        (beacon.keyset_sha256, (), grpc.StatusCode.UNAUTHENTICATED),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await ask(decider_pb2.GetArtifactRequest(sha256=sha256), metadata=metadata, timeout=60)
        assert error.value.code() is code


async def test_activation_without_streams_changes_nothing_and_says_so(ground: Ground) -> None:
    with pytest.raises(ActivationError, match="has no streams"):
        await ground.activate()
    nc = await connect(ground.nats.settings("setup"), "test")
    await apply_streams(nc, ENV)
    await nc.close()
    assert "is in force" in await ground.activate()
    assert "in force already" in await ground.activate()


async def test_the_doctor_sees_a_decider_that_signs_no_beacon_any_more(house: House) -> None:
    told = DoctorSettings(environment=ENV, decider=f"127.0.0.1:{house.process.port}", dev_identity=True)

    async def until(state: State) -> None:
        async with asyncio.timeout(60):
            while True:
                beacon, clock = await check_beacon(told)
                assert clock.state is not State.PROBLEM, "a beacon that is old says nothing of clocks"
                if beacon.state is state:
                    return

    await until(State.OK)
    house.ground.nats.stop()
    await until(State.PROBLEM)
    house.ground.nats.start()
    await until(State.OK)
