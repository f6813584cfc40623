"""Rows: any bytes become one, the same bytes each time, and nothing they hold reaches another field."""

from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from audit.store.batch import GROUP, read_events
from audit.store.row import COLUMNS, QUARANTINED, read_columns, row, schema
from audit.store.stored import House, Stored
from licet.event import EventKind
from licet.strict import strict_parse
from licet.v1.event_pb2 import Event

HOUSE = House("dev", "licet.local", None)
DECIDER = "spiffe://licet.local/dev/decider"
SUBJECTS = [
    "licet.audit.dev.decider.main",
    "licet.audit.dev.sidecar.finance",
    "licet.audit.dev.audit.reconciler",
    f"licet.spend.dev.finance.{'ab' * 16}.0.reserve",
    f"licet.spend.dev.finance.{'ab' * 16}.0.outcome",
    "licet.ledger.dev.finance.7",
    "licet.ledger.dev.Not A Token.7",
    "licet.audit.prod.decider.main",
    "other",
    "",
]


def event(**changed: object) -> bytes:
    fields: dict[str, object] = {
        "version": 1, "event_id": "0a" * 16, "source": DECIDER, "stream": "0b" * 16, "seq": 1,
        "prev_hash": bytes(32), "time_us": 1, "kind": "decision.denied", "environment": "dev",
    }  # fmt: skip
    return Event(**{**fields, **changed}).SerializeToString(deterministic=True)  # type: ignore[arg-type]


def parse(raw: bytes) -> object:
    """Read a row as ClickHouse does: by the schema that an insert sends."""
    size, shift = 0, 0
    for index, byte in enumerate(raw):
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            body = raw[index + 1 :]
            break
    assert len(body) == size
    types = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="row.proto", syntax="proto3")
    message = file.message_type.add(name="Row")
    for line in schema().splitlines()[2:-1]:
        *label, kind, name, _, number = line.strip().rstrip(";").split(" ")
        message.field.add(
            name=name,
            number=int(number),
            type=types.Type.Value(f"TYPE_{kind.upper()}"),
            label=types.LABEL_REPEATED if label else types.LABEL_OPTIONAL,
        )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Row")).FromString(body)


@given(st.binary(max_size=400), st.sampled_from(SUBJECTS), st.integers(1, 2**64 - 1), st.booleans())
def test_any_bytes_become_a_row_that_keeps_them(data: Any, subject: Any, seq: Any, repeated: Any) -> None:
    message = Stored("S", subject, seq, 5, data, origin_seq=1)
    found = parse(row(message, HOUSE, 1, repeated=repeated))
    assert (found.event, found.js_seq, found.js_stream, found.batch) == (data, seq, "S", 1)
    assert row(message, HOUSE, 1, repeated=repeated) == row(message, HOUSE, 1, repeated=repeated)


@given(st.data())
def test_changed_event_is_read_quarantined_or_differs_in_its_bytes(data: Any) -> None:
    raw = bytearray(event(resource="order:O1", amount_minor=5000, rule_ids=["r"]))
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] ^= data.draw(st.integers(1, 255))
    message = Stored("S", SUBJECTS[0], 1, 5, bytes(raw))
    columns = read_columns(message, HOUSE, repeated=False)
    assert columns["event"] == bytes(raw)
    if columns["kind"] != QUARANTINED:
        assert Event.FromString(bytes(raw)).SerializeToString(deterministic=True) == bytes(raw)


def test_columns_are_what_the_row_says() -> None:
    message = Stored("S", SUBJECTS[0], 1, 5, event(delegations=["a", "b"], amount_minor=-1, tier=3))
    found, columns = parse(row(message, HOUSE, 9)), read_columns(message, HOUSE, repeated=False)
    for name in COLUMNS:
        if name == "prev_hash_raw":
            assert found.prev_hash_raw.hex() == columns["prev_hash"]
        elif name != "batch":
            value = getattr(found, name)
            assert (list(value) if isinstance(columns[name], list) else value) == columns[name]


def test_event_cannot_carry_the_fields_that_the_writer_adds() -> None:
    smuggled = event() + b"\xda\x3e\x05prod!"  # field 1003 and others are the writer's
    for number in range(1001, 1008):
        tag = number << 3 | 2
        extra = bytes([tag & 0x7F | 0x80, tag >> 7]) + b"\x01x"
        columns = read_columns(Stored("S", SUBJECTS[0], 1, 5, event() + extra), HOUSE, repeated=False)
        assert columns["kind"] == QUARANTINED
    assert (
        read_columns(Stored("S", SUBJECTS[0], 1, 5, smuggled), HOUSE, repeated=False)["kind"] == QUARANTINED
    )
    assert (
        read_columns(Stored("S", SUBJECTS[0], 1, 5, event()), HOUSE, repeated=False)["kind"]
        == "decision.denied"
    )


SPEAKERS = {
    "decider": ("licet.audit.dev.decider.main", DECIDER),
    "sidecar": ("licet.audit.dev.sidecar.finance", "spiffe://licet.local/dev/sidecar/finance"),
    "audit": ("licet.audit.dev.audit.reconciler", "spiffe://licet.local/dev/reconciler"),
    "operator": ("licet.audit.dev.operator.ana", "spiffe://licet.local/dev/operator/ana"),
}
OWNERS = {
    "decision": {"decider"},
    "door": {"sidecar"},
    "finding": {"audit"},
    "key": {"decider", "audit"},
    "spend": set(),
    "ledger": set(),
}


@pytest.mark.parametrize("kind", [str(kind) for kind in EventKind])
@pytest.mark.parametrize("speaker", SPEAKERS)
def test_each_kind_is_taken_from_those_alone_who_may_say_it(kind: Any, speaker: Any) -> None:
    subject, source = SPEAKERS[speaker]
    columns = read_columns(Stored("S", subject, 1, 5, event(kind=kind, source=source)), HOUSE, repeated=False)
    allowed = speaker in OWNERS.get(kind.partition(".")[0], set(SPEAKERS))
    assert (columns["kind"] == kind) is allowed
    if not allowed:
        assert columns["reason"] == "KIND_FORBIDDEN"


@pytest.mark.parametrize("speaker", SPEAKERS)
def test_source_under_another_ones_subject_is_quarantined(speaker: Any) -> None:
    subject, _ = SPEAKERS[speaker]
    for other, (_, source) in SPEAKERS.items():
        columns = read_columns(
            Stored("S", subject, 1, 5, event(kind="checkpoint", source=source)), HOUSE, repeated=False
        )
        assert (columns["reason"] == "SOURCE_MISMATCH") is (other != speaker)


GOOD = event(summary="Refund")
BODIES = st.sampled_from(
    [
        GOOD,
        event(seq=2, rule_ids=["a", "b"]),
        b"",
        b"no event",
        GOOD[:-1],  # ends too soon: what follows must not become a part of it
        GOOD + b"\x0a\x02\x08\x01",  # a whole event of another length, in the place of a field
        GOOD + b"\xf8\xff\x01\x01",  # a field that nobody knows
        GOOD + GOOD,
        b"\x10\x01" + GOOD,
        event(detail="\u00e9" * 300),
    ]
)


@given(st.lists(BODIES, max_size=6), st.booleans())
def test_events_read_together_are_what_each_is_alone(bodies: list[bytes], many: bool) -> None:
    """A forged message in a batch changes nothing of those before and after it."""
    bodies = [GOOD] * (GROUP - 2) * many + bodies
    messages = [Stored("LICET_AUDIT_dev", SUBJECTS[0], n, 1, body) for n, body in enumerate(bodies, 1)]
    assert list(read_events(messages)) == [strict_parse(Event, body) for body in bodies]
