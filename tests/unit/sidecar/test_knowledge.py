"""What a door takes for current: nothing goes back, nothing is believed unsigned, garbage costs nothing."""

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from licet.keys import make_keyset
from licet.permit import DoorState
from licet.statement import PayloadType, artifact_sha256, canonical
from licet.v1 import keys_pb2
from licet.v1.statement_pb2 import Signed
from sidecar.clock import SystemClock
from sidecar.knowledge import MAX_BEACON_BYTES, Identity, Knowledge, Known
from tests.worlds.mint import ENVIRONMENT, Mint, now_ms

pytestmark = pytest.mark.asyncio


class Shelf:
    """A source that has what was put on it."""

    def __init__(self, mint: Mint) -> None:
        self.newest: Signed | None = None
        self.artifacts: dict[bytes, Signed] = {}
        self.asked = 0
        self.fetched: list[bytes] = []
        self.put(mint.keyset_signed)

    def put(self, signed: Signed) -> bytes:
        digest = artifact_sha256(signed)
        self.artifacts[digest] = signed
        return digest

    async def beacon(self) -> Signed | None:
        self.asked += 1
        return self.newest

    async def artifact(self, sha256: bytes) -> Signed | None:
        self.fetched.append(sha256)
        return self.artifacts.get(sha256)


class Scene:
    def __init__(self, mint: Mint) -> None:
        self.mint = mint
        self.shelf = Shelf(mint)
        self.handed: list[Known] = []
        self.identity = Identity(
            environment=ENVIRONMENT,
            audience=mint.audience,
            root_key=mint.key("root").public_key,
            tool_key=mint.k_tool,
            generation=1,
            catalog_file=mint.catalog_file,
        )
        self.knowledge = self.make()

    def make(self) -> Knowledge:
        async def hand_over(known: Known) -> None:
            self.handed.append(known)

        return Knowledge(self.identity, self.shelf, SystemClock(), hand_over)

    async def take(self, signed: Signed, *, asked_for: bool = False) -> bool:
        return await self.knowledge._take(signed, asked_for=asked_for)

    async def first(self, **changes: Any) -> DoorState:
        assert await self.take(self.mint.beacon(**changes), asked_for=True), self.knowledge.trouble
        return self.state

    @property
    def state(self) -> DoorState:
        state = self.knowledge.state()
        assert state is not None
        return state

    def revocations(
        self,
        seq: int,
        *names: str,
        key: str = "decider",
        kind: keys_pb2.RevocationKind.ValueType = keys_pb2.REVOCATION_KIND_TASK,
    ) -> Signed:
        entries = [keys_pb2.Revocation(kind=kind, id=name, revoked_at_ms=1) for name in names]
        payload = canonical(
            keys_pb2.RevocationList(
                version=1, revocations_seq=seq, environment=ENVIRONMENT, revocations=entries
            )
        )
        return self.mint.key(key).sign(PayloadType.REVOCATIONS, payload)

    def keyset(self, version: int, *, root: str = "root", without: str = "") -> Signed:
        keys = [key for name, key in self.mint.keyset.keys.items() if name != without]
        return self.mint.key(root).sign(PayloadType.KEYSET, make_keyset(ENVIRONMENT, version, keys))


@pytest.fixture
def scene(mint: Mint) -> Scene:
    return Scene(mint)


async def test_the_first_beacon_brings_keys_catalog_and_state(scene: Scene) -> None:
    assert scene.knowledge.state() is None
    state = await scene.first()
    assert state.beacon is not None
    assert (state.keys.version, state.catalog.tool) == (scene.mint.keyset.version, "finance")
    assert scene.knowledge.trouble == ""


async def test_the_guard_hears_of_a_beacon_before_the_door(scene: Scene) -> None:
    seen: list[DoorState | None] = []

    async def hand_over(_: Known) -> None:
        seen.append(scene.knowledge.state())

    scene.knowledge._hand_over = hand_over
    await scene.first()
    assert seen == [None]


async def test_a_guard_that_fails_does_not_stop_the_beacon(scene: Scene) -> None:
    async def hand_over(_: Known) -> None:
        raise OSError("guard")

    scene.knowledge._hand_over = hand_over
    with pytest.raises(OSError, match="guard"):
        await scene.take(scene.mint.beacon(), asked_for=True)
    assert scene.knowledge.state() is not None


async def test_the_first_beacon_is_a_deciders_answer_and_not_what_anybody_wrote(scene: Scene) -> None:
    """A key that was revoked or left out since is good in an older key set, which a new door cannot know."""
    assert not await scene.take(scene.mint.beacon())
    assert (scene.knowledge.state(), scene.shelf.fetched) == (None, [])
    await scene.first()
    assert await scene.take(scene.mint.beacon(config_seq=9))


async def test_a_first_beacon_names_keys_only_the_root_can_give(scene: Scene) -> None:
    digest = scene.shelf.put(scene.keyset(9, root="decider"))
    assert not await scene.take(scene.mint.beacon(keyset_sha256=digest, keyset_version=9), asked_for=True)
    assert scene.knowledge.state() is None
    await scene.first()


@pytest.mark.parametrize(("key", "taken"), [("beacon", False), ("catalog", False), ("approver", True)])
async def test_nothing_is_current_by_the_word_of_a_key_that_is_revoked_with_it(
    scene: Scene, key: str, taken: bool
) -> None:
    digest = scene.shelf.put(scene.revocations(3, key, kind=keys_pb2.REVOCATION_KIND_KEY))
    beacon = scene.mint.beacon(revocations_seq=3, revocations_sha256=digest)
    assert await scene.take(beacon, asked_for=True) is taken, scene.knowledge.trouble
    scene.knowledge = scene.make()
    await scene.first()
    later = scene.mint.beacon(config_seq=9, revocations_seq=3, revocations_sha256=digest)
    assert await scene.take(later) is taken, scene.knowledge.trouble


async def test_a_beacon_by_another_key_is_refused(scene: Scene) -> None:
    await scene.first()
    payload = scene.mint.beacon(config_seq=99).payload
    for key in ("decider", "catalog", "root"):
        assert not await scene.take(scene.mint.key(key).sign(PayloadType.BEACON, payload))
    assert not await scene.take(scene.mint.key("beacon").sign(PayloadType.PERMIT, payload))
    assert await scene.take(scene.mint.key("beacon").sign(PayloadType.BEACON, payload))


async def test_a_beacon_of_another_environment_is_refused(scene: Scene) -> None:
    await scene.first()
    assert not await scene.take(scene.mint.beacon(environment="prod", config_seq=99))
    assert "ENVIRONMENT_MISMATCH" in scene.knowledge.trouble


@pytest.mark.parametrize("field", ["config_seq", "generation", "bundle_version"])
async def test_nothing_goes_back(scene: Scene, field: str) -> None:
    await scene.first(**{field: 5})
    before = scene.state
    assert not await scene.take(scene.mint.beacon(**{field: 4}))
    assert scene.state is before
    assert await scene.take(scene.mint.beacon(**{field: 5}))


async def test_an_old_beacon_replayed_does_not_make_the_door_look_staler(scene: Scene) -> None:
    old = scene.mint.beacon(issued_at_ms=now_ms() - 4_000)
    await scene.first()
    before = scene.state
    assert not await scene.take(old)
    assert scene.state is before


async def test_a_replayed_beacon_is_as_old_as_its_issue(scene: Scene) -> None:
    state = await scene.first(issued_at_ms=now_ms() - 6_000)
    assert state.beacon is not None
    assert 6_000 <= state.beacon.age_ms(time.monotonic_ns() // 1_000_000) < 7_000


async def test_a_beacon_from_the_future_is_refused(scene: Scene) -> None:
    await scene.first()
    assert not await scene.take(scene.mint.beacon(issued_at_ms=now_ms() + 5_000))


async def test_revocations_are_fetched_when_their_digest_changes_and_only_then(scene: Scene) -> None:
    await scene.first()
    listed = scene.revocations(1, "task_1")
    digest = scene.shelf.put(listed)
    scene.shelf.fetched.clear()
    assert await scene.take(scene.mint.beacon(revocations_seq=1, revocations_sha256=digest, config_seq=8))
    assert await scene.take(
        scene.mint.beacon(
            revocations_seq=1, revocations_sha256=digest, config_seq=8, issued_at_ms=now_ms() + 500
        )
    )
    assert scene.shelf.fetched == [digest]
    assert len(scene.state.revocations.entries) == 1


async def test_a_revocation_list_that_lost_an_entry_is_refused(scene: Scene) -> None:
    await scene.first()
    first = scene.shelf.put(scene.revocations(1, "task_1"))
    assert await scene.take(scene.mint.beacon(revocations_seq=1, revocations_sha256=first, config_seq=8))
    second = scene.shelf.put(scene.revocations(2, "task_2"))
    assert not await scene.take(scene.mint.beacon(revocations_seq=2, revocations_sha256=second, config_seq=9))
    third = scene.shelf.put(scene.revocations(2, "task_1", "task_2"))
    assert await scene.take(scene.mint.beacon(revocations_seq=2, revocations_sha256=third, config_seq=9))


async def test_a_revocation_list_by_another_key_is_refused(scene: Scene) -> None:
    await scene.first()
    forged = scene.shelf.put(scene.revocations(1, "task_1", key="beacon"))
    assert not await scene.take(scene.mint.beacon(revocations_seq=1, revocations_sha256=forged, config_seq=8))
    assert "KEY_ROLE" in scene.knowledge.trouble


async def test_what_cannot_be_fetched_leaves_the_old_view_to_age(scene: Scene) -> None:
    await scene.first()
    before = scene.state
    assert not await scene.take(
        scene.mint.beacon(revocations_seq=1, revocations_sha256=b"x" * 32, config_seq=8)
    )
    assert scene.state is before
    assert "cannot be had" in scene.knowledge.trouble


async def test_an_artifact_of_another_digest_is_refused(scene: Scene) -> None:
    await scene.first()
    scene.shelf.artifacts[b"x" * 32] = scene.revocations(1, "task_1")
    assert not await scene.take(
        scene.mint.beacon(revocations_seq=1, revocations_sha256=b"x" * 32, config_seq=8)
    )
    assert "another digest" in scene.knowledge.trouble


async def test_a_new_key_set_is_taken_when_the_root_signed_it(scene: Scene) -> None:
    await scene.first()
    version = scene.mint.keyset.version + 1
    digest = scene.shelf.put(scene.keyset(version, without="spend-other"))
    assert await scene.take(scene.mint.beacon(keyset_version=version, keyset_sha256=digest, config_seq=8)), (
        scene.knowledge.trouble
    )
    assert scene.state.keys.version == version


async def test_a_key_set_that_the_root_did_not_sign_is_refused(scene: Scene) -> None:
    await scene.first()
    version = scene.mint.keyset.version + 1
    digest = scene.shelf.put(scene.keyset(version, root="decider"))
    beacon = scene.mint.beacon(keyset_version=version, keyset_sha256=digest, config_seq=8)
    assert not await scene.take(beacon)
    assert not await scene.take(beacon, asked_for=True)
    assert scene.state.keys.version == scene.mint.keyset.version


async def test_an_older_key_set_is_refused(scene: Scene) -> None:
    newer = scene.shelf.put(scene.keyset(9))
    await scene.first(keyset_version=9, keyset_sha256=newer)
    assert not await scene.take(scene.mint.beacon(config_seq=8), asked_for=True)
    assert scene.state.keys.version == 9


async def test_the_subject_cannot_make_the_door_fetch_before_a_signature_fits(scene: Scene) -> None:
    await scene.first()
    scene.shelf.fetched.clear()
    forged = Signed(
        payload=scene.mint.beacon(keyset_sha256=b"k" * 32).payload, signature=b"s" * 64, key_id="beacon"
    )
    assert not await scene.take(forged)
    assert scene.shelf.fetched == []


@pytest.mark.parametrize("raw", [b"", b"garbage", b"\xff" * 100, b"x" * (MAX_BEACON_BYTES + 1)])
async def test_garbage_is_dropped(scene: Scene, raw: bytes) -> None:
    scene.knowledge.offer(raw)
    assert scene.knowledge._offered is None or scene.knowledge._offered == Signed()


async def test_after_silence_the_decider_is_asked_also_under_a_flood_of_garbage(scene: Scene) -> None:
    scene.shelf.newest = scene.mint.beacon()
    running = asyncio.create_task(scene.knowledge.run())
    flood = canonical(Signed(payload=b"junk", signature=b"s" * 64, key_id="beacon"))
    ends = asyncio.get_running_loop().time() + 2.0
    while scene.knowledge.state() is None and asyncio.get_running_loop().time() < ends:
        scene.knowledge.offer(flood)
        await asyncio.sleep(0.005)
    running.cancel()
    assert scene.knowledge.state() is not None


async def test_who_waits_for_a_newer_state_is_told(scene: Scene) -> None:
    state = await scene.first()
    waiting = asyncio.create_task(scene.knowledge.newer(state, timeout_ms=1_000))
    await asyncio.sleep(0)
    await scene.take(scene.mint.beacon(config_seq=9))
    assert await waiting
    assert not await scene.knowledge.newer(scene.state, timeout_ms=20)


async def test_a_catalog_of_another_tool_or_key_is_no_catalog(scene: Scene, tmp_path: Path) -> None:
    path = tmp_path / "finance.catalog"
    scene.identity = replace(scene.identity, catalog_file=path)
    scene.knowledge = scene.make()
    assert not await scene.take(scene.mint.beacon(), asked_for=True)
    signed = Signed.FromString(scene.mint.catalog_file.read_bytes())
    path.write_bytes(canonical(scene.mint.key("bundle").sign(PayloadType.CATALOG, signed.payload)))
    assert not await scene.take(scene.mint.beacon(), asked_for=True)
    assert "KEY_ROLE" in scene.knowledge.trouble
    path.write_bytes(canonical(signed))
    assert await scene.take(scene.mint.beacon(), asked_for=True)
    scene.identity = replace(scene.identity, audience="spiffe://licet.local/dev/tool/other")
    scene.knowledge = scene.make()
    assert not await scene.take(scene.mint.beacon(), asked_for=True)


async def test_a_new_catalog_file_is_read_with_the_next_beacon(scene: Scene, tmp_path: Path) -> None:
    path = tmp_path / "finance.catalog"
    path.write_bytes(scene.mint.catalog_file.read_bytes())
    scene.identity = replace(scene.identity, catalog_file=path)
    scene.knowledge = scene.make()
    first = await scene.first()
    from tests.worlds.mint import REFUND, build_signed_catalog

    path.write_bytes(
        canonical(build_signed_catalog(scene.mint.key("catalog"), IssueRefund={"operation": "pay"}))
    )
    assert await scene.take(scene.mint.beacon(config_seq=9))
    new, old = scene.state.catalog.method(REFUND), first.catalog.method(REFUND)
    assert new is not None
    assert old is not None
    assert (old.current.operation, new.current.operation) == ("refund", "pay")
