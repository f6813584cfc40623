"""The negative tests of docs/protocol.md at a real door: NATS, tool process, key set, beacons.

Each asserts the reason its caller sees, exactly one door event with it, the tool's own count of calls and
the ledger; each has its lawful twin. The last test holds the number of events against the number of calls.
"""

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import AsyncIterator
from typing import Any

import nacl.signing
import pytest
import pytest_asyncio

from examples.refund.fin.v1 import finance_pb2
from licet.keyfile import read_secret
from licet.keys import KeyRole, PublicKey
from licet.statement import PayloadType, SigningKey, canonical
from licet.v1 import decision_pb2, keys_pb2, spend_pb2
from licet.v1.statement_pb2 import Signed
from tests.worlds.mint import AGENT, ENVIRONMENT, GET_ORDER, OTHER_AGENT, now_ms, refund, scalar
from tests.worlds.rig import AMOUNT, Rig

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("sidecar_negatives")]

STAGING_KEY = SigningKey.from_seed("decider-staging", b"s" * 32)
OLD_KEY = SigningKey.from_seed("decider-old", b"o" * 32)
SECOND_KEY = SigningKey.from_seed("decider-b", b"b" * 32)
FAR = 1 << 45


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path_factory.mktemp("rig"))
    decider = KeyRole.DECIDER
    rig.mint.add_keys(
        PublicKey("decider-staging", decider, "staging", STAGING_KEY.public_key, 0, FAR),
        PublicKey("decider-old", decider, ENVIRONMENT, OLD_KEY.public_key, 0, now_ms() - 1),
        PublicKey("decider-b", decider, ENVIRONMENT, SECOND_KEY.public_key, 0, FAR),
    )
    rig.word.put(rig.mint.keyset_signed)
    await rig.start(sidecars=2)
    yield rig
    await rig.stop()


async def refused(
    rig: Rig, reason: str, *permits: bytes, order: str, body: bytes | None = None, **rest: Any
) -> None:
    """The call ends with `reason`, in one event, with no call in the tool and nothing in the ledger."""
    calls, before = rig.calls(), rig.refunded(order)
    await rig.mark()
    body = refund(order).SerializeToString() if body is None else body
    assert await rig.call(*permits, body=body, **rest) == reason
    events = await rig.door_events()
    assert [(event.kind, event.reason) for event in events] == [("door.refused", reason)]
    assert (rig.calls(), rig.refunded(order)) == (calls, before)


async def passes(rig: Rig, permit: bytes, *, order: str, body: bytes | None = None, **rest: Any) -> None:
    """The call passes, in one event, with one call in the tool and one change in the ledger."""
    calls = rig.calls()
    await rig.mark()
    body = refund(order).SerializeToString() if body is None else body
    assert await rig.call(permit, body=body, **rest) == "passed"
    events = await rig.door_events()
    assert [(event.kind, event.outcome) for event in events] == [("door.passed", "EXECUTED")]
    assert (rig.calls(), rig.refunded(order)) == (calls + 1, AMOUNT)


def signed_by(key: SigningKey, decision: decision_pb2.Decision) -> bytes:
    return canonical(key.sign(PayloadType.PERMIT, canonical(decision)))


def decision(rig: Rig, order: str, **changes: Any) -> decision_pb2.Decision:
    return decision_pb2.Decision.FromString(Signed.FromString(rig.permit(refund(order), **changes)).payload)


def sign_payload(rig: Rig, payload: bytes) -> bytes:
    return canonical(rig.mint.key("decider").sign(PayloadType.PERMIT, payload))


@pytest.mark.negative(1)
async def test_no_permit(rig: Rig) -> None:
    order = rig.order()
    await refused(rig, "NO_PERMIT", order=order)
    await passes(rig, rig.permit(refund(order)), order=order)


@pytest.mark.negative(2)
async def test_two_permits(rig: Rig) -> None:
    order = rig.order()
    permit = rig.permit(refund(order))
    await refused(rig, "PERMIT_AMBIGUOUS", permit, permit, order=order)
    await passes(rig, permit, order=order)


@pytest.mark.negative(3)
async def test_the_signed_denial_in_the_permits_place(rig: Rig) -> None:
    order = rig.order()
    denied = decision(rig, order, decision=decision_pb2.DECISION_TYPE_DENY)
    denial = canonical(rig.mint.key("decider").sign(PayloadType.DECISION, canonical(denied)))
    await refused(rig, "SIGNATURE_INVALID", denial, order=order)
    await passes(rig, rig.permit(refund(order)), order=order)


@pytest.mark.negative(4)
async def test_a_signature_over_the_bare_payload(rig: Rig) -> None:
    order = rig.order()
    payload = canonical(decision(rig, order))
    bare = nacl.signing.SigningKey(read_secret(rig.mint.keys_dir / "decider.key")).sign(payload).signature
    forged = canonical(Signed(payload=payload, signature=bare, key_id="decider"))
    await refused(rig, "SIGNATURE_INVALID", forged, order=order)
    await passes(rig, sign_payload(rig, payload), order=order)


@pytest.mark.negative(5)
@pytest.mark.parametrize("key", ["beacon", "checkpoint-audit", "approver-lena", "spend-finance", "catalog"])
async def test_a_key_of_another_role_signs_a_permit(rig: Rig, key: str) -> None:
    order = rig.order()
    await refused(rig, "KEY_ROLE", signed_by(rig.mint.key(key), decision(rig, order)), order=order)
    await passes(rig, signed_by(rig.mint.key("decider"), decision(rig, order)), order=order)


@pytest.mark.negative(6)
@pytest.mark.parametrize("key", [STAGING_KEY, OLD_KEY], ids=["of another environment", "past its validity"])
async def test_a_key_that_does_not_hold_here_and_now(rig: Rig, key: SigningKey) -> None:
    order = rig.order()
    await refused(rig, "KEY_SCOPE", signed_by(key, decision(rig, order)), order=order)
    await passes(rig, signed_by(rig.mint.key("decider"), decision(rig, order)), order=order)


@pytest.mark.negative(8)
async def test_an_unknown_field_in_a_signed_permit(rig: Rig) -> None:
    order = rig.order()
    lawful = decision(rig, order)
    top = canonical(lawful) + b"\xfa\x3f\x01x"
    nested = decision_pb2.Decision.FromString(canonical(lawful))
    nested.preconditions[0].expect.MergeFromString(b"\xfa\x3f\x01x")
    for payload in (top, nested.SerializeToString(deterministic=True)):
        await refused(rig, "PERMIT_UNKNOWN_FIELD", sign_payload(rig, payload), order=order)
    await passes(rig, sign_payload(rig, canonical(lawful)), order=order)


@pytest.mark.negative(9)
@pytest.mark.parametrize(
    "number", [0, int(decision_pb2.DECISION_TYPE_DENY), int(decision_pb2.DECISION_TYPE_HOLD), 99]
)
async def test_a_correctly_typed_permit_that_lets_nothing_through(rig: Rig, number: int) -> None:
    order = rig.order()
    await refused(rig, "DECISION_INVALID", rig.permit(refund(order), decision=number), order=order)
    await passes(rig, rig.permit(refund(order)), order=order)


@pytest.mark.negative(10)
@pytest.mark.parametrize(
    "path",
    [
        "fin.v1.Finance/IssueRefund",
        "//fin.v1.Finance/IssueRefund",
        "/fin.v1.Finance/IssueRefund?x=1",
        "/fin.v1.Finance/IssueRefund/",
        "/fin.v1.Finance/issuerefund",
    ],
)
async def test_another_spelling_of_the_path(rig: Rig, path: str) -> None:
    order = rig.order()
    permit = rig.permit(refund(order))
    await refused(rig, "METHOD_UNKNOWN", permit, order=order, path=path)
    await passes(rig, permit, order=order)


@pytest.mark.negative(11)
async def test_a_permit_of_another_environment(rig: Rig) -> None:
    order = rig.order()
    await refused(rig, "ENVIRONMENT_MISMATCH", rig.permit(refund(order), environment="staging"), order=order)
    await passes(rig, rig.permit(refund(order)), order=order)


@pytest.mark.negative(12)
async def test_a_permit_for_the_same_method_of_another_tool(rig: Rig) -> None:
    order = rig.order()
    other = "spiffe://licet.local/dev/tool/other"
    await refused(rig, "AUDIENCE_MISMATCH", rig.permit(refund(order), audience=other), order=order)
    await passes(rig, rig.permit(refund(order)), order=order)


@pytest.mark.negative(13)
async def test_one_tenants_permit_for_another_tenants_order(rig: Rig) -> None:
    order, calls = "O4", rig.calls()
    await rig.mark()
    assert (
        await rig.call(rig.permit(refund(order)), body=refund(order).SerializeToString())
        == "PRECONDITION_FAILED"
    )
    events = await rig.door_events()
    assert [(event.kind, event.reason, event.outcome) for event in events] == [
        ("door.passed", "PRECONDITION_FAILED", "FAILED_NO_EFFECT")
    ]
    assert (rig.calls(), rig.refunded(order)) == (calls + 1, 0)
    checks = [{"check": "order.tenant", "expect": scalar("t2")}]
    await passes(rig, rig.permit(refund(order), tenant="t2", preconditions=checks), order=order)


@pytest.mark.negative(14)
async def test_another_agent_presents_it(rig: Rig) -> None:
    order = rig.order()
    permit = rig.permit(refund(order))
    await refused(rig, "CALLER_MISMATCH", permit, order=order, identity=OTHER_AGENT)
    await refused(rig, "CALLER_MISMATCH", permit, order=order, identity=f"{AGENT}/2")
    await passes(rig, permit, order=order, identity=AGENT)


@pytest.mark.negative(16)
async def test_an_appended_amount_that_would_merge(rig: Rig) -> None:
    order = rig.order()
    body = refund(order).SerializeToString()
    more = finance_pb2.IssueRefundRequest(amount=finance_pb2.Amount(minor=9_999)).SerializeToString()
    permit = rig.permit(refund(order))
    await refused(rig, "DIGEST_MISMATCH", permit, order=order, body=body + more)
    await passes(rig, permit, order=order, body=body)


@pytest.mark.negative(17)
@pytest.mark.parametrize("where", ["top", "nested", "map entry"])
async def test_an_unknown_field_in_the_arguments(rig: Rig, where: str) -> None:
    order = rig.order()
    request = refund(order, notes={"ana": finance_pb2.Note(text="late")})
    permit = rig.permit(request)
    body = request.SerializeToString(deterministic=True)
    unknown = b"\xfa\x3f\x01x"
    if where == "top":
        bad = body + unknown
    elif where == "nested":
        bad = finance_pb2.IssueRefundRequest.FromString(body)
        bad.amount.MergeFromString(unknown)
        bad = bad.SerializeToString(deterministic=True)
    else:
        plain = refund(order).SerializeToString()
        note = finance_pb2.Note(text="late").SerializeToString()
        entry = b"\x0a\x03ana\x12" + bytes([len(note)]) + note + unknown
        bad = plain + b"\x2a" + bytes([len(entry)]) + entry
    await refused(rig, "UNKNOWN_FIELD", permit, order=order, body=bad)
    await passes(rig, permit, order=order, body=body)


@pytest.mark.negative(18)
async def test_absent_is_not_explicitly_empty(rig: Rig) -> None:
    order = rig.order()
    absent, empty = refund(order), refund(order, memo="")
    await refused(rig, "DIGEST_MISMATCH", rig.permit(absent), order=order, body=empty.SerializeToString())
    await refused(rig, "DIGEST_MISMATCH", rig.permit(empty), order=order, body=absent.SerializeToString())
    await passes(rig, rig.permit(empty), order=order, body=empty.SerializeToString())


@pytest.mark.negative(19)
async def test_another_wire_form_of_the_same_values_passes(rig: Rig) -> None:
    """Overlong tag, map order, unpacked list: the digest is of the values, and the tool gets our own
    encoding.
    """
    order = rig.order()
    notes = {"ana": finance_pb2.Note(text="a"), "ben": finance_pb2.Note(text="b")}
    request = refund(order, notes=notes, lines=[1, 2])
    plain = refund(order).SerializeToString()
    overlong = b"\x8a\x00" + plain[1:]
    entries = [
        b"\x0a\x03" + name + b"\x12\x03\x0a\x01" + text for name, text in ((b"ben", b"b"), (b"ana", b"a"))
    ]
    maps = b"".join(b"\x2a" + bytes([len(entry)]) + entry for entry in entries)
    body = b"\x30\x01" + overlong + maps + b"\x30\x02"
    assert finance_pb2.IssueRefundRequest.FromString(body) == request
    assert body != request.SerializeToString(deterministic=True)
    await passes(rig, rig.permit(request), order=order, body=body)


@pytest.mark.negative(22)
async def test_the_same_permit_at_two_replicas_at_once(rig: Rig) -> None:
    calls = rig.calls()
    await rig.mark()
    rounds = 200
    for _ in range(rounds):
        order = rig.order()
        body, permit = refund(order).SerializeToString(), rig.permit(refund(order))
        answers = await asyncio.gather(
            *(rig.call(permit, body=body, sidecar=sidecar) for sidecar in rig.sidecars)
        )
        assert sorted(answers) == ["SPENT", "passed"]
        assert rig.refunded(order) == AMOUNT
    assert rig.calls() == calls + rounds
    events = await rig.door_events(2 * rounds)
    assert sum(event.kind == "door.passed" for event in events) == rounds
    assert sum(event.reason == "SPENT" for event in events) == rounds


@pytest.mark.negative(32)
async def test_a_new_permit_for_a_step_that_was_executed(rig: Rig) -> None:
    """A restored checkpoint, a retry after a lost reply, a parallel branch: the same call id, a new
    decision.
    """
    order = rig.order()
    call_id = f"call-{order}"
    await passes(rig, rig.permit(refund(order), call_id=call_id), order=order)
    await refused(rig, "SPENT", rig.permit(refund(order), call_id=call_id), order=order)
    other = rig.order()
    await refused(rig, "SPENT", rig.permit(refund(other), call_id=call_id), order=other)
    await passes(rig, rig.permit(refund(other), call_id=f"call-{other}"), order=other)


@pytest.mark.negative(23)
async def test_a_spent_permit_after_every_sidecar_restarted_with_an_empty_disk(rig: Rig) -> None:
    order = rig.order()
    permit = rig.permit(refund(order))
    await passes(rig, permit, order=order)
    for sidecar in rig.sidecars:
        assert await sidecar.stop() == 0
    rig.sidecars.clear()
    for _ in range(2):
        await rig.add_sidecar()
    await refused(rig, "SPENT", permit, order=order)
    await refused(rig, "SPENT", permit, order=order, sidecar=rig.sidecars[1])
    await passes(rig, rig.permit(refund(fresh := rig.order())), order=fresh)


@contextlib.contextmanager
def locked_ledger(rig: Rig) -> Any:
    """Hold the ledger's write lock: the tool's transaction waits for it."""
    book = sqlite3.connect(rig.ledger, isolation_level=None, timeout=30)
    book.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        book.execute("ROLLBACK")
        book.close()


@pytest.mark.negative(33)
async def test_the_caller_cancels_after_the_reserve(rig: Rig) -> None:
    order = rig.order()
    lawful = decision(rig, order)
    permit = sign_payload(rig, canonical(lawful))
    calls = rig.calls()
    await rig.mark()
    with locked_ledger(rig):
        call = asyncio.create_task(rig.call(permit, body=refund(order).SerializeToString()))
        await rig.until(lambda: rig.calls() == calls + 1)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await asyncio.sleep(0.1)
    committed = time.monotonic()
    await rig.until(lambda: rig.refunded(order) == AMOUNT)
    records = await rig.spends(lawful.spend_id)
    while len(records) < 2 and time.monotonic() < committed + 2:
        records = await rig.spends(lawful.spend_id)
    assert [record.WhichOneof("record") for record in records] == ["reserve", "outcome"]
    assert records[1].outcome.outcome == spend_pb2.OUTCOME_EXECUTED
    events = await rig.door_events()
    assert [(event.kind, event.outcome) for event in events] == [("door.passed", "EXECUTED")]
    await refused(rig, "SPENT", permit, order=order)
    await passes(rig, rig.permit(refund(fresh := rig.order())), order=fresh)


@pytest.mark.negative(34)
async def test_a_new_bundle_between_decision_and_call(rig: Rig) -> None:
    order = rig.order()
    old = rig.permit(refund(order))
    newer = rig.permit(
        refund(order), bundle_version=rig.mint.bundle_version + 1, config_seq=rig.mint.config_seq + 1
    )
    rig.publishing = False
    started = time.monotonic()
    await refused(rig, "BEACON_BEHIND", newer, order=order)
    assert time.monotonic() - started > 1.0
    rig.publishing = True
    rig.mint.bundle_version += 1
    rig.mint.config_seq += 1
    waiting = asyncio.create_task(rig.call(newer, body=refund(order).SerializeToString()))
    await rig.mark()
    assert await waiting == "passed"
    await rig.until(lambda: all(_bundle(sidecar) == rig.mint.bundle_version for sidecar in rig.sidecars))
    other = rig.order()
    await rig.door_events()
    await refused(rig, "BUNDLE_SUPERSEDED", old, order=order)
    await passes(rig, rig.permit(refund(other)), order=other)


def _bundle(sidecar: Any) -> int:
    return int(sidecar._knowledge.held().beacon.bundle_version)


@pytest.mark.negative(31)
async def test_a_beacon_that_is_frozen_or_replayed(rig: Rig) -> None:
    order = rig.order()
    frozen = rig.mint.beacon()
    rig.publishing, rig.word.silent = False, True
    replaying = asyncio.create_task(_replay(rig, frozen))
    await asyncio.sleep(5.3)
    await refused(rig, "BEACON_STALE", rig.permit(refund(order)), order=order)
    body = finance_pb2.GetOrderRequest(order_id=order).SerializeToString()
    assert await rig.call(rig.mint.permit(GET_ORDER, body), body=body, path=GET_ORDER) == "passed"
    assert rig.sidecars[0].reasons()["beacon"].startswith("the beacon is ")
    assert await rig.events("beacon.stale", 2)
    replaying.cancel()
    rig.publishing, rig.word.silent = True, False
    await rig.until(lambda: not any(rig.sidecars[0].reasons().values()))
    await passes(rig, rig.permit(refund(order)), order=order)


async def _replay(rig: Rig, beacon: Signed) -> None:
    while True:
        await rig.publish_beacon(beacon)
        await asyncio.sleep(0.2)


@pytest.mark.negative(29)
async def test_a_store_whose_settings_are_not_safe(rig: Rig) -> None:
    order = rig.order()
    rig.word.beacon |= {"store_safe": False}
    await rig.until(lambda: all("not safe" in one.reasons()["store"] for one in rig.sidecars))
    await refused(rig, "STORE_UNSAFE", rig.permit(refund(order)), order=order)
    assert await rig.events("store.unsafe", 2)
    del rig.word.beacon["store_safe"]
    await rig.until(lambda: not any(any(one.reasons().values()) for one in rig.sidecars))
    await passes(rig, rig.permit(refund(order)), order=order)


@pytest.mark.negative(30)
async def test_nats_is_away(rig: Rig) -> None:
    order = rig.order()
    calls = rig.calls()
    await rig.mark()
    await asyncio.to_thread(rig.nats.kill)
    permit = rig.permit(refund(order), not_after_ms=now_ms() + 3_000)
    assert await rig.call(permit, body=refund(order).SerializeToString(), timeout=20) == "STORE_UNAVAILABLE"
    assert (rig.calls(), rig.refunded(order)) == (calls, 0)
    body = finance_pb2.GetOrderRequest(order_id=order).SerializeToString()
    assert await rig.call(rig.mint.permit(GET_ORDER, body), body=body, path=GET_ORDER) == "passed"
    await asyncio.to_thread(rig.nats.start)
    await rig.until(lambda: not any(any(one.reasons().values()) for one in rig.sidecars))
    events = await rig.door_events(2, within_s=15)
    assert [(event.kind, event.reason) for event in events] == [
        ("door.refused", "STORE_UNAVAILABLE"),
        ("door.passed", ""),
    ]
    fresh = rig.order()
    await passes(rig, rig.permit(refund(fresh)), order=fresh)


@pytest.mark.negative(7)
async def test_a_revoked_key(rig: Rig) -> None:
    order = rig.order()
    await passes(rig, signed_by(SECOND_KEY, decision(rig, order)), order=order)
    entry = keys_pb2.Revocation(kind=keys_pb2.REVOCATION_KIND_KEY, id="decider-b", revoked_at_ms=now_ms())
    listed = keys_pb2.RevocationList(
        version=1, revocations_seq=1, environment=ENVIRONMENT, revocations=[entry]
    )
    signed = rig.mint.key("decider").sign(PayloadType.REVOCATIONS, canonical(listed))
    rig.mint.config_seq += 1
    rig.word.beacon |= {"revocations_seq": 1, "revocations_sha256": rig.word.put(signed)}
    await rig.until(
        lambda: all(one._knowledge.state().revocations.seq == 1 for one in rig.sidecars)  # type: ignore[union-attr]
    )
    other = rig.order()
    await refused(rig, "KEY_REVOKED", signed_by(SECOND_KEY, decision(rig, other)), order=other)
    await passes(rig, rig.permit(refund(other)), order=other)


async def test_every_call_left_exactly_one_door_event(rig: Rig) -> None:
    assert await rig.all_door_events(rig.made) == rig.made
