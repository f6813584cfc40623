import uuid
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licet.dsse import PayloadType
from licet.event import (
    ZERO_HASH,
    Checkpoint,
    EventKind,
    checkpoint_payload,
    event_hash,
    read_checkpoint,
    uuid7,
)
from licet.refusal import Reason, Refusal
from licet.strict import canonical
from licet.v1 import event_pb2
from licet.v1.statement_pb2 import Signed
from tests.worlds.permit import KEYS, NOW, signing_key

CHECKPOINT = Checkpoint("source", "a" * 32, 256, sha256(b"tip").digest(), 256, NOW)


def signed(payload: bytes, key: str = "checkpoint", slot: PayloadType = PayloadType.CHECKPOINT) -> Signed:
    return signing_key(key).sign(slot, payload)


@given(st.integers(0, 2**48 - 1), st.binary(min_size=10, max_size=10))
def test_uuid7_is_one_and_sorts_by_time(now_ms: int, random: bytes) -> None:
    text = uuid7(now_ms, random)
    made = uuid.UUID(text)
    assert (made.hex, made.version, made.variant) == (text, 7, uuid.RFC_4122)
    assert made.int >> 80 == now_ms
    assert now_ms == 2**48 - 1 or text < uuid7(now_ms + 1, bytes(10))


@given(st.binary(min_size=10, max_size=10), st.binary(min_size=10, max_size=10))
def test_uuid7_keeps_74_random_bits(one: bytes, other: bytes) -> None:
    def kept(random: bytes) -> tuple[int, int]:
        bits = int.from_bytes(random, "big")
        return bits >> 68, bits & (2**62 - 1)

    assert (uuid7(NOW, one) == uuid7(NOW, other)) is (kept(one) == kept(other))


@pytest.mark.parametrize(
    ("now_ms", "random"), [(0, bytes(9)), (0, bytes(11)), (-1, bytes(10)), (2**48, bytes(10))]
)
def test_uuid7_refuses_what_does_not_fit(now_ms: int, random: bytes) -> None:
    with pytest.raises(ValueError, match="UUIDv7"):
        uuid7(now_ms, random)


def test_event_hash_is_the_one_of_the_protocol() -> None:
    assert event_hash(ZERO_HASH, b"event") == sha256(b"licet-event-v1\0" + bytes(32) + b"event").digest()
    with pytest.raises(ValueError, match="32 bytes"):
        event_hash(b"", b"event")


@given(st.lists(st.binary(max_size=8), min_size=1, max_size=6), st.data())
def test_chain_shows_every_change(events: list[bytes], data: st.DataObject) -> None:
    def tip(chain: list[bytes]) -> bytes:
        last = ZERO_HASH
        for event in chain:
            last = event_hash(last, event)
        return last

    at = data.draw(st.integers(0, len(events) - 1))
    altered = [*events[:at], data.draw(st.binary(max_size=8)), *events[at + 1 :]]
    assert (tip(events) == tip(altered)) is (events == altered)
    assert tip(events) != tip(events[:at] + events[at + 1 :])


def test_kinds_have_two_words_or_are_the_checkpoint() -> None:
    assert all(kind.count(".") == 1 for kind in EventKind if kind is not EventKind.CHECKPOINT)
    assert len(EventKind) == 30


def test_checkpoint_round_trips() -> None:
    assert read_checkpoint(signed(checkpoint_payload(CHECKPOINT)), KEYS, now_ms=NOW) == CHECKPOINT


def _later() -> bytes:
    message = event_pb2.Checkpoint.FromString(checkpoint_payload(CHECKPOINT))
    message.version = 2
    return canonical(message)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (signed(checkpoint_payload(CHECKPOINT), "decider"), Reason.KEY_ROLE),
        (signed(checkpoint_payload(CHECKPOINT), slot=PayloadType.SPEND), Reason.SIGNATURE_INVALID),
        (signed(b"\xff"), Reason.PERMIT_MALFORMED),
        (signed(_later()), Reason.PERMIT_MALFORMED),
        (signed(checkpoint_payload(Checkpoint("source", "a", 1, b"", 1, NOW))), Reason.PERMIT_MALFORMED),
        (signed(checkpoint_payload(Checkpoint("other", "a", 1, ZERO_HASH, 1, NOW))), Reason.PERMIT_MALFORMED),
    ],
)
def test_what_is_no_checkpoint_is_refused(raw: Signed, reason: Reason) -> None:
    refusal = read_checkpoint(raw, KEYS, now_ms=NOW)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is reason
