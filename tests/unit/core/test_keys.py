from dataclasses import replace
from typing import Any

import pytest

from licet.dsse import PayloadType
from licet.keys import MAX_KEY_ID_BYTES, MAX_KEYSET_BYTES, KeyRole, KeySet, make_keyset, read_keyset
from licet.refusal import Reason, Refusal
from licet.strict import canonical
from licet.v1 import keys_pb2
from licet.v1.statement_pb2 import Signed
from tests.worlds import permit as world
from tests.worlds.permit import ENVIRONMENT, NOW, PUBLIC_KEYS, ROOT


def read(signed: Signed, root: bytes = ROOT.public_key, environment: str = ENVIRONMENT) -> KeySet | Refusal:
    return read_keyset(signed, root, environment=environment)


def one_key(**changes: Any) -> Signed:
    """A set of one key, written field by field so that it can say what no PublicKey can."""
    fields: dict[str, Any] = {
        "key_id": "decider",
        "role": "KEY_ROLE_DECIDER",
        "environment": ENVIRONMENT,
        "public_key": world.signing_key("decider").public_key,
        "not_before_ms": NOW,
        "not_after_ms": NOW + 1,
    }
    message = keys_pb2.KeySet(
        version=1, keyset_version=1, environment=ENVIRONMENT, keys=[{**fields, **changes}]
    )
    return ROOT.sign(PayloadType.KEYSET, canonical(message))


def test_key_set_round_trips() -> None:
    keys = read(world.signed_keyset(version=7))
    assert isinstance(keys, KeySet)
    assert tuple(keys.keys.values()) == PUBLIC_KEYS
    assert (keys.environment, keys.version) == (ENVIRONMENT, 7)


def test_roles_are_those_of_the_wire() -> None:
    wire = {name.removeprefix("KEY_ROLE_") for name in keys_pb2.KeyRole.keys()}  # noqa: SIM118 - no mapping
    assert {role.value for role in KeyRole} == wire - {"UNSPECIFIED"}


def test_key_set_of_another_root_is_refused() -> None:
    other = world.signing_key("mallory")
    refusal = read(other.sign(PayloadType.KEYSET, make_keyset(ENVIRONMENT, 1, PUBLIC_KEYS)))
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.SIGNATURE_INVALID


def test_weak_root_is_refused_whatever_it_signed() -> None:
    for root in (bytes(32), b"", b"\x01" + bytes(31)):
        refusal = read(world.signed_keyset(), root)
        assert isinstance(refusal, Refusal)
        assert refusal.reason is Reason.SIGNATURE_INVALID


def test_key_set_signed_for_another_slot_is_refused() -> None:
    refusal = read(ROOT.sign(PayloadType.CATALOG, make_keyset(ENVIRONMENT, 1, PUBLIC_KEYS)))
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.SIGNATURE_INVALID


def test_key_set_of_another_environment_is_refused() -> None:
    refusal = read(world.signed_keyset(), environment="staging")
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.ENVIRONMENT_MISMATCH


def test_lawful_key_is_read() -> None:
    assert isinstance(read(one_key()), KeySet)
    assert isinstance(read(one_key(key_id="k" * MAX_KEY_ID_BYTES)), KeySet)


@pytest.mark.parametrize(
    "changes",
    [
        {"role": 0},
        {"role": 99},
        {"key_id": ""},
        {"key_id": "k" * (MAX_KEY_ID_BYTES + 1)},
        {"public_key": b""},
        {"public_key": bytes(32)},
        {"public_key": bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa")},
        {"public_key": b"\xff" * 32},
        {"not_after_ms": NOW},
        {"not_before_ms": -1},
    ],
)
def test_one_bad_key_refuses_the_set(changes: dict[str, Any]) -> None:
    refusal = read(one_key(**changes))
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.PERMIT_MALFORMED


def test_key_id_given_twice_refuses_the_set() -> None:
    """Which of the two a verifier takes would be its own affair."""
    twice = replace(world.public_key("beacon", KeyRole.BEACON), key_id="decider")
    refusal = read(world.signed_keyset(PUBLIC_KEYS[0], twice))
    assert isinstance(refusal, Refusal)
    assert "given twice" in refusal.detail
    assert isinstance(read(world.signed_keyset(PUBLIC_KEYS[0], replace(twice, key_id="beacon"))), KeySet)


def test_empty_key_set_is_refused() -> None:
    payload = canonical(keys_pb2.KeySet(version=1, keyset_version=1, environment=ENVIRONMENT))
    refusal = read(ROOT.sign(PayloadType.KEYSET, payload))
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.PERMIT_MALFORMED


def test_key_set_of_another_version_or_with_an_unknown_field_is_refused() -> None:
    payload = make_keyset(ENVIRONMENT, 1, PUBLIC_KEYS)
    later = ROOT.sign(PayloadType.KEYSET, b"\x08\x02" + payload[2:])
    unknown = ROOT.sign(PayloadType.KEYSET, payload + b"\xb8\x3e\x01")
    assert [one.reason for one in (read(later), read(unknown)) if isinstance(one, Refusal)] == [
        Reason.PERMIT_MALFORMED,
        Reason.PERMIT_UNKNOWN_FIELD,
    ]


def test_key_set_past_its_limit_is_refused_before_its_signature_is_looked_at() -> None:
    refusal = read(Signed(payload=bytes(MAX_KEYSET_BYTES + 1)))
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.TOO_LARGE
    at_limit = read(Signed(payload=bytes(MAX_KEYSET_BYTES)))
    assert isinstance(at_limit, Refusal)
    assert at_limit.reason is Reason.SIGNATURE_INVALID
