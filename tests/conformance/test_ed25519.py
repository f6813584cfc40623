"""Ed25519: RFC 8032 and Wycheproof, and the keys that may never be registered."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from nacl.bindings import crypto_sign_open
from nacl.exceptions import BadSignatureError

from licet.dsse import PayloadType, SigningKey, is_strong_public_key, signature_fits
from licet.keys import KeyRole, KeySet, PublicKey, make_keyset, read_keyset
from licet.refusal import Reason, Refusal
from licet.v1.statement_pb2 import Signed

ROWS = "05-crypto-format/ed25519_wycheproof.jsonl"
ROOT = SigningKey.from_seed("root", bytes(32))

P = 2**255 - 19
Y8 = tuple(
    int.from_bytes(bytes.fromhex(encoding), "little")
    for encoding in (
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    )
)
"""The two y of the points of order 8."""
SMALL_ORDER = sorted(
    (y + P * canonical | sign << 255).to_bytes(32, "little")
    for y in (0, 1, P - 1, *Y8)
    for sign in (0, 1)
    for canonical in (0, 1)
    if y + P * canonical < 2**255
)
"""Every encoding of a point of order 1, 2, 4 or 8, canonical or not."""


def fits(public_key: str, message: str, signature: str) -> bool:
    """The primitive that licet.dsse calls, over a bare message."""
    raw = bytes.fromhex(signature)
    if len(raw) != 64:
        return False
    try:
        crypto_sign_open(raw + bytes.fromhex(message), bytes.fromhex(public_key))
    except BadSignatureError:
        return False
    return True


def register(public_key: bytes) -> KeySet | Refusal:
    key = PublicKey("decider", KeyRole.DECIDER, "dev", public_key, 0, 1)
    return read_keyset(
        ROOT.sign(PayloadType.KEYSET, make_keyset("dev", 1, [key])), ROOT.public_key, environment="dev"
    )


def test_wycheproof(row: dict[str, Any]) -> None:
    expected = row["expected"] in {"valid", "acceptable"}
    assert fits(row["public_key"], row["msg"], row["sig"]) == expected
    if expected:
        assert isinstance(register(bytes.fromhex(row["public_key"])), KeySet)
    signed = Signed(payload=bytes.fromhex(row["msg"]), signature=bytes.fromhex(row["sig"]), key_id="k")
    assert not signature_fits(PayloadType.PERMIT, signed, bytes.fromhex(row["public_key"]))  # no PAE


def test_rfc_8032(data: Path) -> None:
    for line in (data / "ed25519_rfc8032.jsonl").read_text().splitlines():
        row = json.loads(line)
        key = SigningKey.from_seed(row["id"], bytes.fromhex(row["seed"]))
        assert key.public_key.hex() == row["public_key"]
        assert fits(row["public_key"], row["msg"], row["sig"])
        assert not fits(row["public_key"], row["msg"] + "00", row["sig"])
        assert isinstance(register(key.public_key), KeySet)
        signed = key.sign(PayloadType.PERMIT, bytes.fromhex(row["msg"]))
        assert signature_fits(PayloadType.PERMIT, signed, key.public_key)


def test_signatures_of_the_reference_implementation_are_reproduced(data: Path) -> None:
    paths = sorted(data.glob("ed25519_djb_sign_input*.jsonl"))
    if not paths:
        pytest.skip("NOT CHECKED: no ed25519_djb_sign_input*.jsonl")
    for row in map(json.loads, paths[0].read_text().splitlines()):
        assert SigningKey.from_seed("k", bytes.fromhex(row["seed"])).public_key.hex() == row["public_key"]
        assert fits(row["public_key"], row["msg"], row["sig"])


@pytest.mark.parametrize(
    "encoding", SMALL_ORDER, ids=lambda encoding: encoding.hex()[:8] + encoding.hex()[-4:]
)
def test_small_order_key_is_refused_at_registration(encoding: bytes) -> None:
    """One signature under it fits many messages, and some libraries accept it."""
    assert not is_strong_public_key(encoding)
    refused = register(encoding)
    assert isinstance(refused, Refusal)
    assert refused.reason is Reason.PERMIT_MALFORMED


def test_key_with_a_small_order_part_is_refused_at_registration() -> None:
    """A point of prime order plus one of order 2: verifiers disagree about its signatures."""
    key = SigningKey.from_seed("k", hashlib.sha256(b"mixed").digest()).public_key
    y = int.from_bytes(key, "little") & ((1 << 255) - 1)
    mixed = ((P - y) | (1 - (key[31] >> 7)) << 255).to_bytes(32, "little")  # (x, y) + (0, -1) = (-x, -y)
    assert isinstance(register(key), KeySet)
    assert not is_strong_public_key(mixed)
    assert isinstance(register(mixed), Refusal)


def test_speccheck_keys_of_small_or_mixed_order_are_refused(data: Path) -> None:
    path = data / "ed25519_speccheck.jsonl"
    if not path.is_file():
        pytest.skip(
            "NOT CHECKED: no ed25519_speccheck.jsonl; the small-order keys themselves are checked above"
        )
    for row in map(json.loads, path.read_text().splitlines()):
        encoding = bytes.fromhex(row.get("public_key") or row["pub_key"])
        assert not (encoding in SMALL_ORDER and isinstance(register(encoding), KeySet)), row["id"]
