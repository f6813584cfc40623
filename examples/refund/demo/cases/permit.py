"""What a permit is for: this call, and no other."""

from examples.refund.demo.attempt import (
    DECIDED,
    DENIED,
    PASSED,
    SPANS_OF_DECISION,
    SPANS_OF_DOOR,
    Expected,
    effect,
    refused_at_door,
    stopped,
)
from examples.refund.demo.gated import handle_gated
from examples.refund.demo.play import Play, get_order, refund
from examples.refund.demo.wire import GET_ORDER

DENIED_ORDER = "O3"
"""Its `refund_allowed` is false."""


def deny(play: Play) -> None:
    """Policy denies: no call in the tool process."""
    expected = stopped("POLICY_DENIED", {DENIED: 1}, "DENIED_STOPPED", spans=SPANS_OF_DECISION)
    with play.attack("O3, refund_allowed=false", expected):
        play.decide(play.step(), refund(DENIED_ORDER))
    with play.lawful("an order that allows it", effect()):
        play.executed(refund(play.house.order()))


def ignored_without_permit(play: Play) -> None:
    """The agent ignores the denial: calls without permit."""
    events = {DENIED: 1, "door.refused NO_PERMIT": 1}
    with play.attack("no permit", stopped("NO_PERMIT", events, "DENIED_STOPPED", spans=SPANS_OF_DECISION)):
        step = play.step()
        play.decide(step, refund(DENIED_ORDER))
        play.present(step, refund(DENIED_ORDER))
    with play.lawful("with its permit", effect()):
        play.executed(refund(play.house.order()))


def ignored_with_signed_denial(play: Play) -> None:
    """The agent ignores the denial: signed denial in the permit's place."""
    events = {DENIED: 1, "door.refused SIGNATURE_INVALID": 1}
    expected = stopped("SIGNATURE_INVALID", events, "DENIED_STOPPED", spans=SPANS_OF_DECISION)
    with play.attack("the denial, signed", expected):
        step = play.step()
        asked = play.decide(step, refund(DENIED_ORDER))
        play.present(step, refund(DENIED_ORDER), asked.sent)
    with play.lawful("the permit, signed", effect()):
        play.executed(refund(play.house.order()))


def allow(play: Play) -> None:
    """Policy allows 50.00: one change of -50.00."""
    with play.lawful("O1, 50.00 USD", effect()):
        play.executed(refund("O1"))


def other_amount(play: Play) -> None:
    """50.00 decided, 51.00 sent."""
    with play.attack("51.00 sent", refused_at_door("DIGEST_MISMATCH")):
        order, step = play.house.order(), play.step()
        asked = play.decide(step, refund(order, 5000))
        play.present(step, refund(order, 5100), asked.sent)
    with play.lawful("50.00 sent", effect()):
        play.executed(refund(play.house.order(), 5000))


def other_order(play: Play) -> None:
    """One order decided, another sent."""
    with play.attack("the other order sent", refused_at_door("RESOURCE_MISMATCH")):
        step = play.step()
        asked = play.decide(step, refund(play.house.order()))
        play.present(step, refund(play.house.order()), asked.sent)
    with play.lawful("the same order sent", effect()):
        play.executed(refund(play.house.order()))


def other_method(play: Play) -> None:
    """Another method, same bytes."""
    with play.attack("a permit to read, at IssueRefund", refused_at_door("METHOD_MISMATCH")):
        order = play.house.order()
        step, asked = play.read(order)
        play.present(step, get_order(order), asked.sent)
    expected = Expected(
        ("OK",), {DECIDED: 1, PASSED: 1}, "ALLOWED_EXECUTED", spans=SPANS_OF_DECISION | SPANS_OF_DOOR
    )
    with play.lawful("the same permit, at GetOrder", expected):
        order = play.house.order()
        step, asked = play.read(order)
        play.present(step, get_order(order), asked.sent, method=GET_ORDER)


def surface_all_green(play: Play) -> None:
    """Surface all green: every service healthy, decision deny, no call."""
    expected = stopped("POLICY_DENIED", {DENIED: 1}, "DENIED_STOPPED", spans=SPANS_OF_DECISION)
    with play.attack("search ok, order read, refund denied", expected):
        handle_gated(play, DENIED_ORDER)
    with play.lawful("the same agent, an order that allows it", effect()):
        handle_gated(play, play.house.order())
