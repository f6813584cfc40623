from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licet.beacon import MAX_AGE_MS, MAX_SKEW_MS, Beacon, HeldBeacon, read_beacon, succeeds
from licet.dsse import PayloadType
from licet.refusal import Reason, Refusal
from licet.revocation import NONE, RevocationKind, Revocations
from licet.tier import CallClass
from licet.v1 import beacon_pb2
from licet.v1.statement_pb2 import Signed
from tests.worlds import permit as world
from tests.worlds.permit import ENVIRONMENT, KEYS, NOW

MINUTE = 60_000


def read(signed: Signed, revocations: Revocations = NONE, environment: str = ENVIRONMENT) -> Beacon | Refusal:
    return read_beacon(signed, KEYS, environment=environment, now_ms=NOW, revocations=revocations)


def test_beacon_round_trips() -> None:
    assert read(world.signed_beacon()) == world.beacon()
    full = world.beacon(revocations_seq=4, revocations_sha256=bytes(range(32)), store_safe=False)
    assert (
        read(world.signed_beacon(revocations_seq=4, revocations_sha256=bytes(range(32)), store_safe=False))
        == full
    )


def test_beacon_has_every_field_of_the_wire() -> None:
    wire = {field.name for field in beacon_pb2.Beacon.DESCRIPTOR.fields} - {"version"}
    assert set(Beacon.__slots__) == wire


@pytest.mark.parametrize(
    ("signed", "reason"),
    [
        (world.signed_beacon("decider"), Reason.KEY_ROLE),
        (world.signed_beacon(environment="staging"), Reason.ENVIRONMENT_MISMATCH),
        (world.signed_beacon(issued_at_ms=NOW + MAX_SKEW_MS + 1), Reason.NOT_YET_VALID),
        (world.signed_beacon(issued_at_ms=NOW - MINUTE - 1), Reason.BEACON_STALE),
        (world.signed_beacon(bundle_sha256=b""), Reason.PERMIT_MALFORMED),
        (world.signed_beacon(keyset_sha256=bytes(31)), Reason.PERMIT_MALFORMED),
        (world.signed_beacon(revocations_seq=1), Reason.PERMIT_MALFORMED),
        (world.signed_beacon(revocations_sha256=bytes(32)), Reason.PERMIT_MALFORMED),
        (world.signing_key("beacon").sign(PayloadType.BEACON, b"\xff"), Reason.PERMIT_MALFORMED),
        (world.signing_key("beacon").sign(PayloadType.BEACON, b"\x12\x04prod"), Reason.PERMIT_MALFORMED),
        (world.signing_key("beacon").sign(PayloadType.BEACON, b"\xb8\x3e\x01"), Reason.PERMIT_UNKNOWN_FIELD),
        (world.signing_key("beacon").sign(PayloadType.PERMIT, b""), Reason.SIGNATURE_INVALID),
    ],
)
def test_what_is_no_beacon_is_refused(signed: Signed, reason: Reason) -> None:
    refusal = read(signed)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is reason


def test_beacon_at_the_edges_of_its_time_is_taken() -> None:
    assert isinstance(read(world.signed_beacon(issued_at_ms=NOW + MAX_SKEW_MS)), Beacon)
    assert isinstance(read(world.signed_beacon(issued_at_ms=NOW - MINUTE)), Beacon)


def test_beacon_of_a_revoked_key_is_refused() -> None:
    revoked = Revocations(1, ENVIRONMENT, frozenset({(RevocationKind.KEY, "beacon")}))
    refusal = read(world.signed_beacon(), revoked)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.KEY_REVOKED


@pytest.mark.parametrize(
    "name", ["generation", "config_seq", "revocations_seq", "keyset_version", "bundle_version"]
)
def test_nothing_goes_back_within_a_generation(name: str) -> None:
    old = world.beacon(generation=2, config_seq=8, revocations_seq=5, keyset_version=3)
    new = replace(old, **{name: getattr(old, name) - 1})
    refusal = succeeds(old, new)
    assert isinstance(refusal, Refusal)
    assert name in refusal.detail
    assert succeeds(old, old) is None
    assert succeeds(new, old) is None


@pytest.mark.parametrize("name", ["bundle_sha256", "keyset_sha256", "revocations_sha256"])
def test_one_configuration_has_one_content(name: str) -> None:
    old = world.beacon(revocations_seq=1, revocations_sha256=bytes(32))
    other: Any = {name: b"\x01" * 32}
    assert isinstance(succeeds(old, replace(old, **other)), Refusal)
    assert succeeds(old, replace(old, config_seq=old.config_seq + 1, **other)) is None


def test_restored_store_may_count_from_below_in_a_new_generation() -> None:
    old = world.beacon(config_seq=900, revocations_seq=4, revocations_sha256=bytes(32))
    restored = world.beacon(generation=2, config_seq=11)
    assert succeeds(old, restored) is None
    assert isinstance(succeeds(restored, old), Refusal)


def test_first_beacon_is_taken() -> None:
    assert succeeds(None, world.beacon()) is None


@given(st.integers(-MAX_SKEW_MS, MINUTE), st.integers(0, MINUTE))
def test_age_counts_from_issue_and_never_below_the_time_since_receipt(lag: int, since: int) -> None:
    held = HeldBeacon.received(world.beacon(issued_at_ms=NOW - lag), now_ms=NOW, monotonic_ms=77)
    assert held.age_ms(77 + since) == since + max(0, lag)


def test_every_class_has_an_age() -> None:
    assert set(MAX_AGE_MS) == set(CallClass)
    assert MAX_AGE_MS[CallClass.READ] == MINUTE
    assert MAX_AGE_MS[CallClass.WRITE] == MAX_AGE_MS[CallClass.PRIVILEGED] == 5_000
