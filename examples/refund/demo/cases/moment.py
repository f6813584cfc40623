"""What held when it was decided need not hold when it is executed."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import grpc

from decider.in_force.activate import Activation
from examples.refund.demo.attempt import (
    DECIDED,
    NO_EFFECT,
    PASSED,
    RESERVED,
    SPANS_OF_DECISION,
    SPANS_OF_DOOR,
    Expected,
    effect,
    refused_at_door,
)
from examples.refund.demo.house import SHORT_TASK
from examples.refund.demo.play import Play, refund, together
from examples.refund.demo.wire import Asked, Step

TASK_S = (5.0, 12.0, 30.0)
"""How long the short task lasts: decider restart and permit life; more where a restart takes long."""
LIFE_S = (3.0, 6.0, 12.0)
"""Most that is left when a permit is asked for: less than the tool waits for its ledger's lock."""
SLACK = 4
"""A permit must live this often as long as it took to ask for: it has a door and a tool still to reach."""
HAND_OVER_S = 0.3
"""What a beacon needs from the sidecar to the guard."""


def refused_in_transaction(reason: str) -> Expected:
    """Return what a call leaves that passed the door and was refused by the guard inside its transaction."""
    events = {DECIDED: 1, f"{PASSED} {reason}": 1, RESERVED: 1, NO_EFFECT: 1}
    spans = SPANS_OF_DECISION | SPANS_OF_DOOR | {"permit.spend"}
    return Expected((reason,), events, "ALLOWED_NOT_EXECUTED", refund_calls=1, spans=spans)


def bundle_superseded(play: Play) -> None:
    """Bundle v+1 between decision and call."""
    with play.attack("decided under v, called under v+1", refused_at_door("BUNDLE_SUPERSEDED")):
        step, body = play.step(), refund(play.house.order())
        asked = play.decide(step, body)
        _in_force(play, *play.house.next_bundle())
        play.present(step, body, asked.sent)
    with play.lawful("decided and called under v+1", effect()):
        play.executed(refund(play.house.order()))


def bundle_superseded_before_the_transaction(play: Play) -> None:
    """Bundle v+1 between the reserve and the tool's transaction."""
    with play.attack("the ledger was locked meanwhile", refused_in_transaction("BUNDLE_SUPERSEDED")):
        step, body = play.step(), refund(play.house.order())
        asked = play.decide(step, body)
        prepared = play.house.next_bundle()  # before the lock, which the tool waits for LOCK_WAIT_S at most
        _sent_while_locked(play, step, body, asked, partial(_in_force, play, *prepared))
    with play.lawful("the ledger was locked, nothing else", effect()):
        step, body = play.step(), refund(play.house.order())
        asked = play.decide(step, body)
        _sent_while_locked(play, step, body, asked, partial(time.sleep, HAND_OVER_S))


def expired(play: Play) -> None:
    """The permit expired before the call."""
    with play.attack("called after its end", refused_at_door("EXPIRED")):
        step, body, asked = _short_lived(play)
        time.sleep(max(0.0, asked.decision.not_after_ms / 1000 - time.time()) + 0.01)
        play.present(step, body, asked.sent)
    with play.lawful("called before its end", effect()):
        play.executed(refund(play.house.order()))


def expired_before_the_transaction(play: Play) -> None:
    """The permit expired between the reserve and the tool's transaction."""
    with play.attack("the ledger was locked meanwhile", refused_in_transaction("EXPIRED")):
        step, body, asked = _short_lived(play)
        end = asked.decision.not_after_ms / 1000
        # counted once the call waits in the tool: the lock is held for less than the tool waits for it
        _sent_while_locked(play, step, body, asked, lambda: time.sleep(max(0.0, end - time.time()) + 0.1))
    with play.lawful("the ledger was locked, not as long", effect()):
        step, body = play.step(), refund(play.house.order())
        asked = play.decide(step, body)
        _sent_while_locked(play, step, body, asked, partial(time.sleep, HAND_OVER_S))


def _short_lived(play: Play) -> tuple[Step, bytes, Asked]:
    """Ask for a permit that lives as long as the short task still does: the decider cuts it short.

    A try that comes too late for the task, or leaves too little of it, is forgotten, and a longer task begun.
    """
    body = refund(play.house.order())
    for lasts, life in zip(TASK_S, LIFE_S, strict=True):
        end = play.house.short_task(lasts)
        step = play.step(SHORT_TASK)
        time.sleep(max(0.0, end - life - time.time()))
        began = time.time()
        with suppress(grpc.RpcError):  # the task's end ends the permits to read its facts, too
            asked = play.decide(step, body)
            ends = asked.decision.not_after_ms / 1000
            if not asked.reason and ends - time.time() > SLACK * (time.time() - began):
                return step, body, asked
        play.forget(step)
    raise TimeoutError(f"no permit within a task of {TASK_S[-1]:.0f} s: is the machine overloaded?")


def _sent_while_locked(
    play: Play, step: Step, body: bytes, asked: Asked, meanwhile: Callable[[], object]
) -> None:
    """Send a call, do something while it waits inside the tool's transaction, then let it go on.

    A call that ends before it comes to the tool, as on a machine that is too slow for its permit, is not
    waited for: the attempt's differences say what came of it.
    """
    calls = play.house.refund_calls()
    locked, ended = threading.Event(), threading.Event()

    def in_tool() -> bool:
        return play.house.refund_calls() > calls

    def disturb() -> None:
        with play.house.locked_ledger():
            locked.set()
            play.house.until(lambda: in_tool() or ended.is_set(), "the call in the tool")
            if in_tool():
                meanwhile()

    def send() -> None:
        locked.wait()
        try:
            play.present(step, body, asked.sent)
        finally:
            ended.set()

    together([disturb, send])


def _in_force(play: Play, version: int, activation: Activation) -> None:
    """Put the next bundle in force and wait until sidecars and guard have it."""
    play.house.put_in_force(activation)
    play.house.wait_for_bundle(version)
    time.sleep(HAND_OVER_S)
