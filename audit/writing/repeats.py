"""Events that a source sent again: told by what the store has, so that nothing is counted twice.

A journal sends again whatever has no ack when it comes back; beyond JetStream's deduplication window of 120 s
the stream then holds the event twice, byte for byte. Only an event whose number is not above all that were
seen of its run can be one, so the store is asked about few.
"""

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

from audit.store.row import Head
from audit.store.stored import Stored, Unreadable

MAX_RUNS: Final = 20_000
"""Runs remembered; the store is asked about the first event of a forgotten one."""
_KNOWN: Final = """
SELECT event_id, lower(hex(SHA256(event))) FROM events
WHERE event_id IN {ids:Array(String)} AND kind != 'quarantined'
"""


class Repeats:
    """Which events of a batch are repetitions, over a clickhouse-connect client. Calls block."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._newest: OrderedDict[tuple[str, str], int] = OrderedDict()

    def of(self, batch: Sequence[Stored], heads: Sequence[Head | Unreadable]) -> frozenset[int]:
        """Return the sequences of messages whose very event is stored already, or earlier in the batch.

        `heads`: what the messages are. What can be no row is none that another may repeat: else somebody who
        knows an event before it is stored could say it under a subject of its own, and the true one were not
        counted.
        """
        suspects: dict[int, tuple[str, str]] = {}
        inside: dict[str, bytes] = {}
        repeated: set[int] = set()
        for message, head in zip(batch, heads, strict=True):
            if isinstance(head, Unreadable):
                continue
            event_id = head.event_id
            if not self._is_suspect(head):
                inside[event_id] = message.data
            elif inside.setdefault(event_id, b"") == message.data:
                repeated.add(message.seq)
            else:
                suspects[message.seq] = (event_id, sha256(message.data).hexdigest())
                inside[event_id] = message.data
        if suspects:
            ids = sorted({event_id for event_id, _ in suspects.values()})
            rows = self._client.query(_KNOWN, parameters={"ids": ids}).result_rows
            known = {(str(event_id), str(digest)) for event_id, digest in rows}
            repeated |= {seq for seq, mark in suspects.items() if mark in known}
        return frozenset(repeated)

    def _is_suspect(self, head: Head) -> bool:
        run = (head.source, head.stream)
        newest = self._newest.get(run)
        if newest is not None and head.seq <= newest:
            return True
        self._newest[run] = head.seq
        self._newest.move_to_end(run)
        if len(self._newest) > MAX_RUNS:
            self._newest.popitem(last=False)
        return newest is None
