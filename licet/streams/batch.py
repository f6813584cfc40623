"""Atomic batches: several messages of one stream, all stored or none, each under its own compare-and-set.

Guaranteed: when `publish_batch` returns, every message is stored, one after the other, the last at the ack's
sequence; when it raises `StoreRefused`, none is. After `StoreUnavailable` either may be so: read a subject of
the batch to find out. Needs `allow_atomic` on the stream (nats-server 2.12).
"""

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from nats.errors import Error as NatsError

from licet.streams.errors import StoreUnavailable
from licet.streams.publisher import DEFAULT_TIMEOUT_S, PubAck, Publisher
from licet.streams.replace import EXPECTED

MAX_BATCH: Final = 1_000
"""Messages of one batch; the server refuses one more."""

BATCH_ID: Final = "Nats-Batch-Id"
BATCH_SEQUENCE: Final = "Nats-Batch-Sequence"
BATCH_COMMIT: Final = "Nats-Batch-Commit"
TTL: Final = "Nats-TTL"


@dataclass(frozen=True, slots=True)
class Batched:
    """One message: stored only where its subject's last message has the sequence `expected` (0: none).

    `ttl_s`: after how many seconds the server lets it go; 0 for never.
    """

    subject: str
    body: bytes
    expected: int
    ttl_s: int = 0


async def publish_batch(
    publisher: Publisher, messages: Sequence[Batched], *, timeout_s: float = DEFAULT_TIMEOUT_S
) -> PubAck:
    """Publish 1 to `MAX_BATCH` messages of different subjects; return the ack of the last.

    Raises:
        StoreRefused: nothing was stored; another record stands where one of them was expected, or the
            stream is full.
        StoreUnavailable: no ack in time.
        ValueError: no message, or too many.
    """
    if not 1 <= len(messages) <= MAX_BATCH:
        raise ValueError(f"a batch has 1 to {MAX_BATCH} messages, not {len(messages)}")
    name = secrets.token_hex(16)
    *first, last = [(one, _headers(one, name, number)) for number, one in enumerate(messages, start=1)]
    try:
        for one, headers in first:
            await publisher.nc.publish(one.subject, one.body, headers=headers)
    except NatsError as error:  # the server drops what is not committed
        cause = str(error) or type(error).__name__
        raise StoreUnavailable(f"could not publish a batch: {cause}", maybe_stored=False) from error
    commit, headers = last
    future = await publisher.begin(commit.subject, commit.body, headers={**headers, BATCH_COMMIT: "1"})
    try:
        async with asyncio.timeout(timeout_s):
            return await future
    except TimeoutError as error:
        raise StoreUnavailable(f"no ack for a batch of {len(messages)} messages in {timeout_s} s") from error


def _headers(one: Batched, name: str, number: int) -> dict[str, str]:
    headers = {BATCH_ID: name, BATCH_SEQUENCE: str(number), EXPECTED: str(one.expected)}
    return headers | {TTL: f"{one.ttl_s}s"} if one.ttl_s else headers
