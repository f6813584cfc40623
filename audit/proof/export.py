"""One file that proves itself: the events of a task or a time, their chains to a signed checkpoint, the keys.

A file is JSON lines: a head, the root-signed key set, anchors, rows, and a foot with the SHA-256 of all lines
before it. It verifies with nothing but the root key (`licet audit verify --bundle`).

Guarantees: every journal event of the scope comes with the events that follow it in its run up to the first
checkpoint, so that its bytes are under its source's signature. Does not prove that nothing of the task is
missing: a run's events outside these stretches are not in the file; nor the last events of a run that was
killed, which stand under no checkpoint: they come up to its end, with the next run's word that it was. The
anchors are the last checkpoint of each run that the store had; kept elsewhere, they show a later rewriting.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from audit.proof.chain import Anchor
from audit.proof.verify import CHECKED, ORDER
from audit.proof.witness import rows
from licet.event import event_hash
from licet.v1.event_pb2 import Event

FORMAT: Final = "licet-audit-export-1"
MAX_LINE: Final = 8 << 20
MAX_STRETCH: Final = 2_000
"""Events after an event within which its checkpoint must come."""

_RUNS: Final = """
SELECT source, stream, groupArray(seq) FROM events
WHERE length(stream) = 32 AND {condition} GROUP BY source, stream ORDER BY source, stream
"""
_REVOKED: Final = "kind = 'key.revoked'"
_NEXT: Final = """
SELECT min(seq) FROM events
WHERE source = {source:String} AND stream = {stream:String} AND seq >= {seq:UInt64}
  AND kind IN ('checkpoint', 'process.stopped')
"""
_STRETCH: Final = (
    "source = {source:String} AND stream = {stream:String} AND seq BETWEEN {first:UInt64} AND {last:UInt64}"
)
_NEXT_RUN: Final = """
SELECT stream, seq FROM events
WHERE source = {source:String} AND kind = 'process.started' AND previous_stream = {stream:String}
"""
_END: Final = "SELECT max(seq) FROM events WHERE source = {source:String} AND stream = {stream:String}"
_TIPS: Final = """
SELECT source, stream, max(seq) AS last, argMax(event, seq) FROM events
WHERE kind IN ('checkpoint', 'process.stopped') GROUP BY source, stream ORDER BY source, stream
"""


class ExportError(Exception):
    """A file is no export, was damaged, or there is nothing to export."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """An export as it was read: rows in the verifier's order, the signed key set's bytes, anchors."""

    head: Mapping[str, Any]
    keyset: bytes
    anchors: tuple[Anchor, ...]
    rows: tuple[Mapping[str, Any], ...]


def anchors(client: Any) -> Iterator[Anchor]:
    """Yield the last checkpoint of every run: event `seq` of it had the hash `tip`."""
    result = client.query(_TIPS, column_formats={"argMax(event, seq)": "bytes"})
    for source, stream, seq, data in result.result_rows:
        event = Event.FromString(bytes(data))
        yield Anchor(str(source), str(stream), int(seq) - 1, bytes(event.prev_hash))
        yield Anchor(str(source), str(stream), int(seq), event_hash(event.prev_hash, bytes(data)))


def scope_rows(client: Any, condition: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows under `condition`, with the stretches that tie them to checkpoints, in order.

    What deciders recorded of revoked keys comes along: the file must show what was signed too late.
    """
    found = {_key(row): row for row in rows(client, condition, parameters)}
    if not found:
        return []
    found.update((_key(row), row) for row in rows(client, _REVOKED))
    condition = f"({condition} OR {_REVOKED})"
    runs = client.query(_RUNS.replace("{condition}", condition), parameters=dict(parameters)).result_rows
    for source, stream, numbers in runs:
        for run, first, last in _stretches(client, source, stream, sorted(numbers)):
            given = {"source": source, "stream": run, "first": first, "last": last}
            found.update((_key(row), row) for row in rows(client, _STRETCH, given))
    return [found[key] for key in sorted(found)]


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ORDER.split(", "))


def _stretches(
    client: Any, source: str, stream: str, numbers: Sequence[int]
) -> Iterator[tuple[str, int, int]]:
    """Yield run and numbers from each event of the scope up to the checkpoint that covers it.

    A run that was killed has none: then up to its end, and the beginning of the next run, which says so.
    """
    end = 0
    for number in numbers:
        if number <= end:
            continue
        given = {"source": source, "stream": stream, "seq": number}
        found = int(client.query(_NEXT, parameters=given).result_rows[0][0])
        if not found:
            found = int(client.query(_END, parameters=given).result_rows[0][0])
            for run, first in client.query(_NEXT_RUN, parameters=given).result_rows:
                given = {"source": source, "stream": run, "seq": first}
                checkpoint = int(client.query(_NEXT, parameters=given).result_rows[0][0])
                yield str(run), int(first), min(checkpoint or int(first), int(first) + MAX_STRETCH)
        end = min(found, number + MAX_STRETCH)
        yield stream, number, end


def write(
    file: IO[str],
    head: Mapping[str, Any],
    keyset: bytes,
    tips: Iterable[Anchor],
    found: Iterable[Mapping[str, Any]],
) -> int:
    """Write an export and return how many rows it has."""
    digest = hashlib.sha256()
    count = 0

    def line(value: Mapping[str, Any]) -> None:
        text = json.dumps(value, separators=(",", ":"), sort_keys=True) + "\n"
        digest.update(text.encode())
        file.write(text)

    line({"format": FORMAT, **head})
    line({"keyset": base64.b64encode(keyset).decode()})
    for tip in tips:
        line({"anchor": [tip.source, tip.stream, tip.seq, tip.tip.hex()]})
    for row in found:
        line({"row": {name: _out(row[name]) for name in CHECKED}})
        count += 1
    file.write(json.dumps({"sha256": digest.hexdigest(), "rows": count}) + "\n")
    return count


def _out(value: Any) -> Any:
    return {"b64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def read(path: Path) -> Bundle:
    """Read an export; raises ExportError for anything but a whole one. Says nothing about its truth yet."""
    digest = hashlib.sha256()
    values: list[Any] = []
    lines: list[bytes] = []
    try:
        with path.open("rb") as file:
            while text := file.readline(MAX_LINE):
                lines.append(text)
        for text in lines[:-1]:
            digest.update(text)
        values = [json.loads(text) for text in lines]
        if len(values) < 3 or values[0]["format"] != FORMAT:
            raise ExportError(f"`{path}` is no {FORMAT} file")
        if values[-1]["sha256"] != digest.hexdigest():
            raise ExportError(f"`{path}` was damaged or cut: its digest is another")
        return _bundle(values)
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise ExportError(f"`{path}` is no {FORMAT} file: {error!r}") from error


def _bundle(values: Sequence[Any]) -> Bundle:
    keyset = base64.b64decode(values[1]["keyset"], validate=True)
    body = values[2:-1]
    tips = tuple(
        Anchor(str(source), str(stream), int(seq), bytes.fromhex(tip))
        for source, stream, seq, tip in (value["anchor"] for value in body if "anchor" in value)
    )
    found = tuple({name: _in(value) for name, value in one["row"].items()} for one in body if "row" in one)
    if len(found) != int(values[-1]["rows"]):
        raise ExportError("the file has another number of rows than it says")
    return Bundle(values[0], keyset, tips, tuple(sorted(found, key=_key)))


def _in(value: Any) -> Any:
    return base64.b64decode(value["b64"], validate=True) if isinstance(value, dict) else value


def read_anchors(path: Path) -> tuple[Anchor, ...]:
    """Return the anchors of an export, for a later verification of the store."""
    return read(path).anchors
