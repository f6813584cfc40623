"""No signed bytes make reading a beacon raise; one that is read is ours, of now, in its one encoding.

The same bytes are read as a revocation list, a spend record and a checkpoint: the other things that a part
takes from the network while it runs. And as a sealed payload, which opens for nobody it was not sealed for.
"""

import json

from seeds import VECTORS

from licet.beacon import Beacon, beacon_payload, read_beacon, succeeds
from licet.dsse import PayloadType
from licet.event import Checkpoint, checkpoint_payload, read_checkpoint
from licet.refusal import Refusal
from licet.revocation import Revocations, read_revocations
from licet.sealed import Unopened, open_sealed, seal
from licet.spend import SpendRecord, read_spend_record
from licet.v1.statement_pb2 import Signed
from tests.worlds import payloads
from tests.worlds import permit as world
from tests.worlds.payloads import PLACE
from tests.worlds.permit import ENVIRONMENT, KEYS, NOW

INSTRUMENT = [
    "licet.beacon",
    "licet.revocation",
    "licet.spend",
    "licet.event",
    "licet.strict",
    "licet.sealed",
]

LAST = world.beacon()
SEALED = seal(payloads.envelope(), 0, payloads.EVENT, payloads.PAYLOAD)


def check_beacon(payload: bytes) -> None:
    signed = world.signing_key("beacon").sign(PayloadType.BEACON, payload)
    result = read_beacon(signed, KEYS, environment=ENVIRONMENT, now_ms=NOW)
    assert isinstance(result, Beacon | Refusal)
    if isinstance(result, Beacon):
        assert beacon_payload(result) == payload
        assert result.environment == ENVIRONMENT
        assert NOW - 60_000 <= result.issued_at_ms <= NOW + 1_000
        if succeeds(LAST, result) is None:
            assert (result.generation, result.config_seq) >= (LAST.generation, LAST.config_seq)


def seeds() -> list[bytes]:
    vectors = [json.loads(path.read_text()) for path in sorted((VECTORS / "beacon").glob("*.json"))]
    found = [Signed.FromString(bytes.fromhex(one["signed"])).payload for one in vectors]
    found.append(world.signed_revocations(1, ("KEY", "decider"), ("TASK", "t")).payload)
    found.append(checkpoint_payload(Checkpoint("source", "a" * 32, 1, bytes(32), 1, NOW)))
    return [*found, SEALED]


def check_sealed(data: bytes) -> None:
    opened = open_sealed(data, PLACE, payloads.seed("t1-new"))
    assert isinstance(opened, Unopened) or data == SEALED


def check(data: bytes) -> None:
    check_beacon(data)
    check_sealed(data)
    signed = world.signing_key("decider").sign(PayloadType.REVOCATIONS, data)
    listed = read_revocations(signed, KEYS, environment=ENVIRONMENT, now_ms=NOW)
    assert isinstance(listed, Revocations | Refusal)
    signed = world.signing_key("spend-finance").sign(PayloadType.SPEND, data)
    record = read_spend_record(signed, KEYS, environment=ENVIRONMENT, now_ms=NOW)
    assert isinstance(record, SpendRecord | Refusal)
    if isinstance(record, SpendRecord):
        assert (record.reserve is None) is not (record.outcome is None)
    signed = world.signing_key("checkpoint").sign(PayloadType.CHECKPOINT, data)
    tip = read_checkpoint(signed, KEYS, now_ms=NOW)
    assert isinstance(tip, Checkpoint | Refusal)
    assert isinstance(tip, Refusal) or checkpoint_payload(tip) == data
