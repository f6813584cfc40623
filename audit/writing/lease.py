"""Who writes a stream: one writer at a time, by a row in ClickHouse that only one can put there.

Guarantees: of two writers that want the same term at the same moment one gets it, because an insert whose
deduplication token was used before is dropped by the server. A writer that has not renewed for LEASE_S, by
the server's clock, is succeeded. Exactness does not rest on this: two writers that both believe they hold
the lease still store every message once (audit.writing.writer). The lease only spares the second one's work.
"""

from dataclasses import dataclass
from typing import Any, Final

LEASE_S: Final = 15
"""Seconds after which a silent writer is succeeded."""
RENEW_S: Final = 5
"""Seconds between renewals."""


@dataclass(frozen=True, slots=True)
class Term:
    """The newest term of a stream: its number, who has it (empty: given back), and its age in seconds."""

    number: int
    holder: str
    age_s: float

    def open_to(self, holder: str) -> bool:
        """Whether `holder` may ask for the next term."""
        return self.holder in {"", holder} or self.age_s > LEASE_S


class Lease:
    """The lease on one stream, over a clickhouse-connect client. Calls block and raise what it raises."""

    def __init__(self, client: Any, stream: str, holder: str) -> None:
        self._client = client
        self._stream = stream
        self._holder = holder

    def acquire(self) -> bool:
        """Take or renew the lease; False while somebody else has it."""
        newest = self._newest()
        if not newest.open_to(self._holder):
            return False
        return self._put(newest.number + 1, self._holder)

    def release(self) -> None:
        """Give the lease back, if it is ours, so that the next writer need not wait."""
        newest = self._newest()
        if newest.holder == self._holder:
            self._put(newest.number + 1, "")

    def _newest(self) -> Term:
        rows = self._client.query(
            "SELECT term, holder, dateDiff('millisecond', at, now64(3)) / 1000 FROM leases"
            " WHERE js_stream = {stream:String} ORDER BY term DESC LIMIT 1",
            parameters={"stream": self._stream},
        ).result_rows
        return Term(int(rows[0][0]), str(rows[0][1]), float(rows[0][2])) if rows else Term(0, "", 0.0)

    def _put(self, term: int, holder: str) -> bool:
        """Put a term that nobody has put before; return whether it is ours."""
        self._client.insert(
            "leases",
            [[self._stream, term, holder]],
            column_names=["js_stream", "term", "holder"],
            settings={"insert_deduplication_token": f"lease:{self._stream}:{term}"},
        )
        newest = self._newest()
        return (newest.number, newest.holder) == (term, holder)
