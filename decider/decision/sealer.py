"""Seals decision inputs for their tenants, under the keys in force.

One agreed context serves many payloads of a tenant, each under its own number; it is given up after
PAYLOADS_EACH of them, after LIFE_MS, and as soon as another key is the tenant's newest. A tenant without a
payload key has nothing sealed, and its events name no payload; that is logged once.
"""

import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from licet.journal import Sealing
from licet.keys import KeySet, PublicKey
from licet.log import log
from licet.revocation import NONE, Revocations
from licet.sealed import Envelope, address, input_payload, payload_key, payload_keys, seal
from licet.v1.payload_pb2 import DecisionInput

logger = logging.getLogger(__name__)

PAYLOADS_EACH: Final = 1 << 16
LIFE_MS: Final = 3_600_000
MAX_TENANTS: Final = 1_024
"""Contexts kept; the oldest goes, and its tenant's next payload agrees anew."""


@dataclass(slots=True)
class _Open:
    envelope: Envelope
    until_ms: int
    number: int = 0


class Sealer:
    """Seals for any tenant. Use from one event loop."""

    def __init__(self, random: Callable[[int], bytes] = secrets.token_bytes) -> None:
        self._random = random
        self._open: dict[str, _Open] = {}
        self._without: set[str] = set()
        self._keys: KeySet | None = None
        self._by_tenant: Mapping[str, tuple[PublicKey, ...]] = {}

    def key_of(
        self, tenant: str, keys: KeySet, revocations: Revocations = NONE, *, now_ms: int
    ) -> PublicKey | None:
        """Return the key that the tenant's payloads are sealed under now; None where it has none."""
        if keys is not self._keys:  # a set may have ten thousand: looked through once
            self._keys, self._by_tenant = keys, payload_keys(keys)
        key = payload_key(self._by_tenant.get(tenant, ()), revocations, now_ms=now_ms)
        if key is None and tenant not in self._without and len(self._without) < MAX_TENANTS:
            self._without.add(tenant)
            log(logger, logging.WARNING, "payload.no_key", tenant=tenant)
        return key

    def sealing(self, message: DecisionInput, key: PublicKey, *, crowded: bool) -> Sealing:
        """Return what seals `message` under `key`, from `key_of`, once the event's id is known.

        `crowded`: room is short; the request itself is left out, its size and digest stay.
        """
        if crowded:
            message.ClearField("request")
            message.left_out.append("request")
        opened = self._of(message.tenant, key, message.decided_at_ms)
        number, opened.number = opened.number, opened.number + 1
        payload, envelope = input_payload(message), opened.envelope

        def sealing(event_id: str) -> bytes:
            return seal(envelope, number, event_id, payload)

        return sealing

    def _of(self, tenant: str, key: PublicKey, now_ms: int) -> _Open:
        opened = self._open.get(tenant)
        same = opened is not None and opened.envelope.key_id == key.key_id
        if opened is not None and same and opened.number < PAYLOADS_EACH and now_ms < opened.until_ms:
            return opened
        self._open.pop(tenant, None)
        if len(self._open) >= MAX_TENANTS:
            self._open.pop(next(iter(self._open)))
        opened = self._open[tenant] = _Open(address(key, self._random(32)), now_ms + LIFE_MS)
        return opened
