"""Ends bookings: settles what was executed, gives back what was not, whoever booked it.

Guaranteed, while some decider runs: a step whose sidecar recorded EXECUTED is settled, one recorded VOIDED or
FAILED_NO_EFFECT is given back, and so is one whose permits ended without any spend, `GRACE_MS` after the last
of them. What was spent and has no outcome stays booked; when the spend store is about to forget it, it counts
as used. A record that cannot be verified never gives anything back. A decider that was killed leaves its
bookings to the others, and to its own next run.
"""

import asyncio
import heapq
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from decider.budgets.book import BudgetBook
from decider.budgets.booking import Booking, End
from decider.in_force.configuration import Configuration
from licet.keys import KeySet
from licet.log import log
from licet.permit import verify_permit
from licet.refusal import Refusal
from licet.spend import SpendRecord, read_spend_record
from licet.statement import parse_signed
from licet.streams import Connection, StreamsError, read_last, stream_spend, subject_spend
from licet.v1.spend_pb2 import Outcome

logger = logging.getLogger(__name__)

GRACE_MS: Final = 6_000
"""After a permit's end: the allowed skew of clocks, and time for a reserve that was on its way."""
UNKNOWN_AFTER_MS: Final = 23 * 3_600_000
"""The spend store remembers for 24 h; past this nothing can be proved any more."""
LOOKS_MS: Final = (2_000, 10_000, 30_000)
"""When a booking is looked at before its end; most are over by the first."""
AGAIN_MS: Final = 30_000
"""Between two looks at a spend without an outcome."""
LOST_S: Final = 30.0
"""Between two looks for bookings that nobody here made."""
TICK_S: Final = 0.25
AFTER_FAILURE_S: Final = 1.0
MAX_AT_ONCE: Final = 64
NO_EFFECT: Final = frozenset({Outcome.OUTCOME_FAILED_NO_EFFECT, Outcome.OUTCOME_VOIDED})


@dataclass(order=True, slots=True)
class _Due:
    at_ms: int
    spend_id: str
    look: int = field(compare=False, default=0)


class Settler:
    """Looks at the bookings of one environment until they are over.

    Args:
        book: Where they stand.
        nc: For leader reads of the spend stream.
        configuration: Whose keys verify outcomes.
        environment: The environment.
        audiences: Audience by tool; a booking of a tool that is gone stays until it is unknown.
        wall_ms: Unix ms.
    """

    def __init__(
        self,
        book: BudgetBook,
        nc: Connection,
        configuration: Configuration,
        environment: str,
        audiences: Mapping[str, str],
        *,
        wall_ms: Callable[[], int],
    ) -> None:
        self._book, self._nc, self._configuration = book, nc, configuration
        self._environment, self._audiences, self._wall_ms = environment, audiences, wall_ms
        self._due: list[_Due] = []
        self._watched: set[str] = set()

    @property
    def waiting(self) -> bool:
        """Whether the time of some booking has come."""
        return bool(self._due) and self._due[0].at_ms <= self._wall_ms()

    def watch(self, spend_id: str, now_ms: int) -> None:
        """Look at a step that has just booked; again where it is watched already."""
        self._watched.add(spend_id)
        heapq.heappush(self._due, _Due(now_ms + LOOKS_MS[0], spend_id))

    async def run(self) -> None:
        """Look until cancelled."""
        lost_at, said = 0.0, ""
        clock = asyncio.get_running_loop()
        while True:
            try:
                if clock.time() >= lost_at:
                    await self.find_lost()
                    lost_at = clock.time() + LOST_S
                await self.settle_due()
                said = ""
            except StreamsError as error:
                if str(error) != said:  # a store that is away says the same again and again
                    log(logger, logging.WARNING, "budgets.not_settled", detail=str(error)[:300])
                said = str(error)
                await asyncio.sleep(AFTER_FAILURE_S)
            await asyncio.sleep(TICK_S)

    async def find_lost(self) -> None:
        """Watch the bookings that nobody here made: of a decider that is gone, or of another that runs."""
        listed = set(await self._book.listed("booking"))
        now_ms = self._wall_ms()
        for spend_id in listed - self._watched:
            self._watched.add(spend_id)
            heapq.heappush(self._due, _Due(now_ms, spend_id, len(LOOKS_MS)))

    async def settle_due(self) -> None:
        """Look at everything whose time has come. Raises `StreamsError`."""
        now_ms = self._wall_ms()
        due: list[_Due] = []
        while self._due and self._due[0].at_ms <= now_ms and len(due) < MAX_AT_ONCE:
            due.append(heapq.heappop(self._due))
        looked = await asyncio.gather(*(self._look(one) for one in due), return_exceptions=True)
        failed = [one for one in looked if isinstance(one, BaseException)]
        if failed:
            raise failed[0]

    async def _look(self, due: _Due) -> None:
        again_ms = self._wall_ms() + AGAIN_MS
        try:
            booking = await self._book.booking(due.spend_id)
            if booking is None or not booking.claims:
                self._watched.discard(due.spend_id)
                self._book.forget(due.spend_id)  # another decider ended it
                return
            ended = await self.ended(booking)
            if ended is not None:
                await self._book.change(ended)
                self._watched.discard(due.spend_id)
                return
            again_ms = self._again(booking, due.look)
        except BaseException:
            heapq.heappush(self._due, _Due(self._wall_ms() + 1_000, due.spend_id, due.look))
            raise
        heapq.heappush(self._due, _Due(again_ms, due.spend_id, due.look + 1))

    def _again(self, booking: Booking, look: int) -> int:
        now_ms, end_ms = self._wall_ms(), booking.end_ms + GRACE_MS
        if now_ms >= end_ms:
            return now_ms + AGAIN_MS
        wait_ms = LOOKS_MS[look + 1] - LOOKS_MS[look] if look + 1 < len(LOOKS_MS) else end_ms - now_ms
        return min(now_ms + wait_ms, end_ms)

    async def ended(self, booking: Booking) -> End | None:
        """Return how a booking is over, None while it is not. Raises `StreamsError`."""
        in_force, now_ms = self._configuration.current, self._wall_ms()
        if in_force is None:
            return None
        unknown = End(booking.spend_id, booking.round, None)
        long_ago = now_ms >= booking.end_ms + UNKNOWN_AFTER_MS
        reserve, stored = await self._record(booking, "reserve", in_force.keys, now_ms)
        if not stored:
            if long_ago:
                return unknown
            seen = frozenset(claim.decision_id for claim in booking.claims)
            over = now_ms >= booking.end_ms + GRACE_MS
            return End(booking.spend_id, booking.round, "", seen) if over else None
        if reserve is None or reserve.reserve is None:
            return unknown if long_ago else None
        at_ms = reserve.reserve.reserved_at_ms  # the decider's key may have been replaced since
        decision = verify_permit(reserve.reserve.permit, in_force.keys, now_ms=at_ms)
        spent = "" if isinstance(decision, Refusal) else decision.decision_id
        if not any(claim.decision_id == spent for claim in booking.claims):
            # an earlier permit used the step up and was settled under its own booking
            return End(booking.spend_id, booking.round, "") if spent else (unknown if long_ago else None)
        outcome, _ = await self._record(booking, "outcome", in_force.keys, now_ms)
        said = _said(booking, outcome)
        if said == Outcome.OUTCOME_EXECUTED:
            return End(booking.spend_id, booking.round, spent)
        if said in NO_EFFECT:
            return End(booking.spend_id, booking.round, "")
        return unknown if long_ago else None

    async def reserved(self, spend_id: str, tool: str, round: int) -> bool:
        """Tell whether a round of a step is used up. Raises `StreamsError`."""
        subject = subject_spend(self._environment, tool, spend_id, round, "reserve")
        return await read_last(self._nc, stream_spend(self._environment), subject) is not None

    async def _record(
        self, booking: Booking, record: str, keys: KeySet, now_ms: int
    ) -> tuple[SpendRecord | None, bool]:
        """Return a record of the booking's round if it can be believed, and whether there is one at all."""
        subject = subject_spend(self._environment, booking.tool, booking.spend_id, booking.round, record)
        stored = await read_last(self._nc, stream_spend(self._environment), subject)
        if stored is None:
            return None, False
        signed = parse_signed(stored.data)
        if isinstance(signed, Refusal):
            return None, True
        read = read_spend_record(signed, keys, environment=self._environment, now_ms=now_ms)
        if isinstance(read, Refusal) or read.audience != self._audiences.get(booking.tool):
            return None, True
        return read, True


def _said(booking: Booking, record: SpendRecord | None) -> Outcome.ValueType:
    """Return the outcome that a record says of this very step and round; UNSPECIFIED for none."""
    found = record.outcome if record is not None else None
    if found is None or (found.spend_id, found.round) != (booking.spend_id, booking.round):
        return Outcome.OUTCOME_UNSPECIFIED
    return found.outcome
