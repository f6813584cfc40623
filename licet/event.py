"""Audit events: their kinds, their ids, the chain that joins them, the checkpoints that close it.

Guarantees: changing, leaving out or reordering events of a run changes every later hash. Whoever holds the
source's checkpoint key can write another chain; only a checkpoint kept elsewhere shows that.
"""

from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

from licet.dsse import PayloadType
from licet.keys import KeySet
from licet.refusal import Reason, Refusal
from licet.statement import verify
from licet.strict import canonical, strict_parse
from licet.v1 import event_pb2
from licet.v1.statement_pb2 import Signed

EVENT_VERSION = 1
"""Version of the message Event."""

CHECKPOINT_VERSION = 1
"""Version of the message Checkpoint."""

ZERO_HASH = bytes(32)
"""`prev_hash` of the first event of a run."""

RANDOM_BYTES = 10
"""Random bytes that `uuid7` takes."""


class EventKind(StrEnum):
    """What happened: a closed list."""

    DECISION_ALLOWED = "decision.allowed"
    DECISION_DENIED = "decision.denied"
    DECISION_HELD = "decision.held"
    DECISION_MODIFIED = "decision.modified"
    DECISION_FAILED = "decision.failed"
    DOOR_PASSED = "door.passed"
    DOOR_REFUSED = "door.refused"
    SPEND_RESERVED = "spend.reserved"
    SPEND_OUTCOME = "spend.outcome"
    APPROVAL_REQUESTED = "approval.requested"
    APPROVAL_VOTED = "approval.voted"
    APPROVAL_REFUSED = "approval.refused"
    APPROVAL_EXPIRED = "approval.expired"
    DELEGATION_GRANTED = "delegation.granted"
    DELEGATION_REVOKED = "delegation.revoked"
    TASK_REGISTERED = "task.registered"
    TASK_CLOSED = "task.closed"
    BUNDLE_ACTIVATED = "bundle.activated"
    BUNDLE_REJECTED = "bundle.rejected"
    KEY_ADDED = "key.added"
    KEY_REVOKED = "key.revoked"
    LEDGER_CHANGED = "ledger.changed"
    FINDING_RAISED = "finding.raised"
    FINDING_CLEARED = "finding.cleared"
    PROCESS_STARTED = "process.started"
    PROCESS_STOPPED = "process.stopped"
    CHECKPOINT = "checkpoint"
    STORE_UNSAFE = "store.unsafe"
    BEACON_STALE = "beacon.stale"
    CATALOG_DRIFT = "catalog.drift"


def event_hash(prev_hash: bytes, event_bytes: bytes) -> bytes:
    """Return the SHA-256 of `licet-event-v1`, a zero byte, `prev_hash` and the event's bytes.

    Raises ValueError unless `prev_hash` is 32 bytes long.
    """
    if len(prev_hash) != len(ZERO_HASH):
        raise ValueError(f"the hash of the event before must be 32 bytes, not {len(prev_hash)}")
    return sha256(b"licet-event-v1\0" + prev_hash + event_bytes).digest()


def uuid7(now_ms: int, random: bytes) -> str:
    """Return the UUIDv7 (RFC 9562, 5.7) of a Unix time in ms and 10 random bytes, as 32 lower hex digits.

    Raises ValueError on another number of bytes or a time outside 48 bits.
    """
    if len(random) != RANDOM_BYTES:
        raise ValueError(f"a UUIDv7 takes {RANDOM_BYTES} random bytes, not {len(random)}")
    if not 0 <= now_ms < 1 << 48:
        raise ValueError(f"`{now_ms}` is no time in ms that a UUIDv7 can hold")
    bits = int.from_bytes(random, "big")
    rand_a, rand_b = bits >> 68, bits & ((1 << 62) - 1)
    return f"{now_ms << 80 | 7 << 76 | rand_a << 64 | 2 << 62 | rand_b:032x}"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a source signed: event `seq` of its run has the hash `tip`, and the run had `count` events."""

    source: str
    stream: str
    seq: int
    tip: bytes
    count: int
    signed_at_ms: int


def checkpoint_payload(checkpoint: Checkpoint) -> bytes:
    """Return the payload of a checkpoint, for the source's key to sign under PayloadType.CHECKPOINT."""
    return canonical(
        event_pb2.Checkpoint(
            version=CHECKPOINT_VERSION,
            source=checkpoint.source,
            stream=checkpoint.stream,
            seq=checkpoint.seq,
            tip=checkpoint.tip,
            count=checkpoint.count,
            signed_at_ms=checkpoint.signed_at_ms,
        )
    )


def read_checkpoint(signed: Signed, keys: KeySet, *, now_ms: int) -> Checkpoint | Refusal:
    """Return the checkpoint that a source's own key signed, or why not: the source must own the key."""
    payload = verify(PayloadType.CHECKPOINT, signed, keys, now_ms=now_ms)
    if isinstance(payload, Refusal):
        return payload
    message = strict_parse(event_pb2.Checkpoint, payload)
    if isinstance(message, Refusal):
        return message
    if message.version != CHECKPOINT_VERSION or len(message.tip) != len(ZERO_HASH):
        return _malformed(f"version {message.version}, tip of {len(message.tip)} bytes")
    if message.source != keys.keys[signed.key_id].owner:
        return _malformed(f"source `{message.source}` does not own key `{signed.key_id}`")
    return Checkpoint(
        message.source, message.stream, message.seq, message.tip, message.count, message.signed_at_ms
    )


def _malformed(detail: str) -> Refusal:
    return Refusal(Reason.PERMIT_MALFORMED, f"checkpoint: {detail}")
