"""Opens sealed payloads of events: finds the bytes, checks that they are the event's, opens them.

The one place that holds a tenant's private key, and only while it opens. Guarantees: what is returned was
sealed for just this event and its tenant (licet.sealed), and is what the event names (`payload_ref`).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from licet.keyfile import SUFFIX, read_secret
from licet.sealed import Place, Unopened, open_sealed, payload_ref, read_input, read_sealed
from licet.v1.payload_pb2 import DecisionInput, Sealed

Secrets = Callable[[str], bytes | None]
"""Given a key id, the secret of that payload key; None where there is none."""

MAX_EVENTS: Final = 100_000
"""Events of one question."""
_EVENTS: Final = """
SELECT event_id, environment, tenant, decision_id, payload_ref, js_time FROM events
WHERE payload_ref != '' AND {condition} ORDER BY js_time, event_id LIMIT {limit}
"""
_SEALED: Final = "SELECT sealed FROM payloads WHERE payload_ref = {ref:String} LIMIT 1"


class PayloadError(Exception):
    """There is nothing to open, or it cannot be opened; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Carrier:
    """An event that carries a payload."""

    event_id: str
    environment: str
    tenant: str
    decision_id: str
    payload_ref: str
    stored_at: Any


@dataclass(frozen=True, slots=True)
class Opened:
    """A payload that was opened: the event that carries it, the key, and the decision input."""

    carrier: Carrier
    key_id: str
    input: DecisionInput


def secrets_in(directory: Path) -> Secrets:
    """Return secrets by key id from files `<key id>.key`; raises KeyFileError for one that is damaged."""

    def secret(key_id: str) -> bytes | None:
        if Path(key_id).name != key_id:
            return None  # a key id comes from the payload and must not lead out of the directory
        path = directory / f"{key_id}{SUFFIX}"
        return read_secret(path) if path.exists() else None

    return secret


def carriers(client: Any, condition: str, parameters: Mapping[str, Any]) -> list[Carrier]:
    """Return events with a payload under `condition`, a constant text, in the order of their storing."""
    sql = _EVENTS.format(condition=condition, limit=MAX_EVENTS)
    return [Carrier(*row) for row in client.query(sql, parameters=dict(parameters)).result_rows]


def open_payload(client: Any, carrier: Carrier, secrets: Secrets) -> Opened:
    """Return the decision input that `carrier` carries. Raises PayloadError and KeyFileError."""
    name = f"payload of event {carrier.event_id}"
    rows = client.query(
        _SEALED, parameters={"ref": carrier.payload_ref}, column_formats={"sealed": "bytes"}
    ).result_rows
    if not rows:
        raise PayloadError(f"{name}: the store has it no more, or not yet")
    sealed = bytes(rows[0][0])
    if payload_ref(sealed) != carrier.payload_ref:
        raise PayloadError(
            f"{name}: the store has other bytes than the event names: run `licet audit verify`"
        )
    frame = read_sealed(sealed)
    if isinstance(frame, Unopened):
        raise PayloadError(f"{name}: {frame.fault}: {frame.detail}")
    return Opened(carrier, frame.key_id, _opened(name, carrier, sealed, frame, secrets))


def _opened(name: str, carrier: Carrier, sealed: bytes, frame: Sealed, secrets: Secrets) -> DecisionInput:
    secret = secrets(frame.key_id)
    if secret is None:
        raise PayloadError(
            f"{name}: it opens with key `{frame.key_id}`, which is not in the directory;"
            " where that key was destroyed, nothing opens it"
        )
    place = Place(carrier.environment, carrier.tenant, carrier.event_id)
    payload = open_sealed(sealed, place, secret)
    message = payload if isinstance(payload, Unopened) else read_input(payload)
    if isinstance(message, Unopened):
        raise PayloadError(f"{name}: {message.fault}: {message.detail}")
    return message


def inputs(client: Any, found: list[Carrier], secrets: Secrets, skipped: list[str]) -> Iterator[Opened]:
    """Open each payload; what cannot be opened is named in `skipped`, and the others go on."""
    for carrier in found:
        try:
            yield open_payload(client, carrier, secrets)
        except PayloadError as error:
            skipped.append(str(error))
