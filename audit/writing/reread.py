"""Reads JetStream again from a day on: drops the days' partitions, and the writer does the rest.

Dropping whole partitions is the one way that also makes the server forget the batches' tokens, so that the
same batches may come again. Safe only while JetStream still has everything from that day on: that is
checked first.
"""

from collections.abc import Mapping
from datetime import date
from typing import Any

_KEPT = """
SELECT js_stream, min(js_seq) FROM events WHERE toDate(js_time) >= {day:Date} GROUP BY js_stream
"""
_PARTITIONS = """
SELECT DISTINCT partition FROM system.parts
WHERE database = currentDatabase() AND table = 'events' AND active AND partition >= {day:String}
ORDER BY partition
"""


class RereadError(Exception):
    """Reading again would lose rows, or there is nothing to read again."""


def first_needed(client: Any, day: date) -> dict[str, int]:
    """Return the first sequence of each stream that would have to be read again."""
    rows = client.query(_KEPT, parameters={"day": day}).result_rows
    return {str(stream): int(first) for stream, first in rows}


def check(needed: Mapping[str, int], available: Mapping[str, int]) -> None:
    """Raise RereadError unless JetStream, from its first sequences on, has all that would be dropped."""
    if not needed:
        raise RereadError("the store has no rows of that day or later")
    for stream, first in needed.items():
        if available.get(stream, first + 1) > first:
            raise RereadError(
                f"stream `{stream}` begins after {first}: rows would be lost; choose a later day"
            )


def drop(client: Any, day: date) -> list[str]:
    """Drop the partitions of `day` and later; return them. Stop the writer before."""
    rows = client.query(_PARTITIONS, parameters={"day": day.isoformat()}).result_rows
    dropped = [str(partition) for (partition,) in rows]
    for partition in dropped:
        client.command(f"ALTER TABLE events DROP PARTITION '{date.fromisoformat(partition)}'")
    return dropped
