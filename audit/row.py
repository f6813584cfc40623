"""From a stored message to a row of `events`: pure, deterministic, and never an exception for bad bytes.

Guarantees: the same message gives the same bytes, so a batch made twice is one batch; a message that cannot
be a row becomes a row of kind `quarantined` with its bytes and the reason, so sequences stay gapless. A
source can speak for itself only: the subject it published under (which its NATS account fixes) must name
it, and a kind must be one its process may say. Not checked here: chains and checkpoints (the verifier),
whether an event's time is true.

A row on the wire is a protobuf message: the fields of Event under their numbers, then those of `_EXTRA`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor

from licet.event import EVENT_VERSION, EventKind
from licet.identity import audit_writer_id, decider_id, reconciler_id, sidecar_id
from licet.keys import KeySet
from licet.refusal import Refusal
from licet.spend import is_hex32, read_spend_record
from licet.statement import PayloadType, parse_signed, verify
from licet.strict import strict_parse
from licet.v1.decision_pb2 import Decision, DecisionType
from licet.v1.event_pb2 import Event
from licet.v1.guard_pb2 import LedgerChange
from licet.v1.spend_pb2 import Outcome, SpendRecord

QUARANTINED: Final = "quarantined"
"""Kind of a row whose message could not be read."""

REPEATED: Final = "repeated"
"""Kind of a row whose event is in the store already: a source sends again what it has no ack of."""

VALID: Final = "valid"
"""Value of `signature` where the spend record's own and its permit's signature hold."""

SPEND_STREAM: Final = "spend"
LEDGER_STREAM: Final = "ledger"
"""What stands in `stream` for rows that are no journal's."""

CEILINGS: Final = "ceilings"
"""`detail` of a reserve whose permit binds ceilings and not one digest."""

MAX_DETAIL: Final = 300

_DECISIONS: Final = {DecisionType.DECISION_TYPE_ALLOW: "allow", DecisionType.DECISION_TYPE_MODIFY: "modify"}
_TRACEPARENT: Final = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}", re.ASCII)
_ANYBODY: Final = "anybody"
_NOBODY: Final = "nobody"
_OWNERS: Final = {
    "decision.": "decider", "door.": "sidecar", "finding.": "audit", "spend.": _NOBODY, "ledger.": _NOBODY
}  # fmt: skip
_OWNER_OF_KIND: Final = MappingProxyType(
    {
        str(kind): next((who for prefix, who in _OWNERS.items() if kind.startswith(prefix)), _ANYBODY)
        for kind in EventKind
    }
)
"""Which sort of process may say a kind: a sidecar must not be able to invent a decision. `spend.` and
`ledger.` come from their own streams and from no journal.
"""

# Protobuf type -> its name in a schema text. Everything Event holds, bar messages.
_TYPE_NAMES: Final = {
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_UINT64: "uint64",
    FieldDescriptor.TYPE_UINT32: "uint32",
}
_EXTRA: Final = (
    (1001, "js_stream", "string"),
    (1002, "js_subject", "string"),
    (1003, "js_seq", "uint64"),
    (1004, "js_time_us", "int64"),
    (1005, "batch", "uint64"),
    (1006, "event", "bytes"),
    (1007, "signature", "string"),
)
_NO_COLUMN: Final = frozenset({"version", "checkpoint"})
_RENAMED: Final = {"prev_hash": "prev_hash_raw"}
"""The column is text; the store writes the raw bytes as lower hex."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One message as JetStream has it. `origin_seq`: for the spend log, its sequence in the spend stream."""

    stream: str
    subject: str
    seq: int
    time_us: int
    data: bytes
    origin_seq: int = 0


@dataclass(frozen=True, slots=True)
class House:
    """Whose messages these are: the environment, the trust domain, and the keys that may sign."""

    environment: str
    trust_domain: str
    keys: KeySet | None

    def sources(self, process: str, name: str) -> tuple[str, ...]:
        """Return the ids that may speak under the subject of `process` and `name`."""
        return _sources(self.trust_domain, self.environment, process, name)


@lru_cache(maxsize=4096)
def _sources(trust_domain: str, environment: str, process: str, name: str) -> tuple[str, ...]:
    match process:
        case "decider":
            return (decider_id(trust_domain, environment),)
        case "sidecar":
            return (sidecar_id(trust_domain, environment, name),)
        case "audit":
            return (reconciler_id(trust_domain, environment), audit_writer_id(trust_domain, environment))
        case _:
            return (f"spiffe://{trust_domain}/{environment}/{process}/{name}",)


def _event_fields() -> Iterator[tuple[int, str, str, bool]]:
    for field in Event.DESCRIPTOR.fields:
        if field.name not in _NO_COLUMN:
            name = _RENAMED.get(field.name, field.name)
            yield field.number, name, _TYPE_NAMES[field.type], field.is_repeated


COLUMNS: Final = tuple(name for _, name, _, _ in _event_fields()) + tuple(name for _, name, _ in _EXTRA)
"""Columns of `events` that an insert names."""


def schema() -> str:
    """Return the protobuf schema of a row, for `format_schema_source = 'string'`; its message is `Row`."""
    lines = [
        f"  {'repeated ' if repeated else ''}{kind} {name} = {number};"
        for number, name, kind, repeated in _event_fields()
    ]
    lines += [f"  {kind} {name} = {number};" for number, name, kind in _EXTRA]
    return "\n".join(['syntax = "proto3";', "message Row {", *lines, "}", ""])


def _make_extra() -> Any:
    types = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="licet/audit/row.proto", package="licet.audit", syntax="proto3"
    )
    message = file.message_type.add(name="Extra")
    for number, name, kind in _EXTRA:
        message.field.add(
            name=name,
            number=number,
            type=types.Type.Value(f"TYPE_{kind.upper()}"),
            label=types.LABEL_OPTIONAL,
        )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("licet.audit.Extra"))


_Extra: Final = _make_extra()


@dataclass(frozen=True, slots=True)
class _Unreadable:
    """Why a message cannot be a row."""

    reason: str
    detail: str


def row(message: Stored, house: House, batch: int, *, repeated: bool = False) -> bytes:
    """Return the row of `message`, length-prefixed; `batch` is the first sequence of its insert.

    `repeated`: the store has this very event already; the row then only keeps its place in the sequence.
    """
    fields, signature = _fields(message, house, repeated=repeated)
    body = fields if isinstance(fields, bytes) else fields.SerializeToString(deterministic=True)
    extra = _Extra(js_seq=message.seq, js_time_us=message.time_us, event=message.data, signature=signature)
    whole: bytes = body + _place(message.stream, message.subject, batch) + extra.SerializeToString()
    return _varint(len(whole)) + whole


@lru_cache(maxsize=64)
def _place(stream: str, subject: str, batch: int) -> bytes:
    """The fields that a batch's rows of one subject share."""
    shared: bytes = _Extra(js_stream=stream, js_subject=_printable(subject), batch=batch).SerializeToString()
    return shared


def read_columns(message: Stored, house: House, *, repeated: bool) -> dict[str, Any]:
    """Return what the columns of `message`'s row must be, by name; `prev_hash` as lower hex."""
    fields, signature = _fields(message, house, repeated=repeated)
    event = Event.FromString(fields) if isinstance(fields, bytes) else fields
    columns: dict[str, Any] = {}
    for _, name, _, many in _event_fields():
        value = getattr(event, "prev_hash" if name == "prev_hash_raw" else name)
        columns[name] = list(value) if many else value
    columns["prev_hash"] = columns.pop("prev_hash_raw").hex()
    return columns | {
        "js_stream": message.stream,
        "js_subject": _printable(message.subject),
        "js_seq": message.seq,
        "js_time_us": message.time_us,
        "event": message.data,
        "signature": signature,
    }


def _fields(message: Stored, house: House, *, repeated: bool) -> tuple[bytes | Event, str]:
    fields, signature = _read(message, house)
    if isinstance(fields, _Unreadable):
        unreadable = Event(
            event_id=sha256(message.data).hexdigest(),
            time_us=message.time_us,
            kind=QUARANTINED,
            environment=house.environment,
            reason=fields.reason,
            detail=_printable(fields.detail),
        )
        return unreadable, signature
    if repeated and isinstance(fields, bytes):
        event = Event.FromString(fields)
        again = Event(
            event_id=event.event_id,
            source=event.source,
            stream=event.stream,
            seq=event.seq,
            prev_hash=event.prev_hash,
            time_us=event.time_us,
            environment=event.environment,
            kind=REPEATED,
        )
        return again, signature
    return fields, signature


def _read(message: Stored, house: House) -> tuple[bytes | Event | _Unreadable, str]:
    parts = message.subject.split(".")
    if len(parts) < 5 or parts[0] != "licet" or parts[2] != house.environment:
        return _Unreadable("SUBJECT_UNKNOWN", message.subject), ""
    match parts[1]:
        case "audit":
            return _read_event(message, parts[3], parts[4], house), ""
        case "spend":
            return _read_spend(message, parts, house)
        case "ledger":
            return _read_ledger(message, parts[3], house), ""
        case _:
            return _Unreadable("SUBJECT_UNKNOWN", message.subject), ""


def _read_event(message: Stored, process: str, name: str, house: House) -> bytes | _Unreadable:
    event = strict_parse(Event, message.data)
    if isinstance(event, Refusal):
        reason = "UNKNOWN_FIELD" if event.reason.endswith("UNKNOWN_FIELD") else "MALFORMED"
        return _Unreadable(reason, event.detail)
    problem = _problem(event, process, name, house)
    return message.data if problem is None else problem


def _problem(event: Event, process: str, name: str, house: House) -> _Unreadable | None:
    if event.version != EVENT_VERSION:
        return _Unreadable("VERSION_UNKNOWN", str(event.version))
    owner = _OWNER_OF_KIND.get(event.kind)
    if owner is None:
        return _Unreadable("KIND_UNKNOWN", event.kind)
    if event.environment not in {"", house.environment}:
        return _Unreadable("ENVIRONMENT_MISMATCH", event.environment)
    if event.source not in house.sources(process, name):
        return _Unreadable("SOURCE_MISMATCH", f"`{event.source}` under {process} {name}")
    if owner not in {process, _ANYBODY}:
        return _Unreadable("KIND_FORBIDDEN", f"`{event.kind}` from a {process}")
    if not is_hex32(event.event_id) or not is_hex32(event.stream) or event.seq == 0:
        return _Unreadable("MALFORMED", "event id, stream or sequence")
    return None


def _read_spend(message: Stored, parts: list[str], house: House) -> tuple[Event | _Unreadable, str]:
    signed = parse_signed(message.data)
    if isinstance(signed, Refusal):
        return _Unreadable("MALFORMED", signed.detail), ""
    record = strict_parse(SpendRecord, signed.payload)
    if isinstance(record, Refusal):
        return _Unreadable("MALFORMED", record.detail), ""
    if len(parts) != 7 or record.WhichOneof("record") != parts[6]:
        return _Unreadable("SUBJECT_MISMATCH", message.subject), ""
    event = _reserved(record) if parts[6] == "reserve" else _outcome(record)
    if isinstance(event, _Unreadable):
        return event, ""
    event.event_id = sha256(message.data).hexdigest()
    event.stream, event.seq = SPEND_STREAM, message.origin_seq
    event.environment, event.tool = house.environment, parts[3]
    signature = VALID
    if (event.spend_id, str(event.round)) != (parts[4], parts[5]):
        signature = "SUBJECT_MISMATCH"
    elif house.keys is None:
        signature = "KEYS_MISSING"
    else:
        signature = _signature(message, house.keys, house)
    return event, signature


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


def _reserved(record: SpendRecord) -> Event | _Unreadable:
    reserve = record.reserve
    decision = strict_parse(Decision, reserve.permit.payload)
    if isinstance(decision, Refusal):
        return _Unreadable("PERMIT_MALFORMED", decision.detail)
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


def _read_ledger(message: Stored, tool: str, house: House) -> Event | _Unreadable:
    change = strict_parse(LedgerChange, message.data)
    if isinstance(change, Refusal):
        return _Unreadable("MALFORMED", change.detail)
    try:
        source = sidecar_id(house.trust_domain, house.environment, tool)
    except ValueError as error:
        return _Unreadable("SUBJECT_UNKNOWN", str(error))
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


def insert_settings(token: str) -> Mapping[str, str]:
    """Return the settings of one insert: format, token, and that it is one block, so all or nothing."""
    return {
        "format_schema_source": "string",
        "format_schema": schema(),
        "format_schema_message_name": "Row",
        "insert_deduplication_token": token,
        "insert_deduplicate": "1",
        "async_insert": "0",
        # A batch that is dropped here must not reach `call_states`: the one that was kept did.
        "deduplicate_blocks_in_dependent_materialized_views": "0",
        "max_insert_block_size": "1048576",
        "min_insert_block_size_rows": "1048576",
        "min_insert_block_size_bytes": str(1 << 30),
        "max_partitions_per_insert_block": "1",
    }


def _us(ms: int) -> int:
    """Milliseconds to microseconds, held within a signed 64-bit number."""
    return max(min(ms * 1000, (1 << 63) - 1), -(1 << 63))


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()[:MAX_DETAIL]


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
