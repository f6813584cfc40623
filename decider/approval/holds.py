"""Hold records and the answers to them, in JetStream: each written once and never replaced.

They live in the configuration stream, where only deciders write, under `licet.config.<env>.hold.<task>.<hold
id>`: `record` is the hold's exact bytes, `answer.<person>` one signed answer, `told.<person>` that its event
is out. Written-once by compare-and-set against *none*: of two at once one wins, and the other reads what the
winner wrote. Replaced is only `<step>.asked` beside them, which names the hold that a step is judged by now,
for people to see. Reads go to the leader. A decider that restarts has lost nothing.
"""

import hashlib
from dataclasses import dataclass
from typing import Final

from decider.approval.roll import Roll, unix_ms
from decider.decision.rounds import standing_of
from licet.keys import KeySet
from licet.spend import is_hex32
from licet.statement import canonical, parse_signed
from licet.streams import (
    Publisher,
    Reserve,
    StoreUnavailable,
    StreamsError,
    list_subjects,
    read_last,
    replace_last,
    stream_config,
)
from licet.v1.hold_pb2 import Hold
from licet.v1.statement_pb2 import Signed

MAX_HOLDS_PER_TASK: Final = 100
"""How many holds one task may ever have; beyond it its calls are denied."""


class TooManyHolds(Exception):  # noqa: N818 - a state, told to callers as a denial
    """The task has made as many holds as it may."""


def _token(text: str) -> str:
    """Return a fixed token for a text from outside: it can name no other subject."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Answered:
    """A stored answer that is not yet verified, where it lies, and when the store took it, Unix ms."""

    subject: str
    record: bytes
    signed: Signed
    stored_ms: int


class Holds:
    """The holds of one environment."""

    def __init__(self, publisher: Publisher, environment: str) -> None:
        self._publisher, self._environment = publisher, environment
        self._stream = stream_config(environment)
        self._reserve = Reserve(publisher.nc, self._stream)
        self._prefix = f"licet.config.{environment}.hold"
        self._roll = Roll(publisher.nc, self._stream, f"{self._prefix}.*.*.record")

    async def stream_used(self) -> float:
        """Return which share of the stream they lie in is used. Raises `StreamsError`."""
        return await self._reserve.used()

    async def ensure(self, hold: Hold) -> tuple[bytes, bool]:
        """Return the stored bytes of this hold, writing them if nobody has; True where they are new.

        Raises `TooManyHolds`, `StreamsError`, also where no room is left for a new one.
        """
        subject = f"{self._prefix}.{_token(hold.task_id)}.{hold.hold_id}.record"
        stored = await self._read(subject)
        if stored is not None:
            return stored, False
        held = await self._subjects(f"{self._prefix}.{_token(hold.task_id)}.*.record")
        if len(held) >= MAX_HOLDS_PER_TASK:
            raise TooManyHolds(f"task `{hold.task_id}` has {len(held)} holds")
        body = canonical(hold)
        await self._reserve.room(len(body))
        if await self._write_once(subject, body):
            return body, True
        stored = await self._read(subject)
        if stored is None:
            raise StreamsError(f"hold `{hold.hold_id}` was written by another and cannot be read")
        return stored, False

    async def find(self, hold_id: str) -> bytes | None:
        """Return the stored bytes of a hold; None where there is none. Raises `StreamsError`."""
        return await self._read(f"{self._prefix}.*.{hold_id}.record") if is_hex32(hold_id) else None

    async def answers(self, hold: Hold) -> tuple[Signed, ...]:
        """Return every stored answer to a hold, not yet verified. Raises `StreamsError`."""
        base = f"{self._prefix}.{_token(hold.task_id)}.{hold.hold_id}.answer"
        found = []
        for subject in await self._subjects(f"{base}.*"):
            body = await self._read(subject)
            signed = parse_signed(body) if body is not None else None
            if isinstance(signed, Signed):
                found.append(signed)
        return tuple(found)

    async def answer(self, hold: Hold, approver: str, signed: Signed) -> bool:
        """Store one person's answer; False where that person has answered already. Raises `StreamsError`."""
        return await self._write_once(self._answer_of(hold, approver), canonical(signed))

    async def ask(self, hold: Hold, *, again: bool = False) -> None:
        """Note that this is the hold its step is judged by now. Raises `StreamsError`.

        `again`: only where another one stands noted. For people alone: no decision reads it, of two deciders
        at once either's word may stand, and where no room is left it is not noted.
        """
        subject, body = self._asked(hold), hold.hold_id.encode()
        stored = await read_last(self._publisher.nc, self._stream, subject)
        if stored is None and again:
            return
        if stored is None or stored.data != body:
            try:
                await self._reserve.room(len(body))
            except StoreUnavailable:
                return
            await replace_last(self._publisher, subject, body, stored.seq if stored is not None else 0)

    async def is_superseded(self, hold: Hold) -> bool:
        """Tell whether the step was judged by another hold when it last was by any. Raises `StreamsError`."""
        asked = await self._read(self._asked(hold))
        return asked is not None and asked != hold.hold_id.encode()

    async def is_executed(self, hold: Hold, keys: KeySet, now_ms: int) -> bool:
        """Tell whether the hold's step has had its effect: nobody needs to answer. Raises `StreamsError`."""
        tool = hold.audience.rpartition("/")[2]
        try:
            standing = await standing_of(
                self._publisher.nc,
                keys,
                environment=self._environment,
                tool=tool,
                audience=hold.audience,
                spend_id=hold.spend_id,
                now_ms=now_ms,
            )
        except ValueError:  # of a tool or a step that there cannot be
            return False
        return standing.executed

    def _asked(self, hold: Hold) -> str:
        return f"{self._prefix}.{_token(hold.task_id)}.{_token(hold.spend_id)}.asked"

    async def mark_told(self, hold: Hold, approver: str) -> None:
        """Say once that a stored answer was told. Raises `StreamsError`."""
        await self._write_once(self._answer_of(hold, approver).replace(".answer.", ".told."), b"told")

    async def untold(self, before_ms: int, *, leave: frozenset[str]) -> tuple["Answered", ...]:
        """Return the answers of all holds that were stored by `before_ms`, Unix ms, and that nobody told.

        `leave`: subjects to leave out. Raises `StreamsError`.
        """
        told = await self._subjects(f"{self._prefix}.*.*.told.*")
        known = leave.union(subject.replace(".told.", ".answer.") for subject in told)
        found = []
        for subject in await self._subjects(f"{self._prefix}.*.*.answer.*"):
            stored = None
            if subject not in known:
                stored = await read_last(self._publisher.nc, self._stream, subject)
            if stored is None or unix_ms(stored.time) > before_ms:
                continue
            record = await self._read(f"{subject.partition('.answer.')[0]}.record")
            signed = parse_signed(stored.data)
            if record is not None and isinstance(signed, Signed):
                found.append(Answered(subject, record, signed, unix_ms(stored.time)))
        return tuple(found)

    def is_place_of(self, hold: Hold, approver: str, subject: str) -> bool:
        """Tell whether this is where an answer of this person to this hold lies."""
        return subject == self._answer_of(hold, approver)

    def _answer_of(self, hold: Hold, approver: str) -> str:
        return f"{self._prefix}.{_token(hold.task_id)}.{hold.hold_id}.answer.{_token(approver)}"

    async def is_marked(self, hold: Hold) -> bool:
        """Tell whether somebody has said that this hold ran out. Raises `StreamsError`."""
        return await self._read(self._marker(hold)) is not None

    async def mark(self, hold: Hold) -> bool:
        """Say once that this hold ran out; False where somebody has. Raises `StreamsError`."""
        return await self._write_once(self._marker(hold), b"expired")

    def _marker(self, hold: Hold) -> str:
        return f"{self._prefix}.{_token(hold.task_id)}.{hold.hold_id}.expired"

    async def listed(self) -> tuple[bytes, ...]:
        """Return the newest hold records, at most `MAX_LISTED`. Raises `StreamsError`."""
        return tuple(record for _, record in await self.dated())

    async def dated(self) -> tuple[tuple[int, bytes], ...]:
        """Return what `listed` does, each with when the store took it, Unix ms. Raises `StreamsError`."""
        return await self._roll.newest()

    async def _read(self, subject: str) -> bytes | None:
        stored = await read_last(self._publisher.nc, self._stream, subject)
        return stored.data if stored is not None else None

    async def _subjects(self, pattern: str) -> tuple[str, ...]:
        return await list_subjects(self._publisher.nc, self._stream, pattern)

    async def _write_once(self, subject: str, body: bytes) -> bool:
        return await replace_last(self._publisher, subject, body, 0) is not None
