"""Spans kept in one SQLite file, so that a trace can be read without a tracing backend.

Guarantees: a span that `add` returned for outlives the process; the same span sent twice is kept once. Not
for production: no retention, no search but by trace id.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from licet import telemetry

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS spans (
  trace_id TEXT NOT NULL, span_id TEXT NOT NULL, parent_id TEXT NOT NULL, service TEXT NOT NULL,
  name TEXT NOT NULL, kind TEXT NOT NULL, start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL,
  error TEXT NOT NULL, attributes TEXT NOT NULL, links TEXT NOT NULL,
  PRIMARY KEY (trace_id, span_id)
)
"""


OWN_TRACES: Final = (telemetry.SPAN_AUDIT_WRITE, telemetry.SPAN_RECONCILE, telemetry.SPAN_APPROVAL_WAIT)
"""Spans that begin a trace that is no call."""


@dataclass(frozen=True, slots=True)
class StoredSpan:
    """One span as it arrived: ids lower hex, times Unix ns, `links` as (trace id, span id)."""

    trace_id: str
    span_id: str
    parent_id: str
    service: str
    name: str
    kind: str
    start_ns: int
    end_ns: int
    error: str
    attributes: Mapping[str, object]
    links: tuple[tuple[str, str], ...]


class TraceStore:
    """Spans in a SQLite file; one process writes, others may read."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=NORMAL")  # a power cut may cost the last traces
        self._connection.execute(_SCHEMA)

    def add(self, spans: Iterable[StoredSpan]) -> None:
        """Keep spans; one that is already there stays as it was."""
        rows = [
            (
                *(one.trace_id, one.span_id, one.parent_id, one.service, one.name, one.kind),
                *(one.start_ns, one.end_ns, one.error),
                *(json.dumps(dict(one.attributes), sort_keys=True), json.dumps(one.links)),
            )
            for one in spans
        ]
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            self._connection.executemany("INSERT OR IGNORE INTO spans VALUES (?,?,?,?,?,?,?,?,?,?,?)", rows)
        finally:
            self._connection.execute("COMMIT")

    def trace(self, trace_id: str) -> tuple[StoredSpan, ...]:
        """Give the spans of a trace by start; empty when there are none."""
        rows = self._connection.execute(
            "SELECT * FROM spans WHERE trace_id = ? ORDER BY start_ns, end_ns DESC", (trace_id,)
        )
        return tuple(_span(row) for row in rows)

    def linked_to(self, trace_id: str) -> tuple[StoredSpan, ...]:
        """Give spans of other traces that link to this one, such as the reconciler's."""
        rows = self._connection.execute(
            "SELECT * FROM spans WHERE trace_id != ? AND links LIKE ? ORDER BY start_ns",
            (trace_id, f'%"{trace_id}"%'),
        )
        return tuple(_span(row) for row in rows)

    def whole_id(self, beginning: str) -> str | None:
        """Give the one trace id that begins so; None when there is none, or more than one."""
        if not beginning or not beginning.isalnum():
            return None
        query = "SELECT DISTINCT trace_id FROM spans WHERE substr(trace_id, 1, ?) = ? LIMIT 2"
        found = self._connection.execute(query, (len(beginning), beginning.lower())).fetchall()
        return str(found[0][0]) if len(found) == 1 else None

    def latest(self) -> str | None:
        """Give the trace id of the newest call; None while there is none. What licet does alone is none."""
        query = "SELECT trace_id FROM spans WHERE name NOT IN (?, ?, ?) ORDER BY start_ns DESC LIMIT 1"
        row = self._connection.execute(query, OWN_TRACES).fetchone()
        return str(row[0]) if row else None

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _span(row: tuple[str, str, str, str, str, str, int, int, str, str, str]) -> StoredSpan:
    trace, span, parent, service, name, kind, start, end, error, attributes, links = row
    pairs = tuple((linked_trace, linked_span) for linked_trace, linked_span in json.loads(links))
    return StoredSpan(
        trace, span, parent, service, name, kind, start, end, error, json.loads(attributes), pairs
    )
