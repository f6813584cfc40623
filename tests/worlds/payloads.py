"""A small world of sealed payloads: two tenants, one with two keys, all derived from names."""

from hashlib import sha256

from licet.dsse import SigningKey
from licet.keys import KeyRole, KeySet, PublicKey
from licet.sealed import Envelope, Place, address, payload_key, payload_keys
from licet.v1.payload_pb2 import DecisionInput

NOW = 1_800_000_000_000
ENVIRONMENT = "prod"
EVENT = "01" * 16
PLACE = Place(ENVIRONMENT, "t1", EVENT)
PAYLOAD = b"what was asked"


def seed(name: str) -> bytes:
    return sha256(b"licet test key " + name.encode()).digest()


def key(name: str, tenant: str, begins: int = 0, ends: int = 1_000) -> PublicKey:
    public = SigningKey.from_seed(name, seed(name)).public_key
    return PublicKey(name, KeyRole.PAYLOAD, ENVIRONMENT, public, NOW + begins, NOW + ends, owner=tenant)


OLD, NEW, OTHER = key("t1-old", "t1", -1_000, 500), key("t1-new", "t1"), key("t2-only", "t2", -1_000)
KEYS = KeySet(ENVIRONMENT, 1, {one.key_id: one for one in (OLD, NEW, OTHER)})


def envelope(tenant: str = "t1", ephemeral: bytes = b"\x07" * 32) -> Envelope:
    found = payload_key(payload_keys(KEYS)[tenant], now_ms=NOW)
    assert found is not None
    return address(found, ephemeral)


def decision_input(request: bytes = b"\x0a\x02O1") -> DecisionInput:
    return DecisionInput(
        version=1,
        decision_id="d" * 32,
        method="/fin.v1.Finance/IssueRefund",
        request=request,
        request_size=len(request),
        request_sha256=sha256(request).digest(),
        tenant="t1",
        decision="deny",
    )
