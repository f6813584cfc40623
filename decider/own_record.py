"""Records that only deciders can have written: an HMAC-SHA-256 over subject and payload, then the payload.

NATS is trusted with order and durability, not with content. An older record put back is a true one. Pure.
"""

import hmac
from typing import Final

MAC_BYTES: Final = 32


def seal(key: bytes, subject: str, payload: bytes) -> bytes:
    """Return the record that holds `payload` under `subject`."""
    return _mac(key, subject, payload) + payload


def unseal(key: bytes, subject: str, record: bytes) -> bytes | None:
    """Return the payload of a record under `subject`; None where no holder of `key` wrote it there."""
    mac, payload = record[:MAC_BYTES], record[MAC_BYTES:]
    return payload if hmac.compare_digest(_mac(key, subject, payload), mac) else None


def _mac(key: bytes, subject: str, payload: bytes) -> bytes:
    return hmac.digest(key, subject.encode() + b"\0" + payload, "sha256")
