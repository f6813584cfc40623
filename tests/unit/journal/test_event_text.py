from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from licet.journal.event_text import (
    LONG_TEXT,
    MAX_EVENT_BYTES,
    MAX_LONG_TEXT_BYTES,
    MAX_TEXT_BYTES,
    OWN,
    event_of,
    fit,
)
from licet.v1.event_pb2 import Event

TEXTS = [
    field.name
    for field in Event.DESCRIPTOR.fields
    if field.type == field.TYPE_STRING and not field.is_repeated and field.name not in OWN
]
LISTS = [
    field.name for field in Event.DESCRIPTOR.fields if field.type == field.TYPE_STRING and field.is_repeated
]


@given(text=st.text(min_size=1, max_size=50))
@settings(max_examples=100)
def test_text_that_fits_is_kept_as_it_is(text: str) -> None:
    assert fit({"detail": text}) == {"detail": text}


def test_what_says_nothing_is_left_out_and_makes_the_same_event() -> None:
    fields: dict[str, Any] = {"detail": "", "rule_ids": (), "round": 0, "reason": "SPENT"}
    assert fit(fields) == {"reason": "SPENT"}
    assert Event(**fit(fields)) == Event(**fields)


VALUES = st.one_of(
    st.text(max_size=30),
    st.sampled_from(["x" * 600, "é" * 1_500, "a\udcffb", "\udcff" * 2_000, "x" * 20_000]),
)


@given(
    fields=st.dictionaries(st.sampled_from(TEXTS), VALUES, max_size=5)
    | st.dictionaries(st.sampled_from(LISTS), st.lists(VALUES, max_size=70), max_size=2),
    numbers=st.dictionaries(st.sampled_from(["round", "amount_minor"]), st.integers(0, 1 << 31)),
)
@settings(max_examples=200)
def test_the_short_way_makes_the_event_that_the_long_way_makes(
    fields: dict[str, Any], numbers: dict[str, int]
) -> None:
    own = {"kind": "door.passed", "seq": 7}
    assert event_of(own, fields | numbers) == Event(**own, **fit(fields | numbers))


@pytest.mark.parametrize("fields", [{"no_such_field": ""}, {"seq": 8}, {"tier": "four"}, {"round": 1 << 40}])
def test_no_way_makes_an_event_of_what_no_event_has(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        event_of({"kind": "door.passed"}, fields)


def test_five_megabytes_become_a_marked_beginning() -> None:
    text = fit({"detail": "é" * 2_500_000})["detail"]
    assert len(text.encode()) <= MAX_LONG_TEXT_BYTES
    assert text.startswith("ééé")
    kept = text.partition("…[")[0].encode()
    assert text.endswith(f"…[{5_000_000 - len(kept)} bytes more]")


def test_at_the_limit_nothing_is_cut_and_one_byte_past_it_is() -> None:
    assert fit({"resource": "x" * MAX_TEXT_BYTES})["resource"] == "x" * MAX_TEXT_BYTES
    assert "bytes more]" in fit({"resource": "x" * (MAX_TEXT_BYTES + 1)})["resource"]


def test_bytes_that_were_no_utf8_are_shown_as_such() -> None:
    hostile = b"a\xff\xfeb".decode("utf-8", "surrogateescape")
    text = fit({"agent": hostile})["agent"]
    assert text[0] == "a"
    assert text[-1] == "b"
    assert "\ufffd" in text
    Event(agent=text).SerializeToString()


def test_the_largest_event_is_within_its_limit() -> None:
    fields: dict[str, Any] = dict.fromkeys(TEXTS, "\U0001f600" * 100_000)
    fields |= dict.fromkeys(LISTS, ["\U0001f600" * 100_000] * 1_000)
    event = Event(source="s" * 2_048, **fit(fields))
    assert event.ByteSize() <= MAX_EVENT_BYTES
    for name in LISTS:
        assert getattr(event, name)[-1] == "…[937 items more]"
    assert all(getattr(event, name).endswith("bytes more]") for name in LONG_TEXT)


@pytest.mark.parametrize("name", [*sorted(OWN), "no_such_field"])
def test_what_the_journal_fills_in_cannot_be_given(name: str) -> None:
    with pytest.raises(ValueError, match="no field"):
        fit({name: "x"})


def test_numbers_are_exact() -> None:
    assert fit({"amount_minor": 2**63 - 1}) == {"amount_minor": 2**63 - 1}
