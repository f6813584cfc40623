"""The book of budgets in JetStream: every change of balances and bookings, many at once, all or none.

One worker for each process takes what waits, makes the changes on what it knows, and writes them as one
atomic batch in which every record stands under compare-and-set. Who loses reads again and tries again, so
whatever number of deciders write, balances are exact, and one of them always gets on.

Guaranteed: a change whose `change` returned `Done` is stored. A refusal rests on a balance read from the
leader after it was asked. After `StreamsError` a change may be stored or not: nothing may leave on it, and
what was booked ends like every booking whose permit was not spent.
"""

import asyncio
import logging
import random
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from decider.budgets.booking import Balance, Book, Booking, Change, Exhausted, Result, Stale, apply
from decider.budgets.budget import DAY_MS, MAX_LINES, Account
from decider.budgets.records import (
    RecordRefused,
    balance_bytes,
    booking_bytes,
    read_balance,
    read_booking,
)
from decider.own_record import seal
from licet.log import log
from licet.streams import (
    MAX_BATCH,
    WRONG_SEQUENCE,
    Batched,
    Publisher,
    StoreRefused,
    StoreUnavailable,
    StreamsError,
    check_streams,
    list_subjects,
    publish_batch,
    read_last,
    stream_budget,
    subject_balance,
    subject_booking,
)

logger = logging.getLogger(__name__)

MAX_WAITING: Final = 10_000
"""Changes that may wait in one process; one more is refused."""
MAX_TRIES: Final = 100
"""How often a batch that lost is tried again."""
MAX_KNOWN: Final = 50_000
"""Balances that are remembered; the rest is read again."""
KEPT_MS: Final = 7 * DAY_MS
"""How long the balance of a period that is over can still be looked at."""
GONE_S: Final = 1
"""After how long the server lets go of a booking that is over."""
BACK_OFF_S: Final = 0.001
MAX_BACK_OFF_S: Final = 0.02
MAX_READS: Final = 64
"""Reads on their way at once."""


@dataclass(slots=True)
class _Waiting:
    change: Change
    result: "asyncio.Future[Result]"


@dataclass(slots=True)
class _Draft:
    """Changes made on what is known, not yet written."""

    known: "_Known"
    balances: dict[str, Balance] = field(default_factory=dict)
    bookings: dict[str, Booking] = field(default_factory=dict)

    def balance(self, account: Account) -> Balance:
        """Return a balance as the changes before left it."""
        found = self.balances.get(account.account_id)
        return found if found is not None else self.known.balances[account.account_id]

    def booking(self, spend_id: str) -> Booking | None:
        """Return a booking as the changes before left it."""
        found = self.bookings.get(spend_id)
        return found if found is not None else self.known.bookings.get(spend_id)

    def put(self, balances: Iterable[Balance], booking: Booking) -> None:
        """Note what a change writes."""
        self.balances.update({one.account.account_id: one for one in balances})
        self.bookings[booking.spend_id] = booking


@dataclass(slots=True)
class _Known:
    """What this process knows of the stream; may be behind, and then a batch is refused."""

    balances: OrderedDict[str, Balance] = field(default_factory=OrderedDict)
    bookings: dict[str, Booking] = field(default_factory=dict)

    def keep(self, draft: _Draft, first_seq: int) -> None:
        """Take what was written, in the order of the batch."""
        seq = first_seq
        for account_id, balance in draft.balances.items():
            self.balances[account_id] = replace(balance, seq=seq)
            self.balances.move_to_end(account_id)
            seq += 1
        for spend_id, booking in draft.bookings.items():
            if booking.claims:
                self.bookings[spend_id] = replace(booking, seq=seq)
            else:
                self.bookings.pop(spend_id, None)
            seq += 1
        while len(self.balances) > MAX_KNOWN:
            self.balances.popitem(last=False)


class BudgetBook:
    """The book of one environment; `run` does the work.

    Args:
        publisher: Of a connection that may write the budget stream.
        environment: Whose book.
        key: Of the records (`budget_key`).
        decider: The instance's name, for the record.
        wall_ms: Unix ms.
    """

    def __init__(
        self,
        publisher: Publisher,
        environment: str,
        key: bytes,
        *,
        decider: str,
        wall_ms: Callable[[], int],
    ) -> None:
        self._publisher, self._environment, self._key = publisher, environment, key
        self._decider, self._wall_ms = decider, wall_ms
        self._stream = stream_budget(environment)
        self._waiting: asyncio.Queue[_Waiting] = asyncio.Queue(MAX_WAITING)
        self._known = _Known()
        self._reads = asyncio.Semaphore(MAX_READS)
        self._checked_at_ms = -1
        self.lost = 0
        """Batches that were refused because another decider was first."""

    async def change(self, change: Change) -> Result:
        """Make a change. Raises `StreamsError` where it may not have been made."""
        waiting = _Waiting(change, asyncio.get_running_loop().create_future())
        try:
            self._waiting.put_nowait(waiting)
        except asyncio.QueueFull:
            raise StoreUnavailable(f"{MAX_WAITING} bookings wait", maybe_stored=False) from None
        return await waiting.result

    async def run(self) -> None:
        """Make the changes that wait, until cancelled."""
        while True:
            group = self._group(await self._waiting.get())
            try:
                await self._commit(group)
            except BaseException as error:
                self._fail(group, error)
                if not isinstance(error, Exception):
                    raise

    def _group(self, first: _Waiting) -> list[_Waiting]:
        """Take what waits, as much as surely fits one batch."""
        group, accounts, unknown = [first], self._touched(first.change), 0
        while not self._waiting.empty() and len(group) + len(accounts) + unknown < MAX_BATCH - 4 * MAX_LINES:
            waiting = self._waiting.get_nowait()
            touched = self._touched(waiting.change)
            unknown += 0 if touched else 2 * MAX_LINES
            accounts |= touched
            group.append(waiting)
        return group

    def _touched(self, change: Change) -> set[str]:
        """Return the accounts that a change is about, as far as they are known."""
        known = self._known.bookings.get(change.spend_id)
        touched = set(known.accounts or ()) if known is not None else set()
        return touched | {line.account.account_id for line in getattr(change, "lines", ())}

    def _fail(self, group: Sequence[_Waiting], error: BaseException) -> None:
        told = error if isinstance(error, StreamsError) else StoreUnavailable("the booking was given up")
        if isinstance(error, Exception) and not isinstance(error, StreamsError):
            log(logger, logging.ERROR, "budgets.fault", detail=type(error).__name__)
        for waiting in group:
            if not waiting.result.done():
                waiting.result.set_exception(told)

    async def _commit(self, group: Sequence[_Waiting]) -> None:
        await self._check()
        changes = [waiting.change for waiting in group]
        fresh: set[str] = set()
        for attempt in range(MAX_TRIES):
            draft, results = await self._planned(changes, fresh)
            messages = self._messages(draft)
            try:
                if messages:
                    ack = await publish_batch(self._publisher, messages)
                    self._known.keep(draft, ack.seq - len(messages) + 1)
            except StoreRefused as refused:
                if refused.err_code not in WRONG_SEQUENCE:
                    raise
                self.lost += 1
                fresh = await self._look_again(draft)
                await asyncio.sleep(random.uniform(0, min(attempt * BACK_OFF_S, MAX_BACK_OFF_S)))  # noqa: S311 - no secret: spreads retries
                continue
            except StoreUnavailable:
                await self._forget(draft)
                raise
            for waiting, result in zip(group, results, strict=True):
                if not waiting.result.done():
                    waiting.result.set_result(result)
            return
        raise StoreUnavailable(f"other deciders were first {MAX_TRIES} times", maybe_stored=False)

    async def _planned(self, changes: Sequence[Change], fresh: set[str]) -> tuple[_Draft, list[Result]]:
        """Make the changes on what is known; what would be refused is looked at again first."""
        await self._learn(changes)
        while True:
            draft = _Draft(self._known)
            results = [apply(change, draft) for change in changes]
            doubtful: dict[str, Account] = {}
            steps: set[str] = set()
            for change, result in zip(changes, results, strict=True):
                if isinstance(result, Exhausted | Stale):
                    doubtful[result.line.account.account_id] = result.line.account
                    steps.add(change.spend_id)
            doubtful = {name: account for name, account in doubtful.items() if name not in fresh}
            steps -= fresh
            if not doubtful and not steps:
                return draft, results
            await self._read(doubtful.values(), steps)
            fresh.update(doubtful, steps)
            await self._learn(changes)

    async def _learn(self, changes: Sequence[Change]) -> None:
        """Read what the changes need and nobody knows yet; a new step is taken to have booked nothing."""
        steps = {one.spend_id for one in changes if not isinstance(one, Book)}
        await self._read((), steps - self._known.bookings.keys())
        needed: dict[str, Account] = {}
        for change in changes:
            if isinstance(change, Book):
                needed.update({line.account.account_id: line.account for line in change.lines})
            booking = self._known.bookings.get(change.spend_id)
            needed.update(booking.accounts or {} if booking is not None else {})
        await self._read([needed[name] for name in needed.keys() - self._known.balances.keys()], ())

    async def _look_again(self, draft: _Draft) -> set[str]:
        """After a lost batch: read the balances, and the bookings where no balance has moved."""
        before = {name: balance.seq for name, balance in draft.balances.items()}
        await self._read([balance.account for balance in draft.balances.values()], ())
        if all(self._known.balances[name].seq == seq for name, seq in before.items()):
            await self._read((), draft.bookings)
        return set(before)

    def forget(self, spend_id: str) -> None:
        """Forget a booking that somebody else ended; it is read again should it be needed."""
        self._known.bookings.pop(spend_id, None)

    async def _forget(self, draft: _Draft) -> None:
        """After a batch whose fate is open: read everything when it is needed again."""
        for name in draft.balances:
            self._known.balances.pop(name, None)
        for name in draft.bookings:
            self._known.bookings.pop(name, None)

    async def _read(self, accounts: Iterable[Account], steps: Iterable[str]) -> None:
        balances = [self._read_balance(account) for account in accounts]
        bookings = [self._read_known(step) for step in steps]
        if balances or bookings:
            await asyncio.gather(*balances, *bookings)

    async def _read_balance(self, account: Account) -> Balance:
        before = self._known.balances.get(account.account_id)
        known_seq = before.seq if before is not None else 0
        subject = subject_balance(self._environment, account.account_id)
        async with self._reads:
            stored = await read_last(self._publisher.nc, self._stream, subject)
        if stored is None:
            if known_seq and account.ends_ms > self._wall_ms():
                raise RecordRefused(f"`{subject}` is gone")
            found = Balance(account)
        else:
            found = read_balance(self._key, stored, known_seq=known_seq)
        self._known.balances[account.account_id] = found
        return found

    async def _read_known(self, spend_id: str) -> None:
        found = await self.booking(spend_id)
        if found is None:
            self._known.bookings.pop(spend_id, None)
        else:
            self._known.bookings[spend_id] = found

    def _messages(self, draft: _Draft) -> list[Batched]:
        now_ms = self._wall_ms()
        messages = []
        for account_id, balance in draft.balances.items():
            subject = subject_balance(self._environment, account_id)
            kept_s = (max(balance.account.ends_ms - now_ms, 0) + KEPT_MS) // 1000
            body = seal(self._key, subject, balance_bytes(balance))
            messages.append(Batched(subject, body, balance.seq, kept_s))
        for spend_id, booking in draft.bookings.items():
            subject = subject_booking(self._environment, spend_id)
            body = seal(self._key, subject, booking_bytes(booking, self._decider))
            messages.append(Batched(subject, body, booking.seq, 0 if booking.claims else GONE_S))
        return messages

    async def _check(self) -> None:
        """Look at the stream's settings once for each connection: unsafe ones would lose bookings."""
        at_ms = self._publisher.reconnected_at_ms
        if at_ms == self._checked_at_ms:
            return
        found = await check_streams(self._publisher.nc, self._environment, only=frozenset({self._stream}))
        if found:
            raise StoreUnavailable(f"{found[0]}: run `licet streams apply`", maybe_stored=False)
        self._checked_at_ms = at_ms

    async def balances(self, accounts: Sequence[Account]) -> tuple[Balance, ...]:
        """Return balances as the leader has them now. Raises `StreamsError`."""
        return tuple(await asyncio.gather(*(self._look(account) for account in accounts)))

    async def _look(self, account: Account) -> Balance:
        subject = subject_balance(self._environment, account.account_id)
        async with self._reads:
            stored = await read_last(self._publisher.nc, self._stream, subject)
        return Balance(account) if stored is None else read_balance(self._key, stored)

    async def booking(self, spend_id: str) -> Booking | None:
        """Return what a step has booked, as the leader has it now. Raises `StreamsError`."""
        subject = subject_booking(self._environment, spend_id)
        async with self._reads:
            stored = await read_last(self._publisher.nc, self._stream, subject)
        return None if stored is None else read_booking(self._key, stored)

    async def listed(self, kind: str) -> tuple[str, ...]:
        """Return the ids of every `balance` or `booking` record. Raises `StreamsError`."""
        pattern = f"licet.budget.{self._environment}.{kind}.*"
        found = await list_subjects(self._publisher.nc, self._stream, pattern)
        return tuple(subject.rpartition(".")[2] for subject in found)

    async def every_balance(self) -> tuple[Balance, ...]:
        """Return every balance there is. Raises `StreamsError`."""
        accounts = [Account(name, "", 0) for name in await self.listed("balance")]
        return tuple(one for one in await self.balances(accounts) if one.seq)

    async def every_booking(self) -> tuple[Booking, ...]:
        """Return every booking that is open. Raises `StreamsError`."""
        found = await asyncio.gather(*(self.booking(name) for name in await self.listed("booking")))
        return tuple(one for one in found if one is not None and one.claims)
