"""Registered tasks in JetStream: one signed record each, in the configuration stream.

`licet.config.<env>.task.<hash of the id>` holds a `Task` signed by the deciders' task key. It is written once
and replaced only by the same task, closed; by compare-and-set, read from the leader at each decision. So
every decider knows of a task and of its end at once, and a restart loses nothing. NATS cannot make a task: a
record that does not verify is no task, and no decision is made on it.

Nor can it open one again: whatever lies under `.closed` beside the record closes the task, that stream
deletes nothing, and each decision asks for both. An older record put back, signed as it is, changes nothing.
"""

import asyncio
import hashlib
from dataclasses import replace
from typing import Final

from decider.budgets.source import load_budgets
from decider.decision.envelope import House
from decider.task.contract_source import load_contract
from decider.task.tasks import TASK_ID, Task
from licet.keys import KeySet
from licet.refusal import Reason, Refusal
from licet.statement import PayloadType, SigningKey, canonical, parse_signed, strict_parse, verify
from licet.streams import (
    Publisher,
    Reserve,
    StoredMessage,
    StoreUnavailable,
    read_last,
    replace_last,
    stream_config,
)
from licet.v1 import task_pb2

RECORD_VERSION: Final = 1
CLOSED: Final = ".closed"
"""Under the task's subject and this lies what closed it."""


class TaskStore:
    """The registered tasks of one environment; without a key none can be registered or closed here."""

    def __init__(self, publisher: Publisher, environment: str, key: SigningKey | None) -> None:
        self._publisher, self._environment, self._key = publisher, environment, key
        self._reserve = Reserve(publisher.nc, stream_config(environment))

    @property
    def writable(self) -> bool:
        """Whether this decider may sign tasks."""
        return self._key is not None

    def _subject(self, task_id: str) -> str:
        token = hashlib.sha256(task_id.encode()).hexdigest()[:32]
        return f"licet.config.{self._environment}.task.{token}"

    async def record(self, task_id: str, keys: KeySet, now_ms: int) -> tuple[task_pb2.Task, int] | None:
        """Return the stored task of this id and its sequence, None where there is none.

        Raises `StreamsError`, also for a record that cannot be believed.
        """
        if not TASK_ID.match(task_id):
            return None
        subject = self._subject(task_id)
        stored, closed = await asyncio.gather(self._last(subject), self._last(subject + CLOSED))
        if stored is None:
            return None
        task = self._believed(stored, task_id, keys, now_ms)
        if isinstance(task, Refusal):
            raise StoreUnavailable(f"the stored task cannot be believed: {task.detail}")
        if closed is not None and not task.closed_at_ms:
            end = self._believed(closed, task_id, keys, now_ms)
            if not isinstance(end, Refusal) and end.closed_at_ms:
                return end, stored.seq
            task.closed_at_ms = max(task.registered_at_ms, 1)  # by what cannot be read, but closed
        return task, stored.seq

    async def _last(self, subject: str) -> StoredMessage | None:
        return await read_last(self._publisher.nc, stream_config(self._environment), subject)

    def _believed(
        self, stored: StoredMessage, task_id: str, keys: KeySet, now_ms: int
    ) -> task_pb2.Task | Refusal:
        signed = parse_signed(stored.data)
        payload = (
            signed if isinstance(signed, Refusal) else verify(PayloadType.TASK, signed, keys, now_ms=now_ms)
        )
        task = payload if isinstance(payload, Refusal) else strict_parse(task_pb2.Task, payload)
        if isinstance(task, Refusal):
            return task
        named = (task.version, task.environment, task.task_id)
        if named != (RECORD_VERSION, self._environment, task_id):
            return Refusal(Reason.STORE_UNAVAILABLE, "it is another one")
        return task

    async def find(self, task_id: str, keys: KeySet, now_ms: int) -> Task | None:
        """Return a registered task as decisions rest on it. Raises `StreamsError`."""
        found = await self.record(task_id, keys, now_ms)
        if found is None:
            return None
        try:
            return task_of(found[0])
        except ValueError as error:
            raise StoreUnavailable(f"the stored task cannot be used: {error}") from error

    async def house_with(self, house: House, task_id: str, keys: KeySet, now_ms: int) -> House:
        """Return the house as a request about a task needs it: with that task alone, if it is registered.

        A task of the tasks file needs no look. Raises `StreamsError`.
        """
        if task_id in house.tasks:
            return house
        found = await self.find(task_id, keys, now_ms)
        return house if found is None else replace(house, tasks={task_id: found})

    async def write(self, task: task_pb2.Task, expected_seq: int) -> bool:
        """Store a task where the one at `expected_seq` (0: none) still stands; False where it does not.

        Raises `StreamsError`, also where no room is left for it.
        """
        body = self._signed(task)
        await self._reserve.room(len(body))
        return (
            await replace_last(self._publisher, self._subject(task.task_id), body, expected_seq) is not None
        )

    async def close(self, task: task_pb2.Task) -> None:
        """Close a task for good, with its record as it is to be; again is the same. Raises `StreamsError`.

        A kill in between leaves it closed.
        """
        body, subject = self._signed(task), self._subject(task.task_id)
        await replace_last(self._publisher, subject + CLOSED, body, 0)  # or it is there: closed all the same
        stored = await self._last(subject)
        if stored is not None and stored.data != body:
            await replace_last(self._publisher, subject, body, stored.seq)

    def _signed(self, task: task_pb2.Task) -> bytes:
        if self._key is None:
            raise StoreUnavailable("this decider has no task key", maybe_stored=False)
        return canonical(self._key.sign(PayloadType.TASK, canonical(task)))


def task_of(message: task_pb2.Task) -> Task:
    """Return the task that a verified record spells. Raises ValueError."""
    return Task(
        task_id=message.task_id,
        caller=message.caller,
        agent=message.agent,
        principal=message.principal,
        tenant=message.tenant,
        intent=message.intent,
        not_after_ms=message.not_after_ms,
        contract=load_contract(message.contract),
        delegation=message.delegation,
        budgets=load_budgets(message.budgets),
        closed=message.closed_at_ms > 0,
    )
