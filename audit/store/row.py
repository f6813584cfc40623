"""From a stored message to a row of `events`: pure, deterministic, and never an exception for bad bytes.

Guarantees: the same message gives the same bytes, so a batch made twice is one batch; a message that cannot
be a row becomes a row of kind `quarantined` with its bytes and the reason, so sequences stay gapless. A
source can speak for itself only: the subject it published under (which its NATS account fixes) must name
it, and a kind must be one its process may say. Not checked here: chains and checkpoints (the verifier),
whether an event's time is true.

A row on the wire is a protobuf message: the fields of Event under their numbers, then those of `_EXTRA`.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor

from audit.store.batch import Read, read_events, varint
from audit.store.record import read_ledger, read_spend
from audit.store.stored import House, Stored, Unreadable
from licet.event import EVENT_VERSION, EventKind
from licet.refusal import Refusal
from licet.spend import is_hex32
from licet.strict import strict_parse
from licet.v1.event_pb2 import Event

QUARANTINED: Final = "quarantined"
"""Kind of a row whose message could not be read."""

REPEATED: Final = "repeated"
"""Kind of a row whose event is in the store already: a source sends again what it has no ack of."""

MAX_DETAIL: Final = 300

_ANYBODY: Final = frozenset({"anybody"})
_OWNERS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "decision.": frozenset({"decider"}),
        "door.": frozenset({"sidecar"}),
        "finding.": frozenset({"audit"}),
        "key.": frozenset({"decider", "audit"}),
        "spend.": frozenset(),
        "ledger.": frozenset(),
    }
)
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
    (1003, "js_seq", "fixed64"),
    (1004, "js_time_us", "sfixed64"),
    (1005, "batch", "uint64"),
    (1006, "event", "bytes"),
    (1007, "signature", "string"),
)
_NO_COLUMN: Final = frozenset({"version", "checkpoint"})
_RENAMED: Final = {"prev_hash": "prev_hash_raw"}
"""The column is text; the store writes the raw bytes as lower hex."""


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


def _tag(name: str) -> bytes:
    """The bytes before a field's value, or before its length."""
    number, wire = next((number, _WIRE_TYPES[kind]) for number, one, kind in _EXTRA if one == name)
    return varint(number << 3 | wire)


_WIRE_TYPES: Final = {"fixed64": 1, "sfixed64": 1, "bytes": 2}
_NUMBERS: Final = struct.Struct("<2sQ2sq2s")


class Head(NamedTuple):
    """Which event a message of a journal is: its id, who says it, in which run, and its number there."""

    event_id: str
    source: str
    stream: str
    seq: int


def read_heads(messages: Sequence[Stored], house: House) -> list[Head | Unreadable]:
    """Return what each message of a journals' stream is, or why it can be no row."""
    return [
        _read_event(message.subject, event, house)
        for message, event in zip(messages, read_events(messages), strict=True)
    ]


def row(message: Stored, house: House, batch: int, *, repeated: bool = False) -> bytes:
    """Return the row of `message`, length-prefixed; `batch` is the first sequence of its insert.

    `repeated`: the store has this very event already; the row then only keeps its place in the sequence.
    """
    return b"".join(row_parts(message, house, batch, repeated=repeated))


def row_parts(
    message: Stored,
    house: House,
    batch: int,
    *,
    repeated: bool = False,
    head: Head | Unreadable | None = None,
) -> tuple[bytes, ...]:
    """Return the row of `message` in parts, so that a batch is put together once.

    `head`: what `read_heads` says of it, where a journal's message was read already.
    """
    if head.__class__ is Head and not repeated:
        body, signature = message.data, ""
    else:
        fields, signature = _fields(message, house, repeated=repeated, head=head)
        body = fields if isinstance(fields, bytes) else fields.SerializeToString(deterministic=True)
    place = _place(message.stream, message.subject, batch)
    numbers = _NUMBERS.pack(_SEQ_TAG, message.seq, _TIME_TAG, message.time_us, _EVENT_TAG)
    size = varint(len(message.data))
    signed = _signed(signature) if signature else b""
    whole = len(body) + len(place) + len(numbers) + len(size) + len(message.data) + len(signed)
    return varint(whole), body, place, numbers, size, message.data, signed


@lru_cache(maxsize=64)
def _signed(signature: str) -> bytes:
    found: bytes = _Extra(signature=signature).SerializeToString()
    return found


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


def _fields(
    message: Stored, house: House, *, repeated: bool, head: Head | Unreadable | None = None
) -> tuple[bytes | Event, str]:
    fields, signature = _read(message, house, head)
    if isinstance(fields, Unreadable):
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
        first = Event.FromString(fields)
        again = Event(
            event_id=first.event_id,
            source=first.source,
            stream=first.stream,
            seq=first.seq,
            prev_hash=first.prev_hash,
            time_us=first.time_us,
            environment=first.environment,
            kind=REPEATED,
        )
        return again, signature
    return fields, signature


def _read(
    message: Stored, house: House, head: Head | Unreadable | None
) -> tuple[bytes | Event | Unreadable, str]:
    parts = message.subject.split(".")
    if len(parts) >= 5 and parts[0] == "licet" and parts[2] == house.environment:
        if parts[1] == "spend":
            return read_spend(message, parts, house)
        if parts[1] == "ledger":
            return read_ledger(message, parts[3], house), ""
    read = head or _read_event(message.subject, strict_parse(Event, message.data), house)
    return (message.data if isinstance(read, Head) else read), ""


def _read_event(subject: str, event: Read, house: House) -> Head | Unreadable:
    speaker = _speaker(subject, house.environment)
    if speaker is None:
        return Unreadable("SUBJECT_UNKNOWN", subject)
    if isinstance(event, Refusal):
        reason = "UNKNOWN_FIELD" if event.reason.endswith("UNKNOWN_FIELD") else "MALFORMED"
        return Unreadable(reason, event.detail)
    head = Head(event.event_id, event.source, event.stream, event.seq)
    return _problem(event, head, *speaker, house) or head


@lru_cache(maxsize=1024)
def _speaker(subject: str, environment: str) -> tuple[str, str] | None:
    """Return the sort and the name of the process that publishes under a journal's subject."""
    parts = subject.split(".")
    if len(parts) < 5 or parts[:3] != ["licet", "audit", environment]:
        return None
    return parts[3], parts[4]


def _problem(event: Event, head: Head, process: str, name: str, house: House) -> Unreadable | None:
    kind, source, environment = event.kind, head.source, event.environment
    owner = _OWNER_OF_KIND.get(kind)
    if event.version != EVENT_VERSION:
        return Unreadable("VERSION_UNKNOWN", str(event.version))
    if owner is None:
        return Unreadable("KIND_UNKNOWN", kind)
    if environment and environment != house.environment:
        return Unreadable("ENVIRONMENT_MISMATCH", environment)
    if source not in house.sources(process, name):
        return Unreadable("SOURCE_MISMATCH", f"`{source}` under {process} {name}")
    if owner is not _ANYBODY and process not in owner:
        return Unreadable("KIND_FORBIDDEN", f"`{kind}` from a {process}")
    if not is_hex32(head.event_id) or not _is_run(head.stream) or head.seq == 0:
        return Unreadable("MALFORMED", "event id, stream or sequence")
    return None


@lru_cache(maxsize=1024)
def _is_run(stream: str) -> bool:
    return is_hex32(stream)


def insert_settings(token: str) -> Mapping[str, str]:
    """Return the settings of one insert of events: the format, and those of `one_block`."""
    return {
        "format_schema_source": "string",
        "format_schema": schema(),
        "format_schema_message_name": "Row",
        # A batch that is dropped here must not reach `call_states`: the one that was kept did.
        "deduplicate_blocks_in_dependent_materialized_views": "0",
        "optimize_on_insert": "0",  # states of one decision are put together by merges, not by each insert
        **one_block(token),
    }


def one_block(token: str) -> Mapping[str, str]:
    """Return the settings of an insert that is one block, so all or nothing, and kept once by its token."""
    return {
        "insert_deduplication_token": token,
        "insert_deduplicate": "1",
        "async_insert": "0",
        "max_insert_block_size": "1048576",
        "min_insert_block_size_rows": "1048576",
        "min_insert_block_size_bytes": str(1 << 30),
        "max_partitions_per_insert_block": "1",
    }


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()[:MAX_DETAIL]


_SEQ_TAG, _TIME_TAG, _EVENT_TAG = _tag("js_seq"), _tag("js_time_us"), _tag("event")
