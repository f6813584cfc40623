"""Spends: the id of a step's one effect, and the two records of it.

Guarantees: two different (environment, tenant, audience, agent, task, call id) never give the same bytes to
hash, whatever the parts contain; a record that `read_spend_record` returned was signed by a sidecar in its
own name. Does not verify the permit inside a reserve and says nothing about order or presence in the store.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from licet.dsse import PayloadType
from licet.keys import KeySet
from licet.refusal import Reason, Refusal
from licet.statement import verify
from licet.strict import canonical, strict_parse
from licet.v1 import spend_pb2
from licet.v1.hold_pb2 import ApprovalProof
from licet.v1.spend_pb2 import Outcome
from licet.v1.statement_pb2 import Signed

SPEND_RECORD_VERSION = 1
"""Version of the message SpendRecord that is written and read."""

FENCED_STATUS_CODE = -1
"""`status_code` of an outcome that a fence found."""

OUTCOMES: frozenset[int] = frozenset(
    {Outcome.OUTCOME_EXECUTED, Outcome.OUTCOME_FAILED_NO_EFFECT, Outcome.OUTCOME_VOIDED}
)
"""What an outcome record may say. Not knowing is the absence of a record."""

_HEX32 = re.compile(r"[0-9a-f]{32}", re.ASCII)


def is_hex32(text: str) -> bool:
    """Say whether `text` is 32 lower hex digits: a spend id, a hold id, an attempt, an event id."""
    return _HEX32.fullmatch(text) is not None


def spend_id(  # noqa: PLR0917 - the order is the order of the hash
    environment: str, tenant: str, audience: str, agent: str, task_id: str, call_id: str
) -> str:
    """Return the id of the one effect that this step may have: 32 lower hex digits.

    The first 16 bytes of the SHA-256 of `licet-spend-v1`, a zero byte, and each part as its length (u32,
    big-endian) and its UTF-8 bytes.
    """
    parts = [part.encode() for part in (environment, tenant, audience, agent, task_id, call_id)]
    spelled = b"".join([len(part).to_bytes(4, "big") + part for part in parts])
    return sha256(b"licet-spend-v1\0" + spelled).hexdigest()[:32]


def reserve_payload(
    *,
    environment: str,
    permit: Signed,
    attempt: str,
    sidecar: str,
    reserved_at_ms: int,
    call_digest: bytes,
    approvals: Iterable[ApprovalProof] = (),
) -> bytes:
    """Return the payload of a reserve, for the sidecar's spend key to sign under PayloadType.SPEND."""
    return canonical(
        spend_pb2.SpendRecord(
            version=SPEND_RECORD_VERSION,
            environment=environment,
            reserve=spend_pb2.Reserve(
                permit=permit,
                attempt=attempt,
                sidecar=sidecar,
                reserved_at_ms=reserved_at_ms,
                call_digest=call_digest,
                approvals=approvals,
            ),
        )
    )


def outcome_payload(
    *,
    environment: str,
    spend_id: str,
    round: int,
    attempt: str,
    outcome: Outcome.ValueType,
    sidecar: str,
    recorded_at_ms: int,
    status_code: int,
    decision_id: str,
    fence_answer: bytes = b"",
) -> bytes:
    """Return the payload of an outcome, for the sidecar's spend key to sign under PayloadType.SPEND.

    Raises ValueError for an outcome that no record may say.
    """
    if outcome not in OUTCOMES:
        raise ValueError(f"`{outcome}` is no outcome to record: not knowing is the absence of a record")
    return canonical(
        spend_pb2.SpendRecord(
            version=SPEND_RECORD_VERSION,
            environment=environment,
            outcome=spend_pb2.OutcomeRecord(
                spend_id=spend_id,
                round=round,
                attempt=attempt,
                outcome=outcome,
                sidecar=sidecar,
                recorded_at_ms=recorded_at_ms,
                status_code=status_code,
                fence_answer=fence_answer,
                decision_id=decision_id,
            ),
        )
    )


@dataclass(frozen=True, slots=True)
class SpendRecord:
    """A reserve or an outcome, as a sidecar signed it: exactly one of the two is set.

    `audience` is the tool that the signing key may speak for. The permit inside a reserve is not verified:
    compare its audience with this one after `verify_permit`.
    """

    environment: str
    audience: str
    sidecar: str
    attempt: str
    at_ms: int
    reserve: spend_pb2.Reserve | None
    outcome: spend_pb2.OutcomeRecord | None


def read_spend_record(
    signed: Signed, keys: KeySet, *, environment: str, now_ms: int
) -> SpendRecord | Refusal:
    """Return the record that a spend key of this environment signed, or why not."""
    payload = verify(PayloadType.SPEND, signed, keys, now_ms=now_ms)
    if isinstance(payload, Refusal):
        return payload
    message = strict_parse(spend_pb2.SpendRecord, payload)
    if isinstance(message, Refusal):
        return message
    if message.environment != environment:
        return Refusal(Reason.ENVIRONMENT_MISMATCH, f"the record is for environment `{message.environment}`")
    if message.version != SPEND_RECORD_VERSION:
        return _malformed(f"version {message.version}")
    record = _record(message, keys.keys[signed.key_id].audience)
    if not isinstance(record, Refusal) and record.sidecar != keys.keys[signed.key_id].owner:
        return _malformed(f"sidecar `{record.sidecar}` does not own key `{signed.key_id}`")
    return record


def _record(message: spend_pb2.SpendRecord, audience: str) -> SpendRecord | Refusal:
    reserve, outcome = None, None
    if message.HasField("reserve"):
        reserve = message.reserve
        sidecar, attempt, at_ms = reserve.sidecar, reserve.attempt, reserve.reserved_at_ms
    elif message.HasField("outcome"):
        outcome = message.outcome
        sidecar, attempt, at_ms = outcome.sidecar, outcome.attempt, outcome.recorded_at_ms
        if outcome.outcome not in OUTCOMES or not is_hex32(outcome.spend_id):
            return _malformed(f"outcome {outcome.outcome} of spend `{outcome.spend_id}`")
    else:
        return _malformed("neither a reserve nor an outcome")
    if not is_hex32(attempt):
        return _malformed(f"attempt `{attempt}`")
    return SpendRecord(message.environment, audience, sidecar, attempt, at_ms, reserve, outcome)


def _malformed(detail: str) -> Refusal:
    return Refusal(Reason.PERMIT_MALFORMED, f"spend record: {detail}")
