"""Invariant: what verifies was signed for this slot by a key that may; what parses has one encoding, all
known.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licet.dsse import PayloadType, SigningKey, is_strong_public_key, pae, signature_fits
from licet.refusal import Reason, Refusal
from licet.statement import (
    MAX_PAYLOAD_BYTES,
    ROLE_OF_SLOT,
    artifact_sha256,
    canonical,
    parse_signed,
    strict_parse,
    verify,
)
from licet.v1 import catalog_pb2, decision_pb2, keys_pb2
from licet.v1.statement_pb2 import Signed
from tests.worlds.permit import KEYS, NOW, signing_key

# Encodings of the points whose order divides 8, sign bit clear: libsodium's ge25519_has_small_order, the
# eight-torsion of RFC 7748's curve in Edwards form. With the sign bit set each is one more.
SMALL_ORDER = (
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
)


def with_sign_bit(point: bytes) -> bytes:
    return point[:31] + bytes([point[31] | 0x80])


@pytest.mark.parametrize("text", SMALL_ORDER)
def test_small_order_point_is_no_key(text: str) -> None:
    point = bytes.fromhex(text)
    assert not is_strong_public_key(point)
    assert not is_strong_public_key(with_sign_bit(point))


def test_non_canonical_point_is_no_key() -> None:
    prime = 2**255 - 19
    for excess in range(19):
        point = (prime + excess).to_bytes(32, "little")
        assert not is_strong_public_key(point)
        assert not is_strong_public_key(with_sign_bit(point))


@pytest.mark.parametrize("length", [0, 31, 33])
def test_public_key_of_another_length_is_no_key(length: int) -> None:
    assert not is_strong_public_key(bytes([9]) * length)


def test_point_off_the_curve_and_mixed_order_point_are_no_keys() -> None:
    assert not is_strong_public_key((2).to_bytes(32, "little"))
    # ed25519-speccheck, vector 4's public key: a point of mixed order.
    mixed = bytes.fromhex("cdb267ce40c5cd45306fa5d2f29731459387dbf9eb933b7bd5aed9a765b88d4d")
    assert not is_strong_public_key(mixed)
    assert is_strong_public_key(signing_key("decider").public_key)


def test_pae_is_dsse_s() -> None:
    """Lengths are of bytes: DSSE v1.0.2, protocol.md."""
    assert (
        pae(PayloadType.PERMIT, "é".encode())
        == b"DSSEv1 40 application/vnd.licet.permit.v1+protobuf 2 \xc3\xa9"
    )


@given(st.sampled_from(PayloadType), st.binary(), st.sampled_from(PayloadType), st.binary())
def test_pae_of_two_pairs_is_never_equal(one: PayloadType, a: bytes, other: PayloadType, b: bytes) -> None:
    assert (pae(one, a) == pae(other, b)) is ((one, a) == (other, b))


@given(st.sampled_from(PayloadType), st.binary(max_size=64), st.sampled_from(PayloadType))
def test_signature_holds_in_its_own_slot_only(slot: PayloadType, payload: bytes, other: PayloadType) -> None:
    key = signing_key("decider")
    signed = key.sign(slot, payload)
    assert signature_fits(slot, signed, key.public_key)
    assert signature_fits(other, signed, key.public_key) is (slot is other)


def test_signing_is_deterministic_and_hides_its_secret() -> None:
    key = SigningKey.from_seed("decider", bytes(range(32)))
    assert key.sign(PayloadType.PERMIT, b"x") == key.sign(PayloadType.PERMIT, b"x")
    assert repr(key) == "SigningKey('decider')"
    with pytest.raises(ValueError, match="must be 32 bytes"):
        SigningKey.from_seed("decider", b"short")


def test_every_slot_has_a_role_but_the_key_set_s() -> None:
    assert set(PayloadType) - set(ROLE_OF_SLOT) == {PayloadType.KEYSET}


def test_no_key_of_the_set_signs_key_sets() -> None:
    for key_id in KEYS.keys:
        signed = signing_key(key_id).sign(PayloadType.KEYSET, b"x")
        refusal = verify(PayloadType.KEYSET, signed, KEYS, now_ms=NOW)
        assert isinstance(refusal, Refusal)
        assert refusal.reason in {Reason.KEY_ROLE, Reason.KEY_UNKNOWN}


def test_each_slot_takes_the_one_role_and_no_other() -> None:
    for slot, role in ROLE_OF_SLOT.items():
        for key in KEYS.keys.values():
            result = verify(slot, signing_key(key.key_id).sign(slot, b"x"), KEYS, now_ms=NOW)
            if isinstance(result, Refusal):
                assert (result.reason is Reason.KEY_ROLE) is (key.role is not role)
            else:
                assert key.role is role


@pytest.mark.parametrize("moment", [NOW - 2, NOW - 1])
def test_key_holds_from_its_first_to_its_last_moment(moment: int) -> None:
    signed = signing_key("decider-old").sign(PayloadType.PERMIT, b"x")
    assert verify(PayloadType.PERMIT, signed, KEYS, now_ms=moment) == b"x"


@pytest.mark.parametrize("moment", [NOW - 3, NOW])
def test_key_outside_its_validity_is_out_of_scope(moment: int) -> None:
    refusal = verify(
        PayloadType.PERMIT, signing_key("decider-old").sign(PayloadType.PERMIT, b"x"), KEYS, now_ms=moment
    )
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.KEY_SCOPE


def test_key_id_is_only_a_hint() -> None:
    """A valid signature under another key's id does not verify."""
    signed = signing_key("decider").sign(PayloadType.PERMIT, b"x")
    signed.key_id = "decider-old"
    refusal = verify(PayloadType.PERMIT, signed, KEYS, now_ms=NOW - 1)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.SIGNATURE_INVALID


def test_payload_at_its_slot_s_limit_is_taken_and_one_byte_more_is_not() -> None:
    assert set(MAX_PAYLOAD_BYTES) == set(PayloadType)
    limit = MAX_PAYLOAD_BYTES[PayloadType.BEACON]
    key = signing_key("beacon")
    assert verify(PayloadType.BEACON, key.sign(PayloadType.BEACON, bytes(limit)), KEYS, now_ms=NOW) == bytes(
        limit
    )
    refusal = verify(PayloadType.BEACON, key.sign(PayloadType.BEACON, bytes(limit + 1)), KEYS, now_ms=NOW)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.TOO_LARGE


UNKNOWN = b"\xb8\x3e\x01"


def _tag(number: int, body: bytes) -> bytes:
    head = number << 3 | 2
    tag = bytes([head]) if head < 128 else bytes([head & 127 | 128, head >> 7])
    return tag + bytes([len(body)]) + body


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (decision_pb2.Decision, UNKNOWN),
        (decision_pb2.Decision, _tag(70, b"\x0a\x01m" + UNKNOWN)),
        (decision_pb2.Decision, _tag(41, _tag(3, b"\x08\x01" + UNKNOWN))),
        (decision_pb2.Decision, _tag(42, b"\x0a\x01v" + _tag(2, UNKNOWN))),
        (keys_pb2.KeySet, b"\x08\x01" + _tag(4, b"\x0a\x01k" + UNKNOWN)),
        (catalog_pb2.Method, _tag(11, _tag(2, b"\x0a\x01a\x12\x01b" + UNKNOWN))),
        (decision_pb2.Decision, b"\xbb\x3e\xbc\x3e"),
    ],
    ids=["top", "repeated", "twice repeated", "oneof", "another message", "map entry", "group"],
)
def test_unknown_field_at_any_depth_is_refused(kind: type, payload: bytes) -> None:
    refusal = strict_parse(kind, payload)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.PERMIT_UNKNOWN_FIELD


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (decision_pb2.Decision, _tag(70, b"\x0a\x01m")),
        (decision_pb2.Decision, _tag(41, _tag(3, b"\x08\x01"))),
        (catalog_pb2.Method, _tag(11, _tag(2, b"\x0a\x01a\x12\x01b"))),
    ],
)
def test_the_same_without_the_unknown_field_is_read(kind: type, payload: bytes) -> None:
    assert not isinstance(strict_parse(kind, payload), Refusal)


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (decision_pb2.Decision, b"\x08\x01\x08\x01"),
        (decision_pb2.Decision, b"\x12\x01a\x08\x01"),
        (decision_pb2.Decision, b"\x08\x81\x00"),
        (decision_pb2.Decision, b"\x88\x00\x01"),
        (decision_pb2.Decision, b"\x08\x00"),
        (decision_pb2.Decision, b"\x12\x00"),
        (catalog_pb2.Method, _tag(11, _tag(2, b"\x0a\x01b\x12\x01y") + _tag(2, b"\x0a\x01a\x12\x01x"))),
        (catalog_pb2.Method, _tag(11, _tag(2, b"\x12\x01x\x0a\x01a"))),
        (catalog_pb2.Method, _tag(11, _tag(2, b"\x0a\x01a\x12\x01x") * 2)),
    ],
    ids=[
        "field twice",
        "fields out of order",
        "overlong varint",
        "overlong tag",
        "default spelled out",
        "empty text spelled out",
        "map keys out of order",
        "map value before key",
        "map key twice",
    ],
)
def test_other_encodings_of_a_message_are_refused(kind: type, payload: bytes) -> None:
    refusal = strict_parse(kind, payload)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.PERMIT_MALFORMED


@given(st.binary(max_size=60))
def test_what_parses_is_its_own_encoding(payload: bytes) -> None:
    parsed = strict_parse(decision_pb2.Decision, payload)
    assert isinstance(parsed, Refusal) or canonical(parsed) == payload


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=6))
def test_canonical_round_trips_with_maps_in_any_order(entries: dict[str, str]) -> None:
    message = catalog_pb2.Method(facts=catalog_pb2.Facts(request=entries))
    reversed_ = catalog_pb2.Method(facts=catalog_pb2.Facts(request=dict(reversed(entries.items()))))
    assert canonical(message) == canonical(reversed_)
    assert strict_parse(catalog_pb2.Method, canonical(message)) == message


def test_deep_nesting_is_refused_not_crashed_on() -> None:
    body = b""
    for _ in range(200):
        body = b"\x2a" + bytes([len(body)]) + body if len(body) < 120 else body
    assert isinstance(strict_parse(Signed, body), Refusal | Signed)


def test_artifact_is_named_for_its_exact_bytes() -> None:
    signed = signing_key("decider").sign(PayloadType.BUNDLE, b"x")
    parsed = parse_signed(canonical(signed))
    assert isinstance(parsed, Signed)
    assert artifact_sha256(parsed) == artifact_sha256(signed)
    assert len(artifact_sha256(signed)) == 32
