"""The table that a stream's rows go to: `events`, or `payloads` for the stream of sealed ones. Pure.

A payload's row holds the bytes as they came and their SHA-256, and nothing is read of them: the writer has no
key, and a payload that is none costs it no more than one that is. So every message of that stream is a row.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final, Protocol

from audit.store.batch import varint
from audit.store.row import COLUMNS, Head, insert_settings, one_block, row_parts
from audit.store.stored import House, Stored, Unreadable
from licet.sealed import payload_ref

PAYLOAD_STREAM: Final = "LICET_PAYLOAD_"
"""How the names of streams of sealed payloads begin."""


class Encode(Protocol):
    """How a batch becomes bytes. `heads`: what `read_heads` says of its messages, where they were read."""

    def __call__(
        self,
        messages: Sequence[Stored],
        house: House,
        repeated: frozenset[int] = frozenset(),
        heads: Sequence[Head | Unreadable] | None = None,
        /,
    ) -> bytes:
        """Return the rows of the batch."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """One table: its name, the columns an insert names, its format, and how a batch becomes bytes."""

    table: str
    columns: tuple[str, ...]
    format: str
    encode: Encode
    settings: Callable[[str], Mapping[str, str]]


def sheet_of(stream: str) -> Sheet:
    """Return the table of a stream."""
    return PAYLOADS if stream.startswith(PAYLOAD_STREAM) else EVENTS


def encode(
    messages: Sequence[Stored],
    house: House,
    repeated: frozenset[int] = frozenset(),
    heads: Sequence[Head | Unreadable] | None = None,
) -> bytes:
    """Return the rows of one batch of events; the same messages give the same bytes."""
    first = messages[0].seq
    parts: list[bytes] = []
    known = repeat(None, len(messages)) if heads is None else heads
    for message, head in zip(messages, known, strict=True):
        parts += row_parts(message, house, first, repeated=message.seq in repeated, head=head)
    return b"".join(parts)


def encode_payloads(
    messages: Sequence[Stored],
    _house: House,
    _repeated: frozenset[int] = frozenset(),
    _heads: Sequence[Head | Unreadable] | None = None,
) -> bytes:
    """Return the rows of one batch of sealed payloads, unopened, as RowBinary."""
    first = messages[0].seq.to_bytes(8, "little")
    return b"".join(
        _text(payload_ref(message.data).encode())
        + _text(message.data)
        + _text(message.stream.encode())
        + _text(message.subject.encode("utf-8", "backslashreplace"))
        + message.seq.to_bytes(8, "little")
        + message.time_us.to_bytes(8, "little", signed=True)
        + first
        for message in messages
    )


def _text(data: bytes) -> bytes:
    return varint(len(data)) + data


EVENTS: Final = Sheet("events", COLUMNS, "Protobuf", encode, insert_settings)
PAYLOADS: Final = Sheet(
    "payloads",
    ("payload_ref", "sealed", "js_stream", "js_subject", "js_seq", "js_time_us", "batch"),
    "RowBinary",
    encode_payloads,
    one_block,
)
