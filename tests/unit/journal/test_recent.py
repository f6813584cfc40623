"""What is sent from memory is what lies at that place of the spool, or nothing."""

from hypothesis import given, settings
from hypothesis import strategies as st

from licet.journal import recent as recent_module
from licet.journal.recent import RECENT_BYTES, Recent


def test_letters_come_in_order_and_are_let_go_of() -> None:
    recent: Recent[str] = Recent()
    recent.put(10, 20, "a")
    recent.put(20, 25, "b")
    assert recent.at(10) == (20, "a")
    assert recent.at(10) == (20, "a")  # it was not sent: it is still there
    assert recent.at(20) == (25, "b")
    assert recent.at(25) is None
    assert recent.at(10) is None  # sending began again: from disk


def test_at_the_limit_a_letter_is_kept_and_one_byte_past_it_is_not() -> None:
    recent: Recent[str] = Recent()
    recent.put(0, RECENT_BYTES, "fits")
    recent.put(RECENT_BYTES, RECENT_BYTES + 1, "does not")
    assert recent.at(0) == (RECENT_BYTES, "fits")
    assert recent.at(RECENT_BYTES) is None
    recent.put(RECENT_BYTES + 1, RECENT_BYTES + 2, "fits again")
    assert recent.at(RECENT_BYTES + 1) == (RECENT_BYTES + 2, "fits again")


@given(sizes=st.lists(st.integers(1, 40), max_size=40), limit=st.integers(0, 200), data=st.data())
@settings(max_examples=100)
def test_no_letter_is_ever_taken_for_another(sizes: list[int], limit: int, data: st.DataObject) -> None:
    recent: Recent[tuple[int, int]] = Recent()
    limits, recent_module.RECENT_BYTES = recent_module.RECENT_BYTES, limit  # type: ignore[misc]
    try:
        end, begins = 0, [0]
        for size in sizes:
            recent.put(end, end + size, (end, end + size))
            end += size
            begins.append(end)
            if data.draw(st.booleans()):
                begin = data.draw(st.sampled_from(begins))
                found = recent.at(begin)
                assert found is None or found[1] == (begin, found[0])
            assert recent._bytes <= limit
    finally:
        recent_module.RECENT_BYTES = limits  # type: ignore[misc]
