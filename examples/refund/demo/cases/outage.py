"""Parts that are lost: the sidecars' disks, the spend store."""

from examples.refund.demo.attempt import (
    DECIDED,
    PASSED,
    SPANS_OF_DECISION,
    SPANS_OF_DOOR,
    Expected,
    effect,
    refused_at_door,
)
from examples.refund.demo.house import REPLICAS, TASK
from examples.refund.demo.play import Play, get_order, refund
from examples.refund.demo.wire import GET_ORDER, REFUND, Asked, Step

SPENT = "door.refused SPENT"


def empty_disks(play: Play) -> None:
    """Replayed after all sidecars restarted with empty disks."""
    waiting, unspent = _decided_before(play, body := refund(play.house.order()))
    replies = ("OK", *("SPENT",) * REPLICAS)
    with play.attack("the spent permit, at each replica", effect((SPENT, REPLICAS), replies=replies)):
        step, once = play.step(), refund(play.house.order())
        asked = play.decide(step, once)
        play.present(step, once, asked.sent)
        play.house.empty_sidecars()
        for replica in range(REPLICAS):
            play.present(step, once, asked.sent, replica=replica)
    with play.lawful("a permit from before that nobody spent", effect()) as attempt:
        attempt.steps.append(waiting)
        play.present(waiting, body, unspent.sent)


def nats_stopped(play: Play) -> None:
    """NATS stopped: unavailable and no effect; then recovery."""
    house = play.house
    write, read = refund(house.order()), get_order(house.order())
    later, later_asked = _decided_before(play, later_body := refund(house.order()))
    writing, write_asked = _decided_before(play, write)
    reading, read_asked = _decided_before(play, read, GET_ORDER)
    house.stack.nats.stop()
    try:
        with play.attack("a write while NATS is away", refused_at_door("STORE_UNAVAILABLE")) as attempt:
            attempt.steps.append(writing)
            play.present(writing, write, write_asked.sent)
        spans = SPANS_OF_DECISION | SPANS_OF_DOOR
        passes = Expected(("OK",), {DECIDED: 1, PASSED: 1}, "ALLOWED_EXECUTED", spans=spans)
        with play.lawful("a read while the beacon is fresh", passes) as attempt:
            attempt.steps.append(reading)
            play.present(reading, read, read_asked.sent, method=GET_ORDER)
    finally:
        house.stack.nats.start()
    house.wait_for_store()
    with play.lawful("a write after it, with a permit from before", effect()) as attempt:
        attempt.steps.append(later)
        play.present(later, later_body, later_asked.sent)


def _decided_before(play: Play, body: bytes, method: str = REFUND) -> tuple[Step, Asked]:
    """Take a step's decision before the attempt that it belongs to."""
    step = play.house.wire.step(play.house.call_id(), TASK)
    return step, play.house.wire.decide(step, method, body)
