"""Bytes that two parsers may read in two ways."""

from examples.refund.demo.attempt import effect, refused_at_door
from examples.refund.demo.play import FIFTY, Play, refund, refund_message
from examples.refund.fin.v1.finance_pb2 import Amount, IssueRefundRequest, Note

UNKNOWN = b"\xfa\x3f\x01x"
"""Field 1023, one byte of text: no message of the tool has it."""
AMOUNT_FIELD = b"\x12"
"""Tag of `amount`, field 2, a sub-message."""
NOTES_FIELD = b"\x2a"
"""Tag of an entry of `notes`, field 5."""


def _nested(tag: bytes, body: bytes) -> bytes:
    assert len(body) < 128
    return tag + bytes((len(body),)) + body


def unknown_field_at_top(play: Play) -> None:
    """An unknown field at the top."""
    with play.attack("one more field", refused_at_door("UNKNOWN_FIELD")):
        order, step = play.house.order(), play.step()
        asked = play.decide(step, refund(order))
        play.present(step, refund(order) + UNKNOWN, asked.sent)
    with play.lawful("a known field more", effect()):
        message = refund_message(play.house.order())
        message.memo = "sorry"
        play.executed(message.SerializeToString())


def unknown_field_nested(play: Play) -> None:
    """An unknown field inside a sub-message."""
    with play.attack("inside the amount", refused_at_door("UNKNOWN_FIELD")):
        order, step = play.house.order(), play.step()
        asked = play.decide(step, refund(order))
        amount = Amount(minor=FIFTY, currency="USD").SerializeToString() + UNKNOWN
        without = IssueRefundRequest(order_id=order, reason="damaged").SerializeToString()
        play.present(step, without + _nested(AMOUNT_FIELD, amount), asked.sent)
    with play.lawful("the same fields in another order", effect()):
        order, step = play.house.order(), play.step()
        asked = play.decide(step, refund(order))
        amount = Amount(minor=FIFTY, currency="USD").SerializeToString()
        without = IssueRefundRequest(order_id=order, reason="damaged").SerializeToString()
        play.present(step, _nested(AMOUNT_FIELD, amount) + without, asked.sent)


def unknown_field_in_a_map(play: Play) -> None:
    """An unknown field inside a map's entry."""
    with play.attack("inside a note's entry", refused_at_door("UNKNOWN_FIELD")):
        order, step = play.house.order(), play.step()
        message = refund_message(order)
        message.notes["ana"].CopyFrom(Note(text="broken"))
        asked = play.decide(step, message.SerializeToString())
        note = Note(text="broken").SerializeToString()
        entry = _nested(b"\x0a", b"ana") + _nested(AMOUNT_FIELD, note) + UNKNOWN
        play.present(step, refund(order) + _nested(NOTES_FIELD, entry), asked.sent)
    with play.lawful("the entry without it", effect()):
        message = refund_message(play.house.order())
        message.notes["ana"].CopyFrom(Note(text="broken"))
        play.executed(message.SerializeToString())


def amount_that_merges(play: Play) -> None:
    """An appended amount that would merge to 9999.00."""
    with play.attack("9999.00 appended", refused_at_door("DIGEST_MISMATCH")):
        order, step = play.house.order(), play.step()
        asked = play.decide(step, refund(order))
        appended = _nested(AMOUNT_FIELD, Amount(minor=999900).SerializeToString())
        play.present(step, refund(order) + appended, asked.sent)
    with play.lawful("the same amount appended", effect()):
        order, step = play.house.order(), play.step()
        asked = play.decide(step, refund(order))
        appended = _nested(AMOUNT_FIELD, Amount(minor=FIFTY).SerializeToString())
        play.present(step, refund(order) + appended, asked.sent)
