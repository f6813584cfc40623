"""The chain of a run: whatever is done to it between two checkpoints is named."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from audit.proof.chain import (
    AHEAD_US,
    CHECKPOINT_EVERY,
    LATE_US,
    SILENCE_US,
    Link,
    Problem,
    ProblemKind,
    Run,
    Trust,
)
from licet.event import ZERO_HASH, Checkpoint, EventKind, checkpoint_payload, event_hash
from licet.keys import KeyRole, KeySet, PublicKey
from licet.statement import PayloadType, SigningKey, canonical
from licet.v1.event_pb2 import Event

SOURCE, STREAM = "spiffe://licet.local/dev/decider", "ab" * 16
KEY = SigningKey.from_seed("checkpoint", bytes(32))
KEYS = KeySet(
    "dev",
    1,
    {
        "checkpoint": PublicKey(
            "checkpoint", KeyRole.CHECKPOINT, "dev", KEY.public_key, 0, 1 << 60, owner=SOURCE
        )
    },
)
AT = 1_790_000_000_000_000
LENGTH = 24


def chain(length: Any = LENGTH, every: Any = 8) -> Any:
    links, tip = [], ZERO_HASH
    for seq in range(1, length + 1):
        stops = seq == length
        kind = (
            EventKind.PROCESS_STOPPED
            if stops
            else EventKind.CHECKPOINT
            if seq % every == 0
            else EventKind.DOOR_PASSED
        )
        fields = {}
        if stops or seq % every == 0:
            so_far = Checkpoint(SOURCE, STREAM, seq - 1, tip, seq - 1, AT // 1000)
            fields["checkpoint"] = KEY.sign(PayloadType.CHECKPOINT, checkpoint_payload(so_far))
        event = Event(
            version=1, event_id=f"{seq:032x}", source=SOURCE, stream=STREAM, seq=seq, prev_hash=tip,
            time_us=AT + seq, kind=kind, environment="dev", detail="d", **fields,
        )  # fmt: skip
        body = canonical(event)
        links.append(Link(seq, body, AT + seq))
        tip = event_hash(tip, body)
    return links


def check(links: Any, **given_: Any) -> Any:
    run = Run(SOURCE, STREAM, Trust(KEYS), **given_)
    problems: list[Problem] = []
    for link in links:
        problems += run.take(link)
    problems += run.end(now_us=AT + 2 * SILENCE_US, succeeded=False)
    return {problem.kind for problem in problems}, problems


def test_honest_chain_is_sound() -> None:
    assert check(chain())[0] == set()


@given(st.integers(1, LENGTH - 1), st.data())
def test_any_changed_byte_of_any_event_is_named(number: Any, data: Any) -> None:
    links = chain()
    raw = bytearray(links[number - 1].data)
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] ^= data.draw(st.integers(1, 255))
    links[number - 1] = Link(number, bytes(raw), links[number - 1].time_us)
    kinds, problems = check(links)
    assert kinds
    near = {f"{seq:032x}" for seq in (number - 1, number, number + 1)} | {""}
    assert any(problem.event_id in near or str(number) in problem.detail for problem in problems)


@given(st.sets(st.integers(2, LENGTH - 1), min_size=1, max_size=5))
def test_any_events_left_out_of_the_middle_are_a_gap(numbers: Any) -> None:
    assert ProblemKind.GAP in check([link for link in chain() if link.seq not in numbers])[0]


@given(st.integers(1, LENGTH - 1))
def test_tail_that_was_cut_is_open_ended(number: Any) -> None:
    assert check(chain()[:number])[0] == {ProblemKind.OPEN_ENDED}


@given(st.integers(1, LENGTH - 1), st.integers(0, LENGTH))
def test_anchor_shows_a_tail_that_was_cut(number: Any, behind: Any) -> None:
    links = chain()
    tip = ZERO_HASH
    anchors = {}
    for link in links:
        tip = event_hash(Event.FromString(link.data).prev_hash, link.data)
        anchors[link.seq] = tip
    anchor = min(number + 1 + behind, LENGTH)
    assert check(links[:number], anchors={anchor: anchors[anchor]})[0] == {ProblemKind.CUT_TAIL}
    assert check(links, anchors=anchors)[0] == set()
    assert check(links, anchors={anchor: bytes(32)})[0] == {ProblemKind.REWRITTEN}


@given(st.permutations(range(4, 8)))
def test_events_in_another_order_do_not_pass(order: Any) -> None:
    links = chain()
    mixed = [
        Link(index, links[number - 1].data, links[number - 1].time_us)
        for index, number in zip(range(4, 8), order, strict=True)
    ]
    kinds, _ = check([*links[:3], *mixed, *links[7:]])
    assert (kinds == set()) is (list(order) == [4, 5, 6, 7])


def test_repetition_is_nothing_and_other_bytes_under_the_same_number_are_a_fork() -> None:
    links = chain()
    assert check([*links[:5], links[4], *links[5:]])[0] == set()
    event = Event.FromString(links[4].data)
    event.detail = "other"
    assert check([*links[:5], Link(5, canonical(event), AT + 5), *links[5:]])[0] == {ProblemKind.FORK}


def test_run_without_checkpoints_is_named_when_one_was_due() -> None:
    links = chain(CHECKPOINT_EVERY + 20, every=10_000)
    assert check(links[:-1])[0] == {ProblemKind.UNSIGNED, ProblemKind.OPEN_ENDED}
    assert check(links)[0] == set()


def test_running_source_is_not_called_cut_off() -> None:
    run = Run(SOURCE, STREAM, Trust(KEYS))
    for link in chain()[:10]:
        assert list(run.take(link)) == []
    assert list(run.end(now_us=AT + SILENCE_US, succeeded=False)) == []
    assert list(run.end(now_us=AT + 2 * SILENCE_US, succeeded=True)) == []


def test_revoked_key_counts_no_more_from_its_revocation_on() -> None:
    run = Run(SOURCE, STREAM, Trust(KEYS, {"checkpoint": AT + 9}))
    kinds = [problem.kind for link in chain() for problem in run.take(link)]
    assert kinds == [ProblemKind.REVOKED_KEY] * 2  # of three checkpoints, the first was before


@given(st.integers(1, LENGTH), st.sampled_from([LATE_US + LENGTH, -AHEAD_US - LENGTH]))
def test_event_whose_own_time_is_far_from_its_storing_is_named(number: Any, off: Any) -> None:
    links = chain()
    links[number - 1] = replace(links[number - 1], time_us=AT + number + off)
    kinds, problems = check(links)
    assert kinds == {ProblemKind.TIME}
    assert [problem.event_id for problem in problems] == [f"{number:032x}"]


@given(st.integers(-AHEAD_US, LATE_US))
def test_event_that_waited_in_a_spool_or_has_another_clock_is_sound(off: Any) -> None:
    assert check([replace(link, time_us=link.time_us + off) for link in chain()])[0] <= {
        ProblemKind.OPEN_ENDED
    }


def test_longer_outages_are_allowed_for_where_the_operator_says_so() -> None:
    links = [replace(link, time_us=link.time_us + 2 * LATE_US) for link in chain()]
    assert check(links)[0] == {ProblemKind.TIME}
    assert check(links, late_us=3 * LATE_US)[0] == set()


@given(st.integers(1, LENGTH - 1), st.integers(1, LENGTH - 1))
def test_end_of_a_killed_run_in_a_file_is_unsigned_and_said_so_and_only_where_a_next_run_names_it(
    first: Any, last: Any
) -> None:
    first, last = min(first, last), max(first, last)
    run = Run(SOURCE, STREAM, Trust(KEYS), whole=False)
    for link in chain()[first - 1 : last]:
        assert list(run.take(link)) == []
    checkpoint = last // 8 * 8
    assert run.unsigned == (last - checkpoint if checkpoint >= first else last - first + 1)
    assert list(run.end(now_us=AT, succeeded=True)) == []
    named = {problem.kind for problem in run.end(now_us=AT, succeeded=False)}
    assert named == ({ProblemKind.UNSIGNED} if run.unsigned else set())


def test_end_cut_from_a_file_is_named_where_an_anchor_lies_behind_it() -> None:
    run = Run(SOURCE, STREAM, Trust(KEYS), {16: bytes(32)}, whole=False)
    for link in chain()[3:12]:
        assert list(run.take(link)) == []
    assert {problem.kind for problem in run.end(now_us=AT, succeeded=True)} == {ProblemKind.CUT_TAIL}
