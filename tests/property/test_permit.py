"""Properties of permits, beacons and revocations: what is read is what was signed, and the door only ever
narrows.
"""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from licet.beacon import Beacon, HeldBeacon, beacon_payload, read_beacon, succeeds
from licet.dsse import PayloadType
from licet.hold import open_requirements, read_approval
from licet.permit import Permit, examine, verify_permit
from licet.refusal import Refusal
from licet.revocation import RevocationKind, Revocations
from tests.worlds import permit as world
from tests.worlds.permit import DOOR, ENVIRONMENT, KEYS, NOW, REFUND, at_door

TEXT = st.text(max_size=8)
NAME = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=12)
UINT = st.integers(0, 2**64 - 1)
INT = st.integers(-(2**63), 2**63 - 1)
SCALAR = st.one_of(
    INT.map(lambda value: {"integer": value}),
    UINT.map(lambda value: {"unsigned": value}),
    TEXT.map(lambda value: {"text": value}),
    st.booleans().map(lambda value: {"flag": value}),
    st.binary(max_size=4).map(lambda value: {"data": value}),
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "tenant": TEXT,
        "principal": TEXT,
        "caller": TEXT,
        "agent": TEXT,
        "task_id": NAME,
        "call_id": NAME,
        "round": st.integers(0, 2**32 - 1),
        "delegations": st.lists(TEXT, max_size=3),
        "resource": TEXT,
        "preconditions": st.lists(
            st.fixed_dictionaries({"check": st.text(min_size=1, max_size=4), "expect": SCALAR}), max_size=3
        ),
        "bundle_version": UINT,
        "rule_ids": st.lists(TEXT, max_size=3),
        "config_seq": UINT,
        "reason": TEXT,
        "generation": UINT,
        "issued_at_ms": INT,
        "not_after_ms": INT,
        "spends": st.booleans(),
        "obligations": st.lists(
            st.fixed_dictionaries(
                {"id": st.text(min_size=1, max_size=4), "paths": st.lists(TEXT, max_size=2)}
            ),
            max_size=2,
        ),
        "traceparent": TEXT,
    },
)
ENTRIES = st.frozensets(
    st.tuples(
        st.sampled_from(RevocationKind),
        st.sampled_from(["prod", world.AUDIENCE, "decider", "task_1", "support", "user-1", "d1", "x"]),
    ),
    max_size=4,
)
SMALL = st.integers(0, 2)


@st.composite
def beacons(draw: st.DrawFn) -> Beacon:
    seq = draw(SMALL)
    return world.beacon(
        config_seq=draw(SMALL),
        generation=draw(SMALL),
        bundle_version=draw(SMALL),
        keyset_version=draw(SMALL),
        revocations_seq=seq,
        revocations_sha256=draw(st.sampled_from([bytes(32), b"\1" * 32])) if seq else b"",
        bundle_sha256=draw(st.sampled_from([bytes(32), b"\1" * 32])),
    )


@given(FIELDS)
def test_permit_that_verifies_is_the_decision_that_was_signed(fields: dict[str, Any]) -> None:
    made = world.decision(**fields)
    assert verify_permit(world.sign(made), KEYS, now_ms=NOW) == made


@given(FIELDS)
def test_what_passes_is_of_this_caller_place_and_time_whatever_else_was_signed(
    fields: dict[str, Any],
) -> None:
    made = world.decision(**fields)
    result = at_door(world.presented(REFUND, world.sign(made)))
    if isinstance(result, Permit):
        assert made.caller == world.AGENT
        assert made.resource == "order:O1"
        assert made.issued_at_ms <= NOW + 1_000
        assert NOW < made.not_after_ms <= made.issued_at_ms + 60_000
        assert (made.generation, made.bundle_version) == (1, 12)
        assert made.config_seq <= 7
        assert made.spends
        assert {one.id for one in made.obligations} <= {"mask_reply"}


@given(ENTRIES, ENTRIES)
def test_more_revocations_never_let_more_through(some: Any, more: Any) -> None:
    fewer = replace(DOOR, revocations=Revocations(1, ENVIRONMENT, some))
    all_ = replace(DOOR, revocations=Revocations(1, ENVIRONMENT, some | more))
    if isinstance(at_door(world.presented(), fewer), Refusal):
        assert isinstance(at_door(world.presented(), all_), Refusal)


@given(st.integers(0, 100_000), st.integers(0, 100_000))
def test_what_is_refused_for_its_age_stays_refused(one: int, other: int) -> None:
    """Neither a permit nor a beacon becomes good again by waiting."""

    def refused(later: int) -> bool:
        result = examine(world.presented(), DOOR, now_ms=NOW + later, monotonic_ms=NOW + later)
        return isinstance(result, Refusal)

    first, second = sorted((one, other))
    assert refused(second) or not refused(first)


@given(st.integers(-1_000, 60_000), st.integers(0, 90_000), st.integers(-100_000, 100_000))
def test_turning_the_wall_clock_makes_no_beacon_younger(lag: int, since: int, turned: int) -> None:
    held = HeldBeacon.received(world.beacon(issued_at_ms=NOW - lag), now_ms=NOW, monotonic_ms=0)
    door = replace(DOOR, beacon=held)
    made = world.decision(issued_at_ms=NOW + turned, not_after_ms=NOW + turned + 60_000)
    result = examine(world.presented(REFUND, world.sign(made)), door, now_ms=NOW + turned, monotonic_ms=since)
    if isinstance(result, Permit):
        assert since + max(0, lag) <= 5_000


@given(beacons())
def test_beacon_round_trips(beacon: Beacon) -> None:
    signed = world.signing_key("beacon").sign(PayloadType.BEACON, beacon_payload(beacon))
    assert read_beacon(signed, KEYS, environment=ENVIRONMENT, now_ms=NOW) == beacon


@given(st.lists(beacons(), max_size=8))
def test_no_sequence_of_beacons_takes_a_door_back(offered: list[Beacon]) -> None:
    held: Beacon | None = None
    contents: dict[tuple[int, int], tuple[bytes, bytes]] = {}
    for beacon in offered:
        if succeeds(held, beacon) is not None:
            continue
        if held is not None:
            assert (beacon.generation, beacon.config_seq) >= (held.generation, held.config_seq)
            if beacon.generation == held.generation:
                assert beacon.revocations_seq >= held.revocations_seq
                assert beacon.keyset_version >= held.keyset_version
                assert beacon.bundle_version >= held.bundle_version
        content = (beacon.bundle_sha256, beacon.revocations_sha256)
        assert contents.setdefault((beacon.generation, beacon.config_seq), content) == content
        held = beacon


@given(
    st.lists(st.sampled_from([("ada", "lead"), ("bob", "lead"), ("bob", "security"), ("cyd", "security")]))
)
def test_one_more_vote_never_opens_a_requirement_again(cast: list[tuple[str, str]]) -> None:
    held = world.hold(world.wipe_decision())
    votes: list[Any] = []
    still = {need.rule_id for need in world.REQUIREMENTS}
    for approver, role in cast:
        vote = read_approval(
            world.proof(held, world.approval(held, approver, role)), KEYS, environment=ENVIRONMENT, now_ms=NOW
        )
        votes.append(vote)
        now = {need.rule_id for need in open_requirements(votes)}
        assert now <= still
        still = now
