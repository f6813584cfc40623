"""One effect for each step, however often it is tried."""

from functools import partial

from examples.refund.demo.attempt import (
    DECIDED,
    EFFECT_MINOR,
    EVIDENCE_OF_EFFECT,
    SPANS_OF_EFFECT,
    Expected,
    effect,
)
from examples.refund.demo.play import Play, refund, together
from examples.refund.demo.wire import REFUND

ROUNDS = 200
PART = 2000
"""20.00 of 50.00: a second refund of the same order is within policy, so only the spend can stop it."""
PATIENCE_S = 1.5
"""How long the caller of the lost reply waits; the tool's own wait for its lock is longer."""
SPENT = "door.refused SPENT"


def two_replicas_at_once(play: Play) -> None:
    """The same permit at two replicas at once, 200 rounds."""
    events = {name: count * ROUNDS for name, count in EVIDENCE_OF_EFFECT.items()} | {SPENT: ROUNDS}
    replies = ("OK",) * ROUNDS + ("SPENT",) * ROUNDS
    expected = Expected(replies, events, "ALLOWED_EXECUTED", ROUNDS, ROUNDS * EFFECT_MINOR, SPANS_OF_EFFECT)
    with play.attack("both replicas, one passes", expected):
        for _ in range(ROUNDS):
            step, body = play.step(), refund(play.house.order())
            asked = play.decide(step, body)
            together([partial(play.present, step, body, asked.sent, replica=one) for one in (0, 1)])
    with play.lawful("two permits, one at each", _two_effects()):
        steps = [(play.step(), refund(play.house.order())) for _ in (0, 1)]
        asked_both = [play.decide(step, body) for step, body in steps]
        together(
            [
                partial(play.present, step, body, asked.sent, replica=one)
                for one, ((step, body), asked) in enumerate(zip(steps, asked_both, strict=True))
            ]
        )


def _two_effects() -> Expected:
    events = {name: count * 2 for name, count in EVIDENCE_OF_EFFECT.items()}
    return Expected(("OK", "OK"), events, "ALLOWED_EXECUTED", 2, 2 * EFFECT_MINOR, SPANS_OF_EFFECT)


def _one_effect_of_two_permits(minor: int) -> Expected:
    return effect((DECIDED, 1), (SPENT, 1), replies=("OK", "SPENT"), minor=minor)


def _another_step(play: Play, body: bytes) -> None:
    """The lawful twin of all three: the same thing meant a second time has a call id of its own."""
    with play.lawful("meant twice: another call id", effect(minor=-PART)):
        play.executed(body)


def restored_checkpoint(play: Play) -> None:
    """The same step again with a new permit: restored checkpoint."""
    body = refund(play.house.order(), PART)
    with play.attack("asked and sent again", _one_effect_of_two_permits(-PART)):
        step = play.step()
        for replica in (0, 1):
            asked = play.decide(step, body)
            play.present(step, body, asked.sent, replica=replica)
    _another_step(play, body)


def lost_reply(play: Play) -> None:
    """The same step again with a new permit: the reply was lost."""
    body = refund(play.house.order(), PART)
    expected = effect((DECIDED, 1), (SPENT, 1), replies=("DEADLINE_EXCEEDED", "SPENT"), minor=-PART)
    with play.attack("retried after no reply came", expected):
        step = play.step()
        asked = play.decide(step, body)
        calls, balance = play.house.refund_calls(), play.house.balance_minor()
        with play.house.locked_ledger():  # the tool is at work when the caller gives up
            play.house.wire.present(step, REFUND, body, (asked.sent,), timeout=PATIENCE_S)
            play.house.until(lambda: play.house.refund_calls() > calls, "the call in the tool")
        play.house.until(lambda: play.house.balance_minor() < balance, "the tool's commit")
        again = play.decide(step, body)
        play.present(step, body, again.sent, replica=1)
    _another_step(play, body)


def parallel_branch(play: Play) -> None:
    """The same step again with a new permit: a parallel branch."""
    body = refund(play.house.order(), PART)
    with play.attack("two branches at once", _one_effect_of_two_permits(-PART)):
        step = play.step()
        both = [play.decide(step, body) for _ in (0, 1)]
        together(
            [partial(play.present, step, body, asked.sent, replica=one) for one, asked in enumerate(both)]
        )
    _another_step(play, body)
