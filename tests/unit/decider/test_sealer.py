"""Contexts of the sealer: no number twice, no key past its time, nobody's payload under another's key."""

import logging
from dataclasses import replace
from itertools import count

import pytest

import decider.decision.sealer
from decider.decision.sealer import LIFE_MS, Sealer
from licet.keys import KeySet
from licet.sealed import Place, open_sealed, read_input
from licet.strict import canonical
from licet.v1.payload_pb2 import DecisionInput, Sealed
from tests.worlds.payloads import ENVIRONMENT, EVENT, KEYS, NOW, decision_input, key, seed


def randoms() -> Sealer:
    numbers = count(1)
    return Sealer(lambda size: next(numbers).to_bytes(size, "big"))


def frame(
    sealer: Sealer, tenant: str = "t1", now_ms: int = NOW, keys: KeySet = KEYS, *, crowded: bool = False
) -> Sealed:
    message = decision_input()
    message.tenant, message.decided_at_ms = tenant, now_ms
    found = sealer.key_of(tenant, keys, now_ms=now_ms)
    assert found is not None
    return Sealed.FromString(sealer.sealing(message, found, crowded=crowded)(EVENT))


def test_one_context_serves_many_payloads_each_under_its_own_number() -> None:
    sealer = randoms()
    made = [frame(sealer) for _ in range(5)]
    assert len({one.enc for one in made}) == 1
    assert [one.number for one in made] == [0, 1, 2, 3, 4]
    assert len({one.ciphertext for one in made}) == 5


def test_a_context_ends_with_its_numbers_and_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decider.decision.sealer, "PAYLOADS_EACH", 2)
    sealer = randoms()
    made = [frame(sealer) for _ in range(5)]
    assert [one.number for one in made] == [0, 1, 0, 1, 0]
    assert len({(one.enc, one.number) for one in made}) == 5
    alone = replace(KEYS, keys={"t2-only": key("t2-only", "t2", 0, 2 * LIFE_MS)})
    first, last = (frame(sealer, "t2", NOW + late, alone) for late in (0, LIFE_MS))
    assert first.enc != last.enc


def test_a_number_taken_for_a_payload_that_was_never_stored_is_not_taken_again() -> None:
    sealer = randoms()
    found = sealer.key_of("t1", KEYS, now_ms=NOW)
    assert found is not None
    message = decision_input()
    message.decided_at_ms = NOW
    sealer.sealing(message, found, crowded=False)  # its event could not be spooled
    assert frame(sealer).number == 1


def test_a_new_key_of_the_tenant_takes_over_at_once() -> None:
    sealer = randoms()
    before, after = frame(sealer, now_ms=NOW - 1), frame(sealer)
    assert (before.key_id, after.key_id) == ("t1-old", "t1-new")
    assert before.enc != after.enc
    for one in (before, after):
        assert isinstance(
            open_sealed(canonical(one), Place(ENVIRONMENT, "t1", EVENT), seed(one.key_id)), bytes
        )


def test_tenants_share_no_context() -> None:
    sealer = randoms()
    assert frame(sealer, "t1").enc != frame(sealer, "t2").enc


def test_many_tenants_do_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decider.decision.sealer, "MAX_TENANTS", 2)
    sealer = randoms()
    keys = replace(KEYS, keys={name: key(name, name) for name in ("a", "b", "c")})
    encs = [frame(sealer, name, keys=keys).enc for name in ("a", "b", "c", "a")]
    assert len(set(encs)) == 4
    assert len(sealer._open) == 2


def test_tenant_without_a_key_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    sealer = randoms()
    with caplog.at_level(logging.WARNING):
        assert [sealer.key_of("t3", KEYS, now_ms=NOW) for _ in range(3)] == [None] * 3
    assert [record.message for record in caplog.records] == ["payload.no_key"]


def test_where_room_is_short_the_request_itself_is_left_out() -> None:
    sealer = randoms()
    sealed = canonical(frame(sealer, crowded=True))
    payload = open_sealed(sealed, Place(ENVIRONMENT, "t1", EVENT), seed("t1-new"))
    assert isinstance(payload, bytes)
    message = read_input(payload)
    assert isinstance(message, DecisionInput)
    whole = decision_input()
    assert (message.request, list(message.left_out)) == (b"", ["request"])
    assert (message.request_size, message.request_sha256) == (whole.request_size, whole.request_sha256)
