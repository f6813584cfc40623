"""Traces that the local receiver kept: found by the beginning of their id, drawn as a tree."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from licet import telemetry
from licet.embedded.trace_store import StoredSpan, TraceStore
from licet.embedded.trace_tree import render


def _span(
    trace_id: str,
    span_id: str,
    parent: str = "",
    name: str = "s",
    links: tuple[tuple[str, str], ...] = (),
    **attributes: object,
) -> StoredSpan:
    start = int(span_id, 16)
    facts = {telemetry.FINDING if key == "finding" else key: value for key, value in attributes.items()}
    return StoredSpan(
        trace_id, span_id, parent, "svc", name, "internal", start, start + 2_000_000, "", facts, links
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TraceStore]:
    with TraceStore(tmp_path / "t.db") as opened:
        yield opened


def test_trace_is_found_by_the_beginning_of_its_id_when_only_one_begins_so(store: TraceStore) -> None:
    store.add([_span("ab12" * 8, "1"), _span("ab99" * 8, "2")])
    assert store.whole_id("AB12") == "ab12" * 8
    assert store.whole_id("ab") is None
    assert store.whole_id("cd") is None
    assert store.whole_id("") is None
    assert store.whole_id("%") is None


def test_span_sent_twice_is_kept_once(store: TraceStore) -> None:
    store.add([_span("a" * 32, "1", name="first")])
    store.add([_span("a" * 32, "1", name="again"), _span("a" * 32, "2", "1")])
    assert [span.name for span in store.trace("a" * 32)] == ["first", "s"]


def test_tree_shows_parents_links_and_what_links_to_it(store: TraceStore) -> None:
    trace, other = "a" * 32, "b" * 32
    store.add(
        [
            _span(trace, "1", name="root"),
            _span(trace, "2", "1", name="decide"),
            _span(trace, "3", "1", name="door", links=((trace, "2"),)),
            _span(other, "4", name="reconcile", links=((trace, "3"),), finding="ALLOWED_EXECUTED"),
        ]
    )
    lines = render(store.trace(trace), store.linked_to(trace)).splitlines()
    assert lines == [
        "root [svc] 2.0 ms",
        "├ decide [svc] 2.0 ms",
        "└ door [svc] 2.0 ms  -> decide",
        "reconcile [svc] links to door finding=ALLOWED_EXECUTED",
    ]


def test_span_whose_parent_never_came_is_shown_and_says_so(store: TraceStore) -> None:
    store.add([_span("a" * 32, "2", "1", name="orphan")])
    assert "(parent missing)" in render(store.trace("a" * 32))


def test_no_line_is_wider_than_asked(store: TraceStore) -> None:
    store.add([_span("a" * 32, "1", name="x" * 300)])
    assert all(len(line) <= 80 for line in render(store.trace("a" * 32), width=80).splitlines())


def test_what_a_span_says_goes_on_under_it_and_none_of_it_is_cut(store: TraceStore) -> None:
    trace, said = "a" * 32, "DENIED_BUT_BYPASSED"
    store.add([_span(trace, "1", name="root", finding=said), _span(trace, "2", "1", name="d", finding=said)])
    lines = render(store.trace(trace), width=40).splitlines()
    assert lines == [
        "root [svc] 2.0 ms",
        f"│   finding={said}",
        "└ d [svc] 2.0 ms",
        f"      finding={said}",
    ]


def test_a_span_moves_no_cursor_and_forges_no_line() -> None:
    """A span may be called by what somebody sent; a collector takes them of anybody."""
    forged = _span("a" * 32, "1", name="x\x1b[2J\n/y\u202e", finding="\x9b1A")
    drawn = render([forged, _span("a" * 32, "2", "1", name="Änderung")])
    assert len(drawn.splitlines()) == 2
    assert all(line.isprintable() for line in drawn.splitlines())
    assert "\\u001b" in drawn
    assert "Änderung" in drawn
