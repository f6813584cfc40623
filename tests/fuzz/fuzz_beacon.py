"""No signed bytes make reading a beacon raise; one that is read is ours, of now, in its one encoding.

The same bytes are read as a revocation list, a spend record and a checkpoint: the other things that a part
takes from the network while it runs.
"""

import json

from seeds import VECTORS

from licet.beacon import Beacon, beacon_payload, read_beacon, succeeds
from licet.dsse import PayloadType
from licet.event import Checkpoint, checkpoint_payload, read_checkpoint
from licet.refusal import Refusal
from licet.revocation import Revocations, read_revocations
from licet.spend import SpendRecord, read_spend_record
from licet.v1.statement_pb2 import Signed
from tests.worlds import permit as world
from tests.worlds.permit import ENVIRONMENT, KEYS, NOW

INSTRUMENT = ["licet.beacon", "licet.revocation", "licet.spend", "licet.event", "licet.strict"]

LAST = world.beacon()


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
    payloads = [Signed.FromString(bytes.fromhex(one["signed"])).payload for one in vectors]
    payloads.append(world.signed_revocations(1, ("KEY", "decider"), ("TASK", "t")).payload)
    payloads.append(checkpoint_payload(Checkpoint("source", "a" * 32, 1, bytes(32), 1, NOW)))
    return payloads


def check(data: bytes) -> None:
    check_beacon(data)
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
