"""No bytes make the door raise; none pass it but a signed permit in its one encoding, for its own call.

The first byte chooses what the rest is: the raw permit, a payload that the decider signs, a body, an
approval, or a mutation of the lawful payload, so that the fuzzer gets past the signature.
"""

import json
from dataclasses import replace

from seeds import VECTORS

from licet.dsse import PayloadType
from licet.permit import Permit, examine
from licet.refusal import Refusal
from licet.statement import parse_signed, verify
from licet.strict import canonical
from licet.v1.decision_pb2 import Decision
from licet.v1.statement_pb2 import Signed
from tests.worlds import permit as world
from tests.worlds.permit import DOOR, NOW

INSTRUMENT = ["licet.permit", "licet.hold", "licet.strict", "licet.beacon", "licet.revocation"]

LAWFUL = world.presented()
PAYLOAD = canonical(world.decision())
WIPE = world.approved_wipe()


def mutated(payload: bytes, data: bytes) -> bytes:
    """`payload` with pairs of `data` written into it: a place and a byte."""
    out = bytearray(payload)
    for place, value in zip(data[::2], data[1::2], strict=False):
        out[place * len(out) // 256] = value
    return bytes(out)


def seeds() -> list[bytes]:
    vectors = [json.loads(path.read_text()) for path in sorted((VECTORS / "permit").glob("*.json"))]
    raw = {permit for one in vectors for permit in one["call"]["permits"]}
    payloads = {Signed.FromString(bytes.fromhex(permit)).payload for permit in raw if is_envelope(permit)}
    return [
        *(b"\0" + bytes.fromhex(permit) for permit in sorted(raw)),
        *(b"\1" + payload for payload in sorted(payloads)),
        *(b"\3" + bytes.fromhex(one["call"]["body"]) for one in vectors),
        *(b"\4" + bytes.fromhex(proof) for one in vectors for proof in one["call"]["approvals"]),
    ]


def is_envelope(permit: str) -> bool:
    return not isinstance(parse_signed(bytes.fromhex(permit)), Refusal)


def check(data: bytes) -> None:
    if not data:
        return
    kind, rest = data[0] % 5, data[1:]
    if kind == 0:
        shown = replace(LAWFUL, permits=(rest,))
    elif kind == 1:
        shown = replace(LAWFUL, permits=(world.sign_payload(rest),))
    elif kind == 2:
        shown = replace(LAWFUL, permits=(world.sign_payload(mutated(PAYLOAD, rest)),))
    elif kind == 3:
        shown = replace(LAWFUL, body=rest)
    else:
        shown = replace(WIPE, approvals=(rest, WIPE.approvals[1]))
    result = examine(shown, DOOR, now_ms=NOW, monotonic_ms=NOW)
    assert isinstance(result, Permit | Refusal)
    if isinstance(result, Permit):
        payload = result.signed.payload
        assert verify(PayloadType.PERMIT, result.signed, DOOR.keys, now_ms=NOW) == payload
        assert canonical(Decision.FromString(payload)) == payload
        assert result.decision.method == shown.path
        assert result.decision.ceilings or result.decision.call_digest == result.call_digest
        assert len(result.approvers) >= 2 or kind != 4
