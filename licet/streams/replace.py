"""Compare-and-set on a subject's last record; with 0 expected, a record that is written once."""

from typing import Final

from licet.streams.errors import StoreRefused
from licet.streams.publisher import PubAck, Publisher

EXPECTED: Final = "Nats-Expected-Last-Subject-Sequence"
WRONG_SEQUENCE: Final = frozenset({10071, 10164})
"""The server's numbers for a compare-and-set that lost."""


async def replace_last(publisher: Publisher, subject: str, body: bytes, expected_seq: int) -> PubAck | None:
    """Store `body` where the last record of `subject` still has `expected_seq` (0: there is none).

    None where it does not: nothing was stored.

    Raises:
        StoreRefused: the server said no for another reason.
        StoreUnavailable: no ack; read the subject to learn whether it happened.
    """
    try:
        return await publisher.publish(subject, body, headers={EXPECTED: str(expected_seq)})
    except StoreRefused as refused:
        if refused.err_code in WRONG_SEQUENCE:
            return None
        raise
