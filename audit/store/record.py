"""Records of the spend log and rows of a ledger, read as events. Pure.

Guarantees: the fields are the record's own, whoever signed it; whether its signatures hold at the time it was
stored is said beside them and never hidden. A record under another step's subject is marked.
"""

import re
from hashlib import sha256
from typing import Final

from audit.store.stored import House, Stored, Unreadable
from licet.event import EventKind
from licet.identity import sidecar_id
from licet.keys import KeySet
from licet.refusal import Refusal
from licet.spend import read_spend_record
from licet.statement import PayloadType, parse_signed, verify
from licet.strict import strict_parse
from licet.v1.decision_pb2 import Decision, DecisionType
from licet.v1.event_pb2 import Event
from licet.v1.guard_pb2 import LedgerChange
from licet.v1.spend_pb2 import Outcome, SpendRecord

VALID: Final = "valid"
"""Value of `signature` where the spend record's own and its permit's signature hold."""

SPEND_STREAM: Final = "spend"
LEDGER_STREAM: Final = "ledger"
"""What stands in `stream` for rows that are no journal's."""

CEILINGS: Final = "ceilings"
"""`detail` of a reserve whose permit binds ceilings and not one digest."""

_DECISIONS: Final = {DecisionType.DECISION_TYPE_ALLOW: "allow", DecisionType.DECISION_TYPE_MODIFY: "modify"}
_TRACEPARENT: Final = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}", re.ASCII)


def read_spend(message: Stored, parts: list[str], house: House) -> tuple[Event | Unreadable, str]:
    """Return the event that a message of the spend log is, and what its signatures are worth."""
    signed = parse_signed(message.data)
    if isinstance(signed, Refusal):
        return Unreadable("MALFORMED", signed.detail), ""
    record = strict_parse(SpendRecord, signed.payload)
    if isinstance(record, Refusal):
        return Unreadable("MALFORMED", record.detail), ""
    if len(parts) != 7 or record.WhichOneof("record") != parts[6]:
        return Unreadable("SUBJECT_MISMATCH", message.subject), ""
    event = _reserved(record) if parts[6] == "reserve" else _outcome(record)
    if isinstance(event, Unreadable):
        return event, ""
    event.event_id = sha256(message.data).hexdigest()
    event.stream, event.seq = SPEND_STREAM, message.origin_seq
    event.environment, event.tool = house.environment, parts[3]
    signature = VALID
    if (event.spend_id, str(event.round)) != (parts[4], parts[5]):
        signature = "SUBJECT_MISMATCH"
    elif event.source != _sidecar(house, parts[3]):
        signature = "SIDECAR_MISMATCH"
    elif house.keys is None:
        signature = "KEYS_MISSING"
    else:
        signature = _signature(message, house.keys, house)
    return event, signature


def _sidecar(house: House, tool: str) -> str:
    try:
        return sidecar_id(house.trust_domain, house.environment, tool)
    except ValueError:
        return ""  # no name of a tool: nobody's subject


def _signature(message: Stored, keys: KeySet, house: House) -> str:
    """Return VALID, or which check of the record or of its permit fails, by the time of its storing."""
    now_ms = message.time_us // 1000
    signed = parse_signed(message.data)
    assert not isinstance(signed, Refusal)
    record = read_spend_record(signed, keys, environment=house.environment, now_ms=now_ms)
    if isinstance(record, Refusal):
        return f"RECORD_{record.reason}"
    if record.reserve is not None:
        permit = verify(PayloadType.PERMIT, record.reserve.permit, keys, now_ms=now_ms)
        if isinstance(permit, Refusal):
            return f"PERMIT_{permit.reason}"
    return VALID


def signing_keys(data: bytes) -> tuple[str, ...]:
    """Return the ids of the keys that a spend record, of valid signatures, and its permit are signed by."""
    signed = parse_signed(data)
    assert not isinstance(signed, Refusal)
    record = strict_parse(SpendRecord, signed.payload)
    assert not isinstance(record, Refusal)
    permit = (record.reserve.permit.key_id,) if record.HasField("reserve") else ()
    return (signed.key_id, *permit)


def _reserved(record: SpendRecord) -> Event | Unreadable:
    reserve = record.reserve
    decision = strict_parse(Decision, reserve.permit.payload)
    if isinstance(decision, Refusal):
        return Unreadable("PERMIT_MALFORMED", decision.detail)
    trace = _TRACEPARENT.fullmatch(decision.traceparent)
    return Event(
        source=reserve.sidecar,
        time_us=_us(reserve.reserved_at_ms),
        kind=EventKind.SPEND_RESERVED,
        decision=_DECISIONS.get(decision.decision, "failed"),
        tenant=decision.tenant,
        principal=decision.principal,
        caller=decision.caller,
        agent=decision.agent,
        task_id=decision.task_id,
        call_id=decision.call_id,
        decision_id=decision.decision_id,
        spend_id=decision.spend_id,
        round=decision.round,
        hold_id=decision.hold_id,
        delegations=decision.delegations,
        method=decision.method,
        tool_version=decision.method_digest.hex(),
        resource=decision.resource,
        call_digest=reserve.call_digest.hex(),
        bundle_version=decision.bundle_version,
        rule_ids=decision.rule_ids,
        attempt=reserve.attempt,
        generation=decision.generation,
        config_seq=decision.config_seq,
        not_after_ms=decision.not_after_ms,
        detail=CEILINGS if decision.ceilings else "",
        original_call_digest=decision.original_call_digest.hex(),
        trace_id=trace[1] if trace else "",
        span_id=trace[2] if trace else "",
    )


def _outcome(record: SpendRecord) -> Event:
    outcome = record.outcome
    known = Outcome.Name(outcome.outcome) if outcome.outcome in Outcome.values() else "OUTCOME_UNSPECIFIED"
    return Event(
        source=outcome.sidecar,
        time_us=_us(outcome.recorded_at_ms),
        kind=EventKind.SPEND_OUTCOME,
        decision_id=outcome.decision_id,
        spend_id=outcome.spend_id,
        round=outcome.round,
        attempt=outcome.attempt,
        outcome=known.removeprefix("OUTCOME_"),
        detail=f"status {outcome.status_code}",
    )


def read_ledger(message: Stored, tool: str, house: House) -> Event | Unreadable:
    """Return the event that a row of a tool's outbox is."""
    change = strict_parse(LedgerChange, message.data)
    if isinstance(change, Refusal):
        return Unreadable("MALFORMED", change.detail)
    try:
        source = sidecar_id(house.trust_domain, house.environment, tool)
    except ValueError as error:
        return Unreadable("SUBJECT_UNKNOWN", str(error))
    return Event(
        event_id=sha256(message.data).hexdigest(),
        source=source,
        stream=LEDGER_STREAM,
        seq=change.outbox_seq,
        time_us=change.committed_at_us,
        kind=EventKind.LEDGER_CHANGED,
        environment=house.environment,
        tenant=change.tenant,
        tool=tool,
        decision_id=change.decision_id,
        spend_id=change.spend_id,
        round=change.round,
        resource=change.resource,
        call_digest=change.call_digest.hex(),
        amount_minor=change.amount_minor,
        currency=change.currency,
        entry=change.entry,
        change_id=change.change_id,
        attempt=change.attempt,
        account=change.account,
        issuer=change.issuer,
        trace_id=change.trace_id,
        span_id=change.span_id,
    )


def _us(ms: int) -> int:
    """Milliseconds to microseconds, held within a signed 64-bit number."""
    return max(min(ms * 1000, (1 << 63) - 1), -(1 << 63))
