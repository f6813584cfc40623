"""The vectors of permit, statement, keyset, beacon and ids, read as another language would: by the files
alone.
"""

import json
import re
import runpy
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from licet.beacon import Beacon, HeldBeacon, read_beacon, succeeds
from licet.catalog import Catalog, read_catalog
from licet.dsse import PayloadType
from licet.event import event_hash, uuid7
from licet.hold import Requirement, hold_id, hold_id_1
from licet.keys import KeySet, read_keyset
from licet.permit import DoorState, Permit, Presented, examine
from licet.refusal import Refusal
from licet.revocation import NONE, Revocations, read_revocations
from licet.spend import spend_id
from licet.statement import parse_signed, verify
from licet.v1.hold_pb2 import Hold
from licet.v1.statement_pb2 import Signed

HERE = Path(__file__).parent
ARTIFACTS: dict[str, str] = json.loads((HERE / "artifacts.json").read_text())
FOLDERS = ("permit", "statement", "keyset", "beacon", "ids")


def vectors(folder: str) -> Any:
    paths = sorted((HERE / folder).glob("*.json"))
    return pytest.mark.parametrize("path", paths, ids=lambda path: path.stem)


def load(path: Path) -> dict[str, Any]:
    vector: dict[str, Any] = json.loads(path.read_text())
    return vector


def signed(text: str) -> Signed:
    parsed = parse_signed(bytes.fromhex(text))
    assert isinstance(parsed, Signed), parsed
    return parsed


def artifact(name: str) -> Signed:
    return signed(ARTIFACTS[name])


def keys_of(vector: dict[str, Any]) -> KeySet:
    root = bytes.fromhex(vector["root_public_key"])
    keys = read_keyset(artifact(vector["keyset"]), root, environment=vector["environment"])
    assert isinstance(keys, KeySet), keys
    return keys


def door_of(door: dict[str, Any]) -> DoorState:
    keys, here, now = keys_of(door), door["environment"], door["received_at_ms"]
    catalog = read_catalog(artifact(door["catalog"]), keys, environment=here, now_ms=now)
    assert isinstance(catalog, Catalog), catalog
    revoked: Revocations | Refusal = NONE
    if door["revocations"] is not None:
        revoked = read_revocations(artifact(door["revocations"]), keys, environment=here, now_ms=now)
    assert isinstance(revoked, Revocations), revoked
    held = None
    if door["beacon"] is not None:
        beacon = read_beacon(artifact(door["beacon"]), keys, environment=here, now_ms=now)
        assert isinstance(beacon, Beacon), beacon
        held = HeldBeacon.received(beacon, now_ms=now, monotonic_ms=now)
    return DoorState(
        environment=here,
        audience=door["audience"],
        catalog=catalog,
        keys=keys,
        revocations=revoked,
        beacon=held,
        k_tool=bytes.fromhex(door["tool_key"]),
        generation=door["generation"],
        obligations=frozenset(door["obligations"]),
    )


@vectors("permit")
def test_permit_vector(path: Path) -> None:
    vector = load(path)
    call = vector["call"]
    presented = Presented(
        call["path"],
        tuple(bytes.fromhex(one) for one in call["permits"]),
        tuple(bytes.fromhex(one) for one in call["approvals"]),
        bytes.fromhex(call["body"]),
        call["peer"],
    )
    now = vector["now_ms"]
    result = examine(presented, door_of(vector["door"]), now_ms=now, monotonic_ms=now)
    if isinstance(result, Permit):
        assert vector["expected"] == {
            "call_digest": result.call_digest.hex(),
            "spend_id": result.spend_id,
            "spends": result.spends,
            "forward": result.arguments.canonical.hex(),
            "approvers": list(result.approvers),
        }
    else:
        assert vector["expected"] == {"reason": result.reason.value, "step": result.step}


@vectors("statement")
def test_statement_vector(path: Path) -> None:
    vector = load(path)
    result = verify(
        PayloadType(vector["slot"]), signed(vector["signed"]), keys_of(vector), now_ms=vector["now_ms"]
    )
    expected = {"reason": result.reason.value} if isinstance(result, Refusal) else {"payload": result.hex()}
    assert vector["expected"] == expected


@vectors("keyset")
def test_keyset_vector(path: Path) -> None:
    vector = load(path)
    root = bytes.fromhex(vector["root_public_key"])
    result = read_keyset(signed(vector["signed"]), root, environment=vector["environment"])
    expected = (
        {"reason": result.reason.value} if isinstance(result, Refusal) else {"key_ids": sorted(result.keys)}
    )
    assert vector["expected"] == expected


@vectors("beacon")
def test_beacon_vector(path: Path) -> None:
    vector = load(path)
    keys, here, now = keys_of(vector), vector["environment"], vector["now_ms"]
    previous = None
    if vector["previous"] is not None:
        read = read_beacon(signed(vector["previous"]), keys, environment=here, now_ms=now)
        assert isinstance(read, Beacon), read
        previous = read
    new = read_beacon(signed(vector["signed"]), keys, environment=here, now_ms=now)
    refusal = new if isinstance(new, Refusal) else succeeds(previous, new)
    if refusal is not None:
        assert vector["expected"] == {"reason": refusal.reason.value}
        return
    assert isinstance(new, Beacon)
    held = HeldBeacon.received(new, now_ms=now, monotonic_ms=5)
    assert vector["expected"] == {"age_ms": held.age_ms(5)}


@vectors("ids")
def test_id_vector(path: Path) -> None:
    vector = load(path)
    match vector["id"]:
        case "spend":
            parts = ("environment", "tenant", "audience", "agent", "task_id", "call_id")
            result = spend_id(*(vector[part] for part in parts))
        case "hold":
            needs = [Requirement(*need) for need in vector["requirements"]]
            digest = bytes.fromhex(vector["call_digest"])
            result = hold_id_1(vector["spend_id"], digest, needs, vector["facts_json"])
        case "hold-v2":
            result = hold_id(Hold.FromString(bytes.fromhex(vector["hold"])))
        case "event":
            result = event_hash(bytes.fromhex(vector["prev_hash"]), bytes.fromhex(vector["event"])).hex()
        case "uuid7":
            result = uuid7(vector["now_ms"], bytes.fromhex(vector["random"]))
        case other:
            pytest.fail(f"unknown kind `{other}`")
    assert vector["expected"] == result


@pytest.mark.parametrize("folder", FOLDERS)
def test_vectors_are_numbered_without_a_gap(folder: str) -> None:
    """Append-only: a vector that is gone, renamed or renumbered is a promise broken."""
    names = sorted(path.name for path in (HERE / folder).glob("*.json"))
    assert [int(name[:3]) for name in names] == list(range(1, len(names) + 1))
    assert all(re.fullmatch(r"\d{3}_[a-z0-9_]+\.json", name) for name in names)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_case_of_the_script_has_its_file(folder: str) -> None:
    script = runpy.run_path(str(HERE / "generate_permit.py"))
    named = {path.stem[4:] for path in (HERE / folder).glob("*.json")}
    assert named >= set(script["names_of"](folder)), "run tests/vectors/generate_permit.py"


def test_artifacts_are_named_for_their_bytes() -> None:
    assert all(sha256(bytes.fromhex(raw)).hexdigest() == name for name, raw in ARTIFACTS.items())
