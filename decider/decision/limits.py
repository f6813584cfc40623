"""What may stop or hold a call beside the rules, and is booked before a permit leaves: budgets, loops.

A limit is asked twice. `look` reads only, beside the facts and before the rules: what it returns is known to
the rules, makes the call wait for people, or stops it. `book` is asked when the call would be permitted,
after every hold was lifted: it takes what the permit may use, or stops the call after all. Whoever booked is
told to `release` when the permit does not leave after all; when it leaves, the booking ends by the limit's
own means.

Guarantees of `Limits`: a call that is denied, held or failed has nothing booked; one limit that stops a call
releases what the ones before it booked, and so does one that must be asked again. Both questions may raise
`StreamsError`: then there is no decision.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from decider.decision.envelope import Envelope
from decider.in_force.in_force import InForce
from decider.policy.cedar import Value
from licet.hold import Requirement
from licet.refusal import Refusal
from licet.v1.decision_pb2 import Decision


@dataclass(frozen=True, slots=True)
class Stop:
    """A limit denies the call: why, and under which rule ids that stands."""

    refusal: Refusal
    rule_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outdated:
    """What `look` saw is no longer so: the call must be decided again."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What limits know of a call before the rules are asked."""

    stop: Stop | None = None
    """Denies, unless a rule denies already."""
    needs: tuple[Requirement, ...] = ()
    """Makes the call wait for these people, whatever the rules say."""
    context: Mapping[str, Value] = field(default_factory=dict)
    """What rules may know of it; each name stands in `decider.policy.cedar.SAMPLE_CONTEXT` with its type."""


NOTHING_SEEN: Final = Seen()


@dataclass(frozen=True, slots=True)
class Wish:
    """A call on its way to a decision, as limits are asked about it."""

    envelope: Envelope
    in_force: InForce
    now_ms: int
    round: int
    """Of the step; rounds after the first repeat a step that had no effect."""
    seen: Seen = NOTHING_SEEN
    """What `look` returned, when it is asked to `book`."""
    links_only: bool = False
    """Whether rules on trial stop it, so that only what was handed down is booked, which is on no trial."""


class Booking(Protocol):
    """What was taken for one permit."""

    async def release(self) -> None:
        """Give it back: the permit does not leave. Must not raise."""


class Limit(Protocol):
    """One kind of limit."""

    async def look(self, wish: Wish) -> Seen:
        """Say what is known of a call; nothing is taken."""

    async def book(self, wish: Wish, decision: Decision) -> Booking | Stop | Outdated | None:
        """Take what the permit may use until `decision.not_after_ms`; None where it uses nothing.

        It may make the permit one that is spent, so that an outcome says what was used.
        """

    def denied(self, wish: Wish) -> None:
        """Hear that a call is not permitted, whoever denied or holds it."""


class Limits:
    """All limits as one, asked in their order."""

    def __init__(self, limits: Sequence[Limit] = ()) -> None:
        self._limits = tuple(limits)

    async def look(self, wish: Wish) -> Seen:
        """Return what all of them see; the first that stops gives the reason."""
        if not self._limits:
            return NOTHING_SEEN
        seen = [await limit.look(wish) for limit in self._limits]
        context: dict[str, Value] = {}
        for one in seen:
            context.update(one.context)
        return Seen(
            stop=next((one.stop for one in seen if one.stop is not None), None),
            needs=tuple(need for one in seen for need in one.needs),
            context=context,
        )

    async def book(self, wish: Wish, decision: Decision) -> "Bookings | Stop | Outdated":
        """Book with all of them, or with none."""
        made = Bookings()
        try:
            for limit in self._limits:
                booked = await limit.book(wish, decision)
                if isinstance(booked, Stop | Outdated):
                    await made.release()
                    return booked
                if booked is not None:
                    made.add(booked)
        except BaseException:
            await made.release()
            raise
        return made

    def denied(self, wish: Wish) -> None:
        """Tell all of them that a call is not permitted."""
        for limit in self._limits:
            limit.denied(wish)


class Bookings:
    """What all limits booked for one permit."""

    def __init__(self) -> None:
        self._made: list[Booking] = []

    def add(self, booking: Booking) -> None:
        """Take note of one more."""
        self._made.append(booking)

    async def release(self) -> None:
        """Give everything back, newest first."""
        while self._made:
            await self._made.pop().release()
