"""Nothing goes back: a decider that was restarted knows what it had taken."""

import asyncio
from pathlib import Path

import pytest

import decider.process
from decider.in_force.floor import FILE, Floor, FloorDamaged, Marks
from licet.statement import canonical
from licet.streams import ConfigStore, Publisher, connect, subject_config_active
from licet.v1.beacon_pb2 import ActiveConfig
from licet.v1.decision_pb2 import DECISION_TYPE_ALLOW
from tests.integration.decider.test_configuration import raise_version, wait_for_bundle
from tests.integration.decider.test_decide import reason_of
from tests.integration.decider.test_waiting import begin, decided, refusal
from tests.worlds.decisions import ENV, Ground, House, start_house

pytestmark = pytest.mark.asyncio


async def rewrite(ground: Ground, record: ActiveConfig) -> None:
    """What whoever may write to the stream can do: put an older record, lawful once, into its place."""
    nc = await connect(ground.nats.settings("setup"), "attacker")
    try:
        await (await Publisher.open(nc)).publish(subject_config_active(ENV), canonical(record))
    finally:
        await nc.close()


async def active(ground: Ground) -> ActiveConfig:
    nc = await connect(ground.nats.settings("setup"), "reader")
    try:
        found = await ConfigStore(await Publisher.open(nc), ENV).active()
        assert found is not None
        return found[0]
    finally:
        await nc.close()


async def refused_for(house: House, why: str) -> None:
    """Wait until a decider says that it waits because the record is refused for this."""
    async with asyncio.timeout(60):
        while why not in house.process._waiting.why:  # noqa: ASYNC110 - it looks by itself
            await asyncio.sleep(0.02)


async def test_old_bundle_is_refused_also_by_a_decider_that_was_restarted(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old record names a bundle that was signed and lawful once; only memory can tell."""
    old = await active(house.ground)
    raise_version(house.ground.policy, 2)
    await house.ground.activate()
    await wait_for_bundle(house, 2)
    new = await active(house.ground)
    await house.process.stop()
    await rewrite(house.ground, old)
    monkeypatch.setattr(decider.process, "READY_WITHIN_S", 0.0)
    again = await begin(house.ground)
    try:
        await refused_for(again, "goes back")
        assert reason_of(await refusal(again, call_id="meanwhile")) == "BEACON_STALE"
        await rewrite(house.ground, new)
        response = await decided(again, call_id="again")
        assert response.decision == DECISION_TYPE_ALLOW
        assert again.permit(response).bundle_version == 2
        rejected = [event for event in await again.events() if event.kind == "bundle.rejected"]
        assert "goes back" in rejected[-1].detail
    finally:
        await again.close()


async def test_new_decider_refuses_what_the_stream_remembers_to_be_old(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no floor of its own, but every record that was active is still in the stream."""
    old = await active(house.ground)
    raise_version(house.ground.policy, 2)
    await house.ground.activate()
    new = await active(house.ground)
    await house.process.stop()
    await rewrite(house.ground, old)
    monkeypatch.setattr(decider.process, "READY_WITHIN_S", 0.0)
    fresh = await begin(house.ground, spool_dir=house.ground.directory / "new-spool")
    try:
        await refused_for(fresh, "bundle goes back from 2 to 1: the record at sequence")
        assert reason_of(await refusal(fresh, call_id="meanwhile")) == "BEACON_STALE"
        await rewrite(house.ground, new)
        assert fresh.permit(await decided(fresh, call_id="again")).bundle_version == 2
    finally:
        await fresh.close()


async def test_record_that_was_never_lawful_does_not_keep_a_new_decider_out(house: House) -> None:
    """Else whoever may write to the stream could name a version that nobody will ever reach."""
    lawful = await active(house.ground)
    await house.process.stop()
    for changes in (
        {"bundle_version": 99},
        {"bundle_version": 99, "bundle_sha256": b"x" * 32},
        {"keyset_version": 99, "keyset_sha256": b"y" * 32},
        {"revocations_seq": 9, "revocations_sha256": lawful.bundle_sha256},
        {"generation": 7, "bundle_sha256": b"z" * 32},
    ):
        boast = ActiveConfig.FromString(lawful.SerializeToString())
        boast.MergeFrom(ActiveConfig(**changes))
        await rewrite(house.ground, boast)
    await rewrite(house.ground, lawful)
    fresh = await start_house(
        house.ground, house.finance, spool_dir=house.ground.directory / "new-spool", instance="new"
    )
    try:
        assert (await fresh.decide()).decision == DECISION_TYPE_ALLOW
    finally:
        await fresh.channel.close()
        await fresh.process.stop()


MARKS = Marks(generation=2, config_seq=9, keyset=3, bundle=5, bundle_sha256="ab", revocations=4)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"bundle": 4}, "bundle goes back from 5 to 4"),
        ({"keyset": 2}, "key set goes back"),
        ({"revocations": 3}, "revocation list goes back"),
        ({"config_seq": 8}, "configuration goes back"),
        ({"generation": 1}, "generation goes back"),
        ({"bundle_sha256": "cd"}, "two bundles have the version 5"),
        ({}, ""),
        ({"bundle": 6, "bundle_sha256": "cd", "config_seq": 10}, ""),
        ({"generation": 3, "bundle": 1, "config_seq": 1}, ""),
    ],
)
async def test_floor_refuses_each_step_back_and_nothing_else(changes: dict[str, int | str], why: str) -> None:
    new = Marks(**{**{name: getattr(MARKS, name) for name in Marks.__slots__}, **changes})
    assert why in MARKS.refuses(new)
    assert bool(why) is bool(MARKS.refuses(new))


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"generation": "x"}'])
async def test_damaged_floor_stops_the_start_and_says_what_to_do(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(FloorDamaged, match="restore it, or remove it"):
        Floor(tmp_path)
