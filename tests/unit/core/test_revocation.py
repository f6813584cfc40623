from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licet.refusal import Reason, Refusal
from licet.revocation import (
    NONE,
    REASON_OF_KIND,
    RevocationKind,
    Revocations,
    read_revocations,
    succeeds,
    with_revocations,
)
from licet.v1 import keys_pb2
from licet.v1.statement_pb2 import Signed
from tests.worlds import permit as world
from tests.worlds.permit import ENVIRONMENT, KEYS, NOW

ENTRIES = st.frozensets(st.tuples(st.sampled_from(RevocationKind), st.sampled_from("abcd")), max_size=8)


def read(signed: Signed, environment: str = ENVIRONMENT) -> Revocations | Refusal:
    return read_revocations(signed, KEYS, environment=environment, now_ms=NOW)


def test_list_round_trips() -> None:
    listed = read(world.signed_revocations(3, ("KEY", "decider"), ("TASK", "task_1")))
    assert isinstance(listed, Revocations)
    assert listed.seq == 3
    assert listed.entries == {(RevocationKind.KEY, "decider"), (RevocationKind.TASK, "task_1")}
    assert listed.names(RevocationKind.KEY, "decider")
    assert not listed.names(RevocationKind.TASK, "decider")


def test_kinds_are_those_of_the_wire_and_each_has_a_reason() -> None:
    wire = {name.removeprefix("REVOCATION_KIND_") for name in keys_pb2.RevocationKind.keys()}  # noqa: SIM118
    assert {kind.value for kind in RevocationKind} == wire - {"UNSPECIFIED"}
    assert set(REASON_OF_KIND) == set(RevocationKind)
    assert len(set(REASON_OF_KIND.values())) == len(RevocationKind)


@pytest.mark.parametrize(
    ("signed", "reason"),
    [
        (world.signed_revocations(1, key="beacon"), Reason.KEY_ROLE),
        (world.signed_revocations(1, environment="staging"), Reason.ENVIRONMENT_MISMATCH),
        (world.signed_revocations(1, version=2), Reason.PERMIT_MALFORMED),
        (world.signed_revocations(0), Reason.PERMIT_MALFORMED),
        (world.signed_revocations(1, ("UNSPECIFIED", "x")), Reason.PERMIT_MALFORMED),
        (world.signed_revocations(1, ("TASK", "")), Reason.PERMIT_MALFORMED),
        (world.signed_revocations(1, revocations=[{"kind": 99, "id": "x"}]), Reason.PERMIT_MALFORMED),
        (world.signing_key("decider").sign(world.PayloadType.REVOCATIONS, b"\xff"), Reason.PERMIT_MALFORMED),
        (world.signing_key("decider").sign(world.PayloadType.PERMIT, b""), Reason.SIGNATURE_INVALID),
    ],
)
def test_list_that_is_none_is_refused(signed: Signed, reason: Reason) -> None:
    refusal = read(signed)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is reason


def test_widest_revocation_is_named_first() -> None:
    listed = read(
        world.signed_revocations(1, ("TASK", "task_1"), ("ENVIRONMENT", "prod"), ("TOOL", world.AUDIENCE))
    )
    assert isinstance(listed, Revocations)
    refusal = listed.check(world.decision(), "decider")
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.ENVIRONMENT_STOPPED


@given(ENTRIES)
def test_decision_holds_iff_nothing_it_rests_on_is_revoked(
    entries: frozenset[tuple[RevocationKind, str]],
) -> None:
    decision = world.decision(
        environment="a", audience="b", task_id="a", agent="b", principal="c", delegations=["a", "d"]
    )
    decision.decision_id = "d"
    touched = {
        (RevocationKind.ENVIRONMENT, "a"),
        (RevocationKind.TOOL, "b"),
        (RevocationKind.KEY, "c"),
        (RevocationKind.DECISION, "d"),
        (RevocationKind.TASK, "a"),
        (RevocationKind.AGENT, "b"),
        (RevocationKind.PRINCIPAL, "c"),
        (RevocationKind.DELEGATION, "a"),
        (RevocationKind.DELEGATION, "d"),
    }
    refusal = Revocations(1, "a", entries).check(decision, "c")
    assert (refusal is None) is entries.isdisjoint(touched)


@given(ENTRIES, ENTRIES, st.integers(0, 3), st.integers(0, 3))
def test_lists_only_grow(old: Any, new: Any, before: int, after: int) -> None:
    refusal = succeeds(Revocations(before, "prod", old), Revocations(after, "prod", new))
    grows = after > before and new >= old
    assert (refusal is None) is (grows or (after == before and new == old))


def test_nothing_revoked_touches_nothing() -> None:
    assert NONE.check(world.decision(), "decider") is None


@given(first=ENTRIES, second=ENTRIES, lifted=ENTRIES)
def test_the_list_that_follows_has_all_of_the_last_and_the_new_each_once(
    first: frozenset[tuple[RevocationKind, str]],
    second: frozenset[tuple[RevocationKind, str]],
    lifted: frozenset[tuple[RevocationKind, str]],
) -> None:
    """Nothing is lost on the way from one list to the next but what a new generation lifts by name."""
    empty = keys_pb2.RevocationList(environment=ENVIRONMENT)
    key = world.signing_key("decider")

    def following(
        listed: keys_pb2.RevocationList, **given: Any
    ) -> tuple[Revocations, keys_pb2.RevocationList]:
        payload = with_revocations(listed, given["revoked"], lifted=given.get("lifted", ()), now_ms=NOW)
        message = keys_pb2.RevocationList.FromString(payload)
        found = read(key.sign(world.PayloadType.REVOCATIONS, payload))
        assert isinstance(found, Revocations)
        assert len(message.revocations) == len(found.entries)
        return found, message

    one, message = following(empty, revoked=first)
    two, _ = following(message, revoked=second)
    assert (one.seq, two.seq) == (1, 2)
    assert (one.entries, two.entries) == (first, first | second)
    assert succeeds(one, two) is None
    three, _ = following(message, revoked=second, lifted=lifted)
    assert three.entries == (first - lifted) | second
    assert (succeeds(one, three) is None) == (first <= three.entries)
