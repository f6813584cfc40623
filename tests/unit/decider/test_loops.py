"""Loops: what repeats itself is stopped, and work that only looks like it goes on."""

import hashlib
import json
from typing import Any

import pytest

from decider.loop.loop_source import load_loops, read_loops
from decider.loop.loops import (
    ALTERNATING,
    EMPTY,
    JUNK,
    MAX_ENTRIES,
    PROBES,
    SAME,
    History,
    LoopLimits,
    Shape,
    shape_of,
)
from decider.source import Section, SourceError, parse
from licet.call import Arguments, compile_schema, read_json
from licet.refusal import Refusal
from licet.v1 import bundle_pb2

LIMITS = LoopLimits()
SCHEMA = compile_schema(
    json.dumps(
        {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                **{name: {"type": "string"} for name in ("order", "currency", "note", "nonce", "query")},
                **{name: {"type": "integer"} for name in ("amount", "page")},
                **{f"f{number}": {"type": "string"} for number in range(40)},
            },
        }
    )
)


def arguments(values: dict[str, Any]) -> Arguments:
    read = read_json(SCHEMA, json.dumps(values).encode())
    assert not isinstance(read, Refusal), read
    return read


def shape(method: str = "/s/Refund", **values: Any) -> Shape:
    known = arguments(values)
    digest = hashlib.sha256(method.encode() + known.encoded).digest()
    return shape_of(method, digest, known, fixed=frozenset({"order", "currency"}), amount="amount")


class Task:
    """A task that asks once a second, each time under a new call id unless it says which."""

    def __init__(self, limits: LoopLimits = LIMITS) -> None:
        self.history, self.limits, self.calls, self.now_ms = History(), limits, 0, 0

    def asks(
        self, asked: Shape, *, call_id: str = "", permitted: bool = True, after_s: int = 1, empty: int = 0
    ) -> str:
        self.calls += 1
        self.now_ms += after_s * 1_000
        name = call_id or f"call-{self.calls}"
        found = self.history.judge(asked, name, self.limits, now_ms=self.now_ms, empty=empty)
        if found is None and permitted:
            self.history.permitted(asked, name)
        return found[0] if found else ""


def test_the_very_same_call_is_stopped_after_its_fifth_time() -> None:
    task = Task()
    assert [task.asks(shape(order="O1", amount=50)) for _ in range(7)] == [""] * 5 + [SAME] * 2


def test_the_same_step_asked_for_again_is_no_loop() -> None:
    """A retry after a lost reply, a restored checkpoint, a hold that is looked at every two seconds."""
    task = Task()
    assert {task.asks(shape(order="O1"), call_id="step-1", permitted=False) for _ in range(200)} == {""}


def test_the_same_call_now_and_then_is_no_loop() -> None:
    task = Task()
    assert {task.asks(shape(order="O1"), after_s=121) for _ in range(50)} == {""}


def test_a_loop_that_was_stopped_goes_on_no_faster_than_its_limit() -> None:
    task = Task()
    passed = [task.asks(shape(order="O1"), after_s=10) for _ in range(180)].count("")
    assert passed <= 3 * (LIMITS.same + 1)  # 1,800 s are three windows


def test_two_calls_in_turn_are_stopped() -> None:
    task = Task()
    a, b = shape(order="O1"), shape(order="O2")
    assert [task.asks(one) for one in (a, b, a, b, a, b)] == [""] * 5 + [ALTERNATING]


@pytest.mark.parametrize("turns", ["ABACABAC", "ABCABCABC", "AABBAABB"])
def test_work_that_comes_back_to_a_call_is_no_alternation(turns: str) -> None:
    task = Task()
    assert {task.asks(shape(order=letter)) for letter in turns} == {""}


def test_one_junk_field_that_changes_is_seen_through() -> None:
    task = Task()
    found = [task.asks(shape(order="O1", amount=50, nonce=str(at))) for at in range(10)]
    assert found == [""] * 8 + [JUNK] * 2


def test_what_the_call_is_about_is_no_junk() -> None:
    """Twenty orders refunded in a row are work, and so are amounts that differ."""
    task = Task()
    assert {task.asks(shape(order=f"O{at}", amount=50)) for at in range(20)} == {""}
    assert {task.asks(shape(order="O99", amount=at)) for at in range(20)} == {""}


def test_reads_may_repeat_themselves_more_often() -> None:
    task = Task(LIMITS.for_reads())
    assert {task.asks(shape("/s/Search", query=f"how {at}")) for at in range(31)} == {""}
    assert [task.asks(shape("/s/Get", order="O1")) for at in range(21)][-1] == SAME


def test_junk_in_one_of_many_fields_is_seen_through() -> None:
    """More fields than are told apart share buckets by their names: no call has too many to be seen."""
    task = Task()
    many = {f"f{number}": "x" for number in range(40)}
    found = [task.asks(shape(order="O1", **(many | {"f7": str(at)}))) for at in range(9)]
    assert found == [""] * 8 + [JUNK]


def test_a_ceiling_cannot_be_felt_for_in_small_steps() -> None:
    task = Task()
    probes = [task.asks(shape(order="O1", amount=10_000 + at), permitted=False) for at in range(5)]
    assert probes == [""] * 5
    assert task.asks(shape(order="O1", amount=9_999)) == PROBES  # not even with what would have been allowed
    assert task.asks(shape(order="O2", amount=9_999)) == ""  # another order is another matter


def test_denials_that_have_nothing_in_common_are_no_probes() -> None:
    task = Task()
    assert {task.asks(shape(order=f"O{at}", amount=at), permitted=False) for at in range(20)} == {""}


def test_calls_that_bring_nothing_in_a_row_are_stopped() -> None:
    task = Task()
    assert task.asks(shape("/s/Search", query="a"), empty=7) == ""
    assert task.asks(shape("/s/Search", query="b"), empty=8) == EMPTY


def test_a_history_is_bounded() -> None:
    task = Task(LoopLimits(window_s=86_400))
    for at in range(10 * MAX_ENTRIES):
        task.asks(shape(order=f"O{at}"))
    assert len(task.history.entries) == MAX_ENTRIES


def read(text: str) -> bundle_pb2.LoopLimits:
    top, faults = parse(text, "bundle.yaml")
    section = top.section("loops")
    assert isinstance(section, Section)
    message = read_loops(section)
    faults.raise_any()
    return message


def test_limits_come_back_as_they_were_written_and_none_are_none() -> None:
    bundle = bundle_pb2.Bundle()
    assert load_loops(bundle) is None
    bundle.loops.CopyFrom(read("loops: {same: 3, window_s: 60}"))
    assert load_loops(bundle) == LoopLimits(same=3, window_s=60)
    bundle.loops.CopyFrom(read("loops: {}"))
    assert load_loops(bundle) == LoopLimits()


@pytest.mark.parametrize("text", ["loops: {same: 0}", "loops: {junk: 65}", "loops: {smae: 3}", "loops: 3"])
def test_a_limit_that_could_never_be_reached_or_is_none_is_refused(text: str) -> None:
    with pytest.raises((SourceError, AssertionError)):
        read(text)


def test_a_bundle_with_a_limit_beyond_memory_is_refused() -> None:
    bundle = bundle_pb2.Bundle()
    bundle.loops.same = MAX_ENTRIES + 1
    with pytest.raises(ValueError, match="larger"):
        load_loops(bundle)
