"""What a guard takes to be current, and what it does not take."""

from typing import Any

import pytest

from licet.guard.standing import Anchor, Standing, advance
from licet.keyfile import read_signed
from licet.keys import KeyRole, PublicKey, make_keyset
from licet.refusal import Reason, Refusal
from licet.statement import PayloadType, artifact_sha256, canonical
from licet.v1 import keys_pb2
from licet.v1.guard_pb2 import BeaconRequest
from licet.v1.statement_pb2 import Signed
from tests.worlds.guarded_tool import QuickMint
from tests.worlds.mint import now_ms


@pytest.fixture(scope="module")
def mint(tmp_path_factory: pytest.TempPathFactory) -> QuickMint:
    return QuickMint(tmp_path_factory.mktemp("mint"))


@pytest.fixture
def anchor(mint: QuickMint) -> Anchor:
    return Anchor(
        "dev", mint.audience, mint.key("root").public_key, read_signed(mint.catalog_file), mint.k_tool
    )


def take(anchor: Anchor, held: Standing | None, **request: Signed) -> Standing | Reason:
    made = advance(anchor, held, BeaconRequest(**request), now_ms=now_ms(), monotonic_ms=1_000)
    return made.reason if isinstance(made, Refusal) else made


def first(anchor: Anchor, mint: QuickMint) -> Standing:
    made = take(anchor, None, beacon=mint.beacon(), keyset=mint.keyset_signed)
    assert isinstance(made, Standing), made
    return made


def revoke(
    mint: QuickMint,
    seq: int,
    *names: str,
    key: str = "decider",
    kind: keys_pb2.RevocationKind.ValueType = keys_pb2.REVOCATION_KIND_TASK,
) -> Signed:
    entries = [keys_pb2.Revocation(kind=kind, id=name, revoked_at_ms=1) for name in names]
    message = keys_pb2.RevocationList(version=1, revocations_seq=seq, environment="dev", revocations=entries)
    return mint.key(key).sign(PayloadType.REVOCATIONS, canonical(message))


def naming(seq: int, revocations: Signed) -> dict[str, Any]:
    return {"revocations_seq": seq, "revocations_sha256": artifact_sha256(revocations)}


def test_the_first_beacon_comes_with_its_key_set(anchor: Anchor, mint: QuickMint) -> None:
    assert take(anchor, None, beacon=mint.beacon()) is Reason.BEACON_BEHIND
    held = first(anchor, mint)
    assert held.door.keys.version == mint.keyset.version
    again = take(anchor, held, beacon=mint.beacon())
    assert isinstance(again, Standing)
    assert again.door.catalog is held.door.catalog


@pytest.mark.parametrize("key", ["beacon", "catalog", "approver"])
def test_nothing_is_current_by_the_word_of_a_key_that_is_revoked_with_it(
    anchor: Anchor, mint: QuickMint, key: str
) -> None:
    listed = revoke(mint, 3, key, kind=keys_pb2.REVOCATION_KIND_KEY)
    beacon = mint.beacon(config_seq=4, **naming(3, listed))
    made = take(anchor, first(anchor, mint), beacon=beacon, revocations=listed)
    assert isinstance(made, Standing) if key == "approver" else made is Reason.KEY_REVOKED


def test_a_key_set_that_the_root_key_did_not_sign_is_not_taken(anchor: Anchor, mint: QuickMint) -> None:
    forged = mint.key("decider").sign(PayloadType.KEYSET, mint.keyset_signed.payload)
    beacon = mint.beacon(keyset_sha256=artifact_sha256(forged))
    assert take(anchor, None, beacon=beacon, keyset=forged) is Reason.SIGNATURE_INVALID


def test_a_key_set_that_the_beacon_does_not_name_is_not_taken(anchor: Anchor, mint: QuickMint) -> None:
    beacon = mint.beacon(keyset_sha256=bytes(32))
    assert take(anchor, None, beacon=beacon, keyset=mint.keyset_signed) is Reason.BEACON_BEHIND
    newer = mint.beacon(keyset_version=mint.keyset.version + 1)
    assert take(anchor, first(anchor, mint), beacon=newer) is Reason.BEACON_BEHIND


def test_an_older_key_set_is_not_taken(anchor: Anchor, mint: QuickMint) -> None:
    newer = signed_keyset(mint, mint.keyset.version + 1)
    named = {"keyset_version": mint.keyset.version + 1, "keyset_sha256": artifact_sha256(newer)}
    beacon = mint.beacon(config_seq=4, **named)
    held = take(anchor, first(anchor, mint), beacon=beacon, keyset=newer)
    assert isinstance(held, Standing), held
    refused = take(anchor, held, beacon=mint.beacon(), keyset=mint.keyset_signed)
    assert refused is Reason.BEACON_STALE


def test_a_catalog_whose_key_has_left_the_key_set_ends_the_standing(anchor: Anchor, mint: QuickMint) -> None:
    newer = signed_keyset(mint, mint.keyset.version + 1, without="catalog")
    named = {"keyset_version": mint.keyset.version + 1, "keyset_sha256": artifact_sha256(newer)}
    beacon = mint.beacon(config_seq=4, **named)
    assert take(anchor, first(anchor, mint), beacon=beacon, keyset=newer) is Reason.KEY_UNKNOWN


def test_a_beacon_by_another_key_of_another_place_or_from_the_past_is_not_taken(
    anchor: Anchor, mint: QuickMint
) -> None:
    held = first(anchor, mint)
    by_decider = mint.key("decider").sign(PayloadType.BEACON, mint.beacon().payload)
    assert take(anchor, held, beacon=by_decider) is Reason.KEY_ROLE
    assert take(anchor, held, beacon=mint.beacon(environment="prod")) is Reason.ENVIRONMENT_MISMATCH
    assert take(anchor, held, beacon=mint.beacon(config_seq=2)) is Reason.BEACON_STALE
    assert take(anchor, held, beacon=mint.beacon(bundle_version=6)) is Reason.BEACON_STALE
    assert take(anchor, held, beacon=mint.beacon(issued_at_ms=now_ms() + 2_000)) is Reason.NOT_YET_VALID
    assert isinstance(take(anchor, held, beacon=mint.beacon()), Standing)


def test_a_revocation_list_is_taken_whole_or_the_beacon_is_not(anchor: Anchor, mint: QuickMint) -> None:
    held, one = first(anchor, mint), revoke(mint, 1, "task_1")
    named = mint.beacon(config_seq=4, **naming(1, one))
    assert take(anchor, held, beacon=named) is Reason.BEACON_BEHIND
    assert take(anchor, held, beacon=named, revocations=revoke(mint, 1, "task_2")) is Reason.BEACON_BEHIND
    by_beacon_key = revoke(mint, 1, "task_1", key="beacon")
    forged = mint.beacon(config_seq=4, **naming(1, by_beacon_key))
    assert take(anchor, held, beacon=forged, revocations=by_beacon_key) is Reason.KEY_ROLE
    misnamed = mint.beacon(config_seq=4, **naming(2, one))
    assert take(anchor, held, beacon=misnamed, revocations=one) is Reason.BEACON_BEHIND
    taken = take(anchor, held, beacon=named, revocations=one)
    assert isinstance(taken, Standing)
    assert len(taken.door.revocations.entries) == 1
    again = take(anchor, taken, beacon=named)  # the list need not come twice
    assert isinstance(again, Standing)


def test_revocations_never_get_lost_within_a_generation(anchor: Anchor, mint: QuickMint) -> None:
    two, other = revoke(mint, 1, "task_1", "task_2"), revoke(mint, 2, "task_2")
    held = take(
        anchor, first(anchor, mint), beacon=mint.beacon(config_seq=4, **naming(1, two)), revocations=two
    )
    assert isinstance(held, Standing)
    fewer = mint.beacon(config_seq=5, **naming(2, other))
    assert take(anchor, held, beacon=fewer, revocations=other) is Reason.BEACON_STALE
    assert take(anchor, held, beacon=mint.beacon(config_seq=5)) is Reason.BEACON_STALE
    restored = mint.beacon(generation=2, config_seq=1)
    assert isinstance(take(anchor, held, beacon=restored), Standing)


def test_a_catalog_of_another_tool_is_not_taken(anchor: Anchor, mint: QuickMint) -> None:
    other = Anchor(
        "dev",
        "spiffe://licet.local/dev/tool/other",
        anchor.root_public_key,
        anchor.catalog,
        anchor.tool_key,
    )
    refused = take(other, None, beacon=mint.beacon(), keyset=mint.keyset_signed)
    assert refused is Reason.AUDIENCE_MISMATCH


def test_an_anchor_shows_no_key(anchor: Anchor) -> None:
    assert anchor.tool_key.hex() not in repr(anchor)
    assert repr(anchor.tool_key) not in repr(anchor)


def signed_keyset(mint: QuickMint, version: int, *, without: str = "") -> Signed:
    keys: list[PublicKey] = [key for key in mint.keyset.keys.values() if key.key_id != without]
    assert any(key.role is KeyRole.BEACON for key in keys)
    return mint.key("root").sign(PayloadType.KEYSET, make_keyset("dev", version, keys))
