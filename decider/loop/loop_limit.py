"""The loop breaker as a limit (`decider.decision.limits`): one history for each task, in this process.

Guaranteed: memory is bounded; a task that was quiet longest is forgotten first. Not shared: with n deciders a
loop that reaches them in turn is seen after at most n times as many calls. What must not be exceeded is a
budget, or a session total, which deciders share (`decider.budgets`). Without `loops` in the bundle nothing is
taken for a loop.
"""

from collections import OrderedDict
from typing import Final

from decider.decision.envelope import Envelope
from decider.decision.limits import NOTHING_SEEN, Seen, Stop, Wish
from decider.loop.loops import History, LoopLimits, Shape, shape_of
from licet.refusal import Reason, Refusal
from licet.tier import CallClass
from licet.v1.decision_pb2 import Decision

MAX_TASKS: Final = 2_000
"""Tasks that are remembered."""


def shape_of_call(envelope: Envelope) -> Shape:
    """Return the shape of a call: what its catalog says it is about stays fixed."""
    method = envelope.method
    fixed = {*method.resource.paths, *((method.tenant_path,) if method.tenant_path else ())}
    if method.money is not None:
        fixed.add(method.money.currency)
    amount = method.money.amount if method.money is not None else ""
    return shape_of(
        method.path, envelope.call_digest, envelope.arguments, fixed=frozenset(fixed), amount=amount
    )


class LoopLimit:
    """Stops a task that repeats itself."""

    def __init__(self) -> None:
        self._histories: OrderedDict[str, History] = OrderedDict()

    async def look(self, wish: Wish) -> Seen:
        """Stop the call where it is a loop's next."""
        limits = _limits(wish)
        if limits is None:
            return NOTHING_SEEN
        envelope = wish.envelope
        reads = (
            envelope.method.call_class is CallClass.READ
        )  # an empty answer to a write is often all there is
        found = self._history(envelope.task.task_id).judge(
            shape_of_call(envelope),
            envelope.asked.call_id,
            limits,
            now_ms=wish.now_ms,
            empty=envelope.asked.empty_in_a_row if reads else 0,
        )
        if found is None:
            return NOTHING_SEEN
        rule_id, what = found
        return Seen(stop=Stop(Refusal(Reason.LOOP_BROKEN, what), (rule_id,)))

    async def book(self, wish: Wish, _decision: Decision) -> None:
        """Note that the call is permitted; nothing is taken."""
        if _limits(wish) is not None:
            history = self._history(wish.envelope.task.task_id)
            history.permitted(shape_of_call(wish.envelope), wish.envelope.asked.call_id)

    def denied(self, wish: Wish) -> None:
        """Note a call that is not permitted; one that was judged is noted already."""
        stop = wish.seen.stop
        broken = stop is not None and stop.refusal.reason is Reason.LOOP_BROKEN
        if _limits(wish) is not None and not broken:
            history = self._history(wish.envelope.task.task_id)
            history.refused(shape_of_call(wish.envelope), wish.envelope.asked.call_id, wish.now_ms)

    def _history(self, task_id: str) -> History:
        history = self._histories.setdefault(task_id, History())
        self._histories.move_to_end(task_id)
        while len(self._histories) > MAX_TASKS:
            self._histories.popitem(last=False)
        return history


def _limits(wish: Wish) -> LoopLimits | None:
    """Return what bounds the call; None where nothing does: no `loops`, or a method that is polled."""
    limits, method = wish.in_force.bundle.loops, wish.envelope.method
    if limits is None or method.polls:
        return None
    return limits.for_reads() if method.call_class is CallClass.READ else limits
