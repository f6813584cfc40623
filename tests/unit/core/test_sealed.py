"""Sealed payloads: who may open what, for which event, and what becomes of a changed bit."""

from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from hypothesis import given
from hypothesis import strategies as st

from licet.hpke import MAX_NUMBER, public_of, receiver, sender
from licet.keys import KeyRole, KeySet, PublicKey
from licet.revocation import RevocationKind, Revocations
from licet.sealed import (
    MAX_PLAINTEXT_BYTES,
    MAX_SEALED_BYTES,
    Fault,
    Place,
    Unopened,
    address,
    input_payload,
    open_sealed,
    payload_key,
    payload_keys,
    payload_ref,
    read_input,
    read_sealed,
    seal,
)
from licet.strict import canonical
from licet.v1.payload_pb2 import DecisionInput, Sealed
from tests.worlds.payloads import (
    EVENT,
    KEYS,
    NEW,
    NOW,
    OLD,
    PAYLOAD,
    PLACE,
    decision_input,
    envelope,
    key,
    seed,
)

# RFC 9180, appendix A.2.1: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20Poly1305, base mode.
INFO = bytes.fromhex("4f6465206f6e2061204772656369616e2055726e")
EPHEMERAL = bytes.fromhex("f4ec9b33b792c372c1d2c2063507b684ef925b8c75a42dbcbf57d63ccd381600")
RECIPIENT = bytes.fromhex("8057991eef8f1f1af18f4a9491d16a1ce333f695d4db8e38da75975c4478e0fb")
ENC = bytes.fromhex("1afa08d3dec047a643885163f1180476fa7ddb54c6a8029ea33f95796bf2ac4a")
PLAINTEXT = bytes.fromhex("4265617574792069732074727574682c20747275746820626561757479")
CIPHERTEXTS = {
    0: "1c5250d8034ec2b784ba2cfd69dbdb8af406cfe3ff938e131f0def8c8b60b4db21993c62ce81883d2dd1b51a28",
    1: "6b53c051e4199c518de79594e1c4ab18b96f081549d45ce015be002090bb119e85285337cc95ba5f59992dc98c",
    2: "71146bd6795ccc9c49ce25dda112a48f202ad220559502cef1f34271e0cb4b02b4f10ecac6f48c32f878fae86b",
    4: "63357a2aa291f5a4e5f27db6baa2af8cf77427c7c1a909e0b37214dd47db122bb153495ff0b02e9e54a50dbe16",
    255: "18ab939d63ddec9f6ac2b60d61d36a7375d2070c9b683861110757062c52b8880a5f6b3936da9cd6c23ef2a95c",
    256: "7a4a13e9ef23978e2c520fd4d2e757514ae160cd0cd05e556ef692370ca53076214c0c40d4c728d6ed9e727a5b",
}
SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)


@pytest.mark.parametrize("number", CIPHERTEXTS)
def test_the_rfc_s_own_vectors_come_out(number: int) -> None:
    enc, context = sender(EPHEMERAL, public_of(RECIPIENT), INFO)
    aad = f"Count-{number}".encode()
    assert enc == ENC
    assert context.seal(number, aad, PLAINTEXT).hex() == CIPHERTEXTS[number]
    mine = receiver(RECIPIENT, ENC, INFO)
    assert mine is not None
    assert mine.open(number, aad, bytes.fromhex(CIPHERTEXTS[number])) == PLAINTEXT


@given(st.binary(max_size=300), st.binary(max_size=80))
def test_another_implementation_opens_ours_and_we_open_its(plaintext: bytes, info: bytes) -> None:
    enc, context = sender(EPHEMERAL, public_of(RECIPIENT), info)
    private = X25519PrivateKey.from_private_bytes(RECIPIENT)
    assert SUITE.decrypt(enc + context.seal(0, b"", plaintext), private, info) == plaintext
    theirs = SUITE.encrypt(plaintext, X25519PublicKey.from_public_bytes(public_of(RECIPIENT)), info)
    mine = receiver(RECIPIENT, theirs[:32], info)
    assert mine is not None
    assert mine.open(0, b"", theirs[32:]) == plaintext


def test_point_of_small_order_agrees_with_nobody() -> None:
    with pytest.raises(ValueError, match="small order"):
        sender(EPHEMERAL, bytes(32), INFO)
    assert receiver(RECIPIENT, bytes(32), INFO) is None
    assert receiver(RECIPIENT, public_of(EPHEMERAL), INFO) is not None


@pytest.mark.parametrize("length", [0, 31, 33])
def test_key_of_another_length_is_no_key(length: int) -> None:
    for secret, public in ((EPHEMERAL, bytes(length)), (bytes(length), public_of(RECIPIENT))):
        with pytest.raises(ValueError, match="X25519 key has 32 bytes"):
            receiver(secret, public, INFO)
        with pytest.raises(ValueError, match="X25519 key has 32 bytes"):
            sender(secret, public, INFO)


def test_message_shorter_than_its_tag_does_not_open() -> None:
    enc, context = sender(EPHEMERAL, public_of(RECIPIENT), INFO)
    theirs = receiver(RECIPIENT, enc, INFO)
    assert theirs is not None
    empty = context.seal(0, b"", b"")
    assert theirs.open(0, b"", empty) == b""
    assert [theirs.open(0, b"", empty[:length]) for length in range(len(empty))] == [None] * len(empty)


def test_a_context_has_numbers_of_its_own_range() -> None:
    context = envelope().context
    assert context.open(MAX_NUMBER, b"", context.seal(MAX_NUMBER, b"", b"x")) == b"x"
    for number in (-1, MAX_NUMBER + 1):
        with pytest.raises(ValueError, match="no message number"):
            context.seal(number, b"", b"x")


def test_the_tenant_s_own_key_opens_what_was_sealed_for_the_event() -> None:
    sealed = seal(envelope(), 3, EVENT, PAYLOAD)
    frame = read_sealed(sealed)
    assert isinstance(frame, Sealed)
    assert frame.key_id == NEW.key_id
    assert open_sealed(sealed, PLACE, seed(frame.key_id)) == PAYLOAD
    assert PAYLOAD not in sealed


@pytest.mark.parametrize(
    "place",
    [
        replace(PLACE, tenant="t2"),
        replace(PLACE, environment="staging"),
        replace(PLACE, event_id="02" * 16),
        Place("prodt1", "", EVENT),
    ],
    ids=["another tenant", "another environment", "another event", "parts shifted"],
)
def test_payload_put_elsewhere_does_not_open(place: Place) -> None:
    result = open_sealed(seal(envelope(), 0, EVENT, PAYLOAD), place, seed("t1-new"))
    assert isinstance(result, Unopened)
    assert result.fault is Fault.NOT_OPENED


@pytest.mark.parametrize("name", ["t2-only", "t1-old", "decider"])
def test_no_other_key_opens_it(name: str) -> None:
    result = open_sealed(seal(envelope(), 0, EVENT, PAYLOAD), PLACE, seed(name))
    assert isinstance(result, Unopened)
    assert result.fault is Fault.NOT_OPENED


def test_key_id_of_another_key_does_not_make_it_that_key_s() -> None:
    frame = Sealed.FromString(seal(envelope(), 0, EVENT, PAYLOAD))
    frame.key_id = "t1-old"
    result = open_sealed(canonical(frame), PLACE, seed("t1-new"))
    assert isinstance(result, Unopened)
    assert result.fault is Fault.NOT_OPENED


@pytest.mark.parametrize("version", [0, 2])
def test_other_version_is_refused_before_any_key_is_tried(version: int) -> None:
    frame = Sealed.FromString(seal(envelope(), 0, EVENT, PAYLOAD))
    frame.version = version
    result = open_sealed(canonical(frame), PLACE, seed("t1-new"))
    assert isinstance(result, Unopened)
    assert result.fault is Fault.VERSION_UNKNOWN


def test_plain_bytes_are_no_sealed_payload() -> None:
    for raw in (b"", PAYLOAD, canonical(decision_input())):
        result = open_sealed(raw, PLACE, seed("t1-new"))
        assert isinstance(result, Unopened)
        assert result.fault in {Fault.MALFORMED, Fault.VERSION_UNKNOWN}


@given(st.data(), st.binary(max_size=200))
def test_any_changed_bit_keeps_it_closed(data: st.DataObject, payload: bytes) -> None:
    sealed = seal(envelope(), 1, EVENT, payload)
    assert open_sealed(sealed, PLACE, seed("t1-new")) == payload
    at = data.draw(st.integers(0, len(sealed) - 1))
    changed = bytearray(sealed)
    changed[at] ^= 1 << data.draw(st.integers(0, 7))
    assert isinstance(open_sealed(bytes(changed), PLACE, seed("t1-new")), Unopened)
    assert isinstance(open_sealed(sealed[:at], PLACE, seed("t1-new")), Unopened)
    assert payload_ref(bytes(changed)) != payload_ref(sealed)


@given(st.binary(max_size=300))
def test_no_bytes_make_opening_raise(raw: bytes) -> None:
    assert isinstance(open_sealed(raw, PLACE, seed("t1-new")), Unopened)


def in_force(keys: KeySet, tenant: str, now_ms: int, *revoked: str) -> PublicKey | None:
    entries = frozenset((RevocationKind.KEY, key_id) for key_id in revoked)
    owned = payload_keys(keys).get(tenant, ())
    return payload_key(owned, Revocations(1, keys.environment, entries), now_ms=now_ms)


def test_newest_key_in_force_seals_and_the_old_one_still_opens() -> None:
    before, after = in_force(KEYS, "t1", NOW - 1), in_force(KEYS, "t1", NOW)
    assert (before, after) == (OLD, NEW)
    assert before is not None
    sealed = seal(address(before, b"\x01" * 32), 0, EVENT, PAYLOAD)
    assert open_sealed(sealed, PLACE, seed("t1-old")) == PAYLOAD


def test_revoked_key_seals_nothing_more() -> None:
    assert in_force(KEYS, "t1", NOW, "t1-new") == OLD
    assert in_force(KEYS, "t1", NOW, "t1-new", "t1-old") is None
    assert in_force(KEYS, "t1", NOW, "t2-only") == NEW


def test_of_two_keys_that_began_at_once_every_process_takes_the_same() -> None:
    for order in (("t1-b", "t1-a"), ("t1-a", "t1-b")):
        twins = {name: key(name, "t1", -1) for name in order}
        assert in_force(replace(KEYS, keys=twins), "t1", NOW) == twins["t1-b"]


def test_tenant_without_a_key_in_force_has_none() -> None:
    assert in_force(KEYS, "t3", NOW) is None
    assert in_force(KEYS, "t1", NOW + 1_000) is None
    signing = replace(NEW, role=KeyRole.DECIDER)
    assert in_force(replace(KEYS, keys={"t1-new": signing}), "t1", NOW) is None
    staging = replace(NEW, environment="staging")
    assert in_force(replace(KEYS, keys={"t1-new": staging}), "t1", NOW) is None


@pytest.mark.parametrize("changes", [{"role": KeyRole.DECIDER}, {"owner": ""}])
def test_key_that_signs_or_is_nobody_s_seals_nothing(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="no tenant's payload key"):
        address(replace(NEW, **changes), b"\x01" * 32)  # type: ignore[arg-type]


@pytest.mark.parametrize("point", [bytes(32), b"\x01" + bytes(31), bytes(31)])
def test_key_that_is_no_point_of_prime_order_seals_nothing(point: bytes) -> None:
    with pytest.raises(ValueError, match="no point of prime order"):
        address(replace(NEW, public_key=point), b"\x01" * 32)
    assert address(NEW, b"\x01" * 32).tenant == NEW.owner


def test_payload_at_its_limit_is_sealed_and_one_byte_more_is_not() -> None:
    sealed = seal(envelope(), 0, EVENT, bytes(MAX_PLAINTEXT_BYTES))
    assert len(sealed) <= MAX_SEALED_BYTES
    assert open_sealed(sealed, PLACE, seed("t1-new")) == bytes(MAX_PLAINTEXT_BYTES)
    with pytest.raises(ValueError, match="at most"):
        seal(envelope(), 0, EVENT, bytes(MAX_PLAINTEXT_BYTES + 1))
    result = read_sealed(bytes(MAX_SEALED_BYTES + 1))
    assert isinstance(result, Unopened)
    assert result.fault is Fault.TOO_LARGE


def test_payload_is_sealed_for_an_event_or_not_at_all() -> None:
    with pytest.raises(ValueError, match="for an event"):
        seal(envelope(), 0, "", PAYLOAD)


def test_whether_it_was_opened_is_never_asked_by_truth() -> None:
    with pytest.raises(TypeError):
        bool(Unopened(Fault.NOT_OPENED, ""))


def test_secrets_of_an_envelope_are_not_printed() -> None:
    made = envelope()
    assert made.context.key.hex() not in repr(made)
    assert repr(made.context.key) not in repr(made)


def test_decision_input_comes_back_as_it_was() -> None:
    message = decision_input()
    payload = input_payload(message)
    assert read_input(payload) == message
    other = read_input(canonical(DecisionInput(version=2)))
    assert isinstance(other, Unopened)
    assert other.fault is Fault.VERSION_UNKNOWN
    broken = read_input(payload + b"\x00")
    assert isinstance(broken, Unopened)


def test_request_of_five_megabytes_leaves_its_digest_and_a_mark() -> None:
    message = decision_input(bytes(5 << 20))
    message.rule_input.operation = "refund"
    kept = read_input(input_payload(message))
    assert isinstance(kept, DecisionInput)
    assert (kept.request, list(kept.left_out)) == (b"", ["request"])
    assert (kept.request_size, kept.request_sha256) == (5 << 20, message.request_sha256)
    assert kept.rule_input.operation == "refund"
    assert message.request, "the message that was given stays whole"


def test_facts_give_way_after_the_request_and_nothing_else_does() -> None:
    message = decision_input()
    message.rule_input.attributes_json = b'"' + b"x" * MAX_PLAINTEXT_BYTES + b'"'
    kept = read_input(input_payload(message))
    assert isinstance(kept, DecisionInput)
    assert list(kept.left_out) == ["request", "rule_input"]
    assert not kept.HasField("rule_input")
    message.claimed_intent = "x" * MAX_PLAINTEXT_BYTES
    with pytest.raises(ValueError, match="without its request"):
        input_payload(message)
