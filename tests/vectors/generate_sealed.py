"""Writes the vectors of sealed payloads that are not there yet: `python tests/vectors/generate_sealed.py`."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from licet.sealed import address, payload_ref, seal
from licet.strict import canonical
from licet.v1.payload_pb2 import Sealed
from tests.worlds.payloads import ENVIRONMENT, EVENT, NEW, OLD, OTHER, PAYLOAD, seed

FOLDER = Path(__file__).parent / "sealed"
EPHEMERAL = bytes(range(32))


def given(sealed: bytes, **changes: Any) -> dict[str, Any]:
    vector = {
        "sealed": sealed.hex(),
        "environment": ENVIRONMENT,
        "tenant": "t1",
        "event_id": EVENT,
        "seed": seed("t1-new").hex(),
    }
    return vector | changes


def altered(sealed: bytes, **fields: Any) -> bytes:
    frame = Sealed.FromString(sealed)
    for name, value in fields.items():
        setattr(frame, name, value)
    return canonical(frame)


def cases() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Name, what is given, what is expected."""
    envelope = address(NEW, EPHEMERAL)
    sealed = seal(envelope, 0, EVENT, PAYLOAD)
    opens = {"payload": PAYLOAD.hex(), "key_id": "t1-new", "payload_ref": payload_ref(sealed)}
    yield "opens", given(sealed), opens
    last = seal(envelope, (1 << 32) - 1, EVENT, PAYLOAD)
    yield "last_number", given(last), opens | {"payload_ref": payload_ref(last)}
    empty = seal(envelope, 1, EVENT, b"")
    yield "empty_payload", given(empty), opens | {"payload": "", "payload_ref": payload_ref(empty)}
    old = seal(address(OLD, EPHEMERAL), 0, EVENT, PAYLOAD)
    rotated = {"payload": PAYLOAD.hex(), "key_id": "t1-old", "payload_ref": payload_ref(old)}
    yield "older_key_of_the_tenant", given(old, seed=seed("t1-old").hex()), rotated
    closed = {"fault": "NOT_OPENED"}
    yield "another_event", given(sealed, event_id="02" * 16), closed
    yield "another_tenant", given(sealed, tenant="t2"), closed
    yield "another_environment", given(sealed, environment="staging"), closed
    yield "another_tenants_key", given(seal(address(OTHER, EPHEMERAL), 0, EVENT, PAYLOAD)), closed
    yield "another_key_of_the_tenant", given(sealed, seed=seed("t1-old").hex()), closed
    yield "another_number", given(altered(sealed, number=1)), closed
    yield "key_id_changed", given(altered(sealed, key_id="t1-old")), closed
    yield "enc_of_small_order", given(altered(sealed, enc=bytes(32))), closed
    yield "tag_cut", given(altered(sealed, ciphertext=Sealed.FromString(sealed).ciphertext[:-1])), closed
    yield "version_0", given(altered(sealed, version=0)), {"fault": "VERSION_UNKNOWN"}
    yield "version_2", given(altered(sealed, version=2)), {"fault": "VERSION_UNKNOWN"}
    malformed = {"fault": "MALFORMED"}
    yield "no_key_id", given(altered(sealed, key_id="")), malformed
    yield "enc_of_31_bytes", given(altered(sealed, enc=bytes(31))), malformed
    yield "ciphertext_without_tag", given(altered(sealed, ciphertext=bytes(15))), malformed
    yield "unknown_field", given(sealed + b"\x30\x01"), malformed
    yield "field_twice", given(b"\x08\x01" + sealed), malformed
    yield "empty", given(b""), {"fault": "VERSION_UNKNOWN"}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    there = {path.stem[4:] for path in FOLDER.glob("*.json")}
    number = len(there)
    for name, vector, expected in cases():
        if name not in there:
            number += 1
            text = json.dumps({**vector, "expected": expected}, indent=1) + "\n"
            (FOLDER / f"{number:03d}_{name}.json").write_text(text)


if __name__ == "__main__":
    main()
