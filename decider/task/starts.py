"""When a task of the tasks file that does not say so itself began: at the first start of any decider with it.

`licet.config.<env>.started.<hash of the id>` holds that moment, written once, so that a restart gives no task
its time again: the spends of a step at an unguarded tool are remembered for a day, and a task that outlived
them could do the step twice. The record begins with an HMAC under a key that only deciders have. Guaranteed:
a task whose record no decider wrote is over, and said to be in the log. Not guaranteed: that a task which was
taken out of the file and put back under its id begins anew; it does not.
"""

import asyncio
import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from decider.own_record import seal, unseal
from decider.task.tasks import Task, Tasks
from licet.call import tool_key
from licet.log import log
from licet.streams import Publisher, StoreUnavailable, read_last, replace_last, stream_config

logger = logging.getLogger(__name__)

AT_ONCE: Final = 64
"""How many tasks are asked for at once."""

MAX_NAMED: Final = 20


class FirstStarts:
    """The first starts of an environment's tasks. `master` is its digest master key."""

    def __init__(self, publisher: Publisher, environment: str, master: bytes) -> None:
        self._publisher, self._environment = publisher, environment
        self._key = tool_key(master, "licet-task-starts", 0)

    async def kept(self, tasks: Tasks, now_ms: int) -> Tasks:
        """Return the tasks, each with the end that its first start gives it. Raises `StreamsError`."""
        open_ended = [task for task in tasks.values() if task.life_ms]
        ended = dict(tasks)
        for first in range(0, len(open_ended), AT_ONCE):
            ended.update(await self._ends(open_ended[first : first + AT_ONCE], now_ms))
        _tell_over(ended.values(), now_ms)
        return MappingProxyType(ended)

    async def _ends(self, listed: Sequence[Task], now_ms: int) -> Mapping[str, Task]:
        starts = await asyncio.gather(*(self._start(task.task_id, now_ms) for task in listed))
        return {
            task.task_id: replace(task, not_after_ms=start + task.life_ms if start else 0)
            for task, start in zip(listed, starts, strict=True)
        }

    async def _start(self, task_id: str, now_ms: int) -> int:
        """Return when a task began, Unix ms, now if nobody has said; 0 where the record is nobody's."""
        token = hashlib.sha256(task_id.encode()).hexdigest()[:32]
        subject = f"licet.config.{self._environment}.started.{token}"
        stored = await self._read(subject)
        if stored is None:
            text = str(now_ms).encode("ascii")
            if await replace_last(self._publisher, subject, seal(self._key, subject, text), 0) is not None:
                return now_ms
            stored = await self._read(subject)
        if stored is None:
            raise StoreUnavailable(f"`{subject}` was written by another and cannot be read")
        said = unseal(self._key, subject, stored)
        if said is None:
            log(logger, logging.ERROR, "task.start_forged", task_id=task_id, detail="no decider wrote it")
            return 0
        return int(said)

    async def _read(self, subject: str) -> bytes | None:
        stored = await read_last(self._publisher.nc, stream_config(self._environment), subject)
        return stored.data if stored is not None else None


def _tell_over(tasks: Iterable[Task], now_ms: int) -> None:
    over = sorted(task.task_id for task in tasks if task.not_after_ms <= now_ms)
    if over:
        named = ", ".join(over[:MAX_NAMED])
        detail = f"{len(over)} of the tasks file: {named}; work that goes on needs a task with a new id"
        log(logger, logging.WARNING, "task.over", detail=detail)
