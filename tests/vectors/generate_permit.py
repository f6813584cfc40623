# ruff: noqa: T201 - a script talks to a person
"""Write the vectors of tests/vectors/{permit,statement,keyset,beacon,ids}: run it after adding a case.

Vectors are append-only: a file that exists is never written again and never renumbered; a new case gets the
next number. What many vectors share (key sets, catalogs, beacons, revocation lists) stands once in
artifacts.json, under the SHA-256 of its bytes.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from licet.beacon import read_beacon, succeeds  # noqa: E402 - the path to the tests comes first
from licet.dsse import PayloadType  # noqa: E402
from licet.event import ZERO_HASH, event_hash, uuid7  # noqa: E402
from licet.hold import Requirement, hold_id, hold_id_1  # noqa: E402
from licet.keys import read_keyset  # noqa: E402
from licet.permit import Permit  # noqa: E402
from licet.refusal import Refusal  # noqa: E402
from licet.spend import spend_id  # noqa: E402
from licet.statement import verify  # noqa: E402
from licet.strict import canonical  # noqa: E402
from licet.v1.statement_pb2 import Signed  # noqa: E402
from tests.worlds import permit as world  # noqa: E402
from tests.worlds.permit import NOW, ROOT, SETTING  # noqa: E402
from tests.worlds.permit_flaws import FLAWS, Scene  # noqa: E402

ARTIFACTS = HERE / "artifacts.json"
Vector = dict[str, Any]


class Artifacts:
    """What many vectors share, by the SHA-256 of its bytes."""

    def __init__(self) -> None:
        self.known: dict[str, str] = json.loads(ARTIFACTS.read_text()) if ARTIFACTS.exists() else {}

    def name(self, signed: Signed | None) -> str | None:
        if signed is None:
            return None
        raw = canonical(signed)
        name = sha256(raw).hexdigest()
        self.known[name] = raw.hex()
        return name

    def write(self) -> None:
        ARTIFACTS.write_text(json.dumps(self.known, indent=1) + "\n")


def permit_vector(why: str, scene: Scene, artifacts: Artifacts) -> Vector:
    setting, call = scene.setting, scene.presented
    result = scene.examine()
    if isinstance(result, Refusal):
        expected: Vector = {"reason": result.reason.value, "step": result.step}
    else:
        assert isinstance(result, Permit)
        expected = {
            "call_digest": result.call_digest.hex(),
            "spend_id": result.spend_id,
            "spends": result.spends,
            "forward": result.arguments.canonical.hex(),
            "approvers": list(result.approvers),
        }
    return {
        "why": why,
        "now_ms": scene.now_ms,
        "door": {
            "environment": setting.environment,
            "audience": setting.audience,
            "root_public_key": setting.root_public_key.hex(),
            "keyset": artifacts.name(setting.keyset),
            "catalog": artifacts.name(setting.catalog),
            "revocations": artifacts.name(setting.revocations),
            "beacon": artifacts.name(setting.beacon),
            "received_at_ms": setting.beacon_received_at_ms,
            "tool_key": setting.tool_key.hex(),
            "generation": setting.generation,
            "obligations": list(setting.obligations),
        },
        "call": {
            "path": call.path,
            "permits": [permit.hex() for permit in call.permits],
            "approvals": [approval.hex() for approval in call.approvals],
            "body": call.body.hex(),
            "peer": call.peer,
        },
        "expected": expected,
    }


def permits(artifacts: Artifacts) -> Iterator[tuple[str, Vector]]:
    twins: list[Scene] = []
    for flaw in FLAWS:
        words = flaw.name.replace("_", " ")
        yield flaw.name, permit_vector(f"{words}: {flaw.check} refuses it", flaw.scene, artifacts)
        if flaw.twin not in twins:
            twins.append(flaw.twin)
            yield f"lawful_beside_{flaw.name}", permit_vector(f"lawful, near: {words}", flaw.twin, artifacts)


STATEMENTS: list[tuple[str, str, PayloadType, Signed]] = [
    *(
        (
            f"{slot.name.lower()}_by_its_role",
            "the one role of the slot",
            slot,
            world.signing_key(key).sign(slot, b"x"),
        )
        for slot, key in {
            PayloadType.PERMIT: "decider",
            PayloadType.DECISION: "decider",
            PayloadType.REVOCATIONS: "decider",
            PayloadType.BEACON: "beacon",
            PayloadType.BUNDLE: "bundle",
            PayloadType.CATALOG: "catalog",
            PayloadType.APPROVAL: "ada",
            PayloadType.SPEND: "spend-finance",
            PayloadType.CHECKPOINT: "checkpoint",
        }.items()
    ),
    *(
        (
            f"permit_signed_as_{slot.name.lower()}",
            "a signature holds in its own slot only",
            PayloadType.PERMIT,
            world.signing_key("decider").sign(slot, b"x"),
        )
        for slot in PayloadType
        if slot is not PayloadType.PERMIT
    ),
    *(
        (
            f"permit_by_{key.replace('-', '_')}",
            "wrong role, environment or time",
            PayloadType.PERMIT,
            world.signing_key(key).sign(PayloadType.PERMIT, b"x"),
        )
        for key in sorted(world.KEYS.keys)
        if key != "decider"
    ),
    (
        "permit_by_nobody",
        "no key of the set",
        PayloadType.PERMIT,
        world.signing_key("nobody").sign(PayloadType.PERMIT, b"x"),
    ),
    (
        "keyset_by_decider",
        "no key of the set may sign key sets",
        PayloadType.KEYSET,
        world.signing_key("decider").sign(PayloadType.KEYSET, b"x"),
    ),
    (
        "empty_payload",
        "an empty payload can be signed",
        PayloadType.PERMIT,
        world.signing_key("decider").sign(PayloadType.PERMIT, b""),
    ),
    (
        "signature_over_bare_payload",
        "no PAE",
        PayloadType.PERMIT,
        Signed(payload=b"x", signature=world.sign_bare(b"x"), key_id="decider"),
    ),
]


def statements(artifacts: Artifacts) -> Iterator[tuple[str, Vector]]:
    for name, why, slot, signed in STATEMENTS:
        result = verify(slot, signed, world.KEYS, now_ms=NOW)
        yield (
            name,
            {
                "why": why,
                "slot": slot.value,
                "signed": canonical(signed).hex(),
                "keyset": artifacts.name(SETTING.keyset),
                "root_public_key": ROOT.public_key.hex(),
                "environment": world.ENVIRONMENT,
                "now_ms": NOW,
                "expected": expect(result, lambda payload: {"payload": payload.hex()}),
            },
        )


def expect(result: Any, spell: Any) -> Vector:
    return {"reason": result.reason.value} if isinstance(result, Refusal) else spell(result)


SMALL_ORDER = (
    "00" * 32,
    "01" + "00" * 31,
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "ec" + "ff" * 30 + "7f",
    "ed" + "ff" * 30 + "7f",
    "ee" + "ff" * 30 + "7f",
    "00" * 31 + "80",
    "01" + "00" * 30 + "80",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    "ec" + "ff" * 31,
    "ed" + "ff" * 31,
    "ee" + "ff" * 31,
)
OTHER_WEAK = {
    "mixed_order": "cdb267ce40c5cd45306fa5d2f29731459387dbf9eb933b7bd5aed9a765b88d4d",
    "not_canonical": "f0" + "ff" * 30 + "7f",
    "off_the_curve": "02" + "00" * 31,
    "short": "01" * 31,
}


def keysets(_: Artifacts) -> Iterator[tuple[str, Vector]]:
    weak = {f"small_order_{index}": text for index, text in enumerate(SMALL_ORDER, 1)} | OTHER_WEAK
    cases = {f"{name}_key": _one_key(bytes.fromhex(text)) for name, text in weak.items()}
    decider = world.PUBLIC_KEYS[0]
    cases["two_keys"] = (decider, world.PUBLIC_KEYS[1])
    cases["key_id_twice"] = (decider, replace(world.PUBLIC_KEYS[1], key_id="decider"))
    cases["empty_validity"] = (replace(decider, not_after_ms=decider.not_before_ms),)
    for name, keys in cases.items():
        signed = world.signed_keyset(*keys)
        result = read_keyset(signed, ROOT.public_key, environment=world.ENVIRONMENT)
        yield (
            name,
            {
                "why": name.replace("_", " "),
                "signed": canonical(signed).hex(),
                "root_public_key": ROOT.public_key.hex(),
                "environment": world.ENVIRONMENT,
                "expected": expect(result, lambda keys: {"key_ids": sorted(keys.keys)}),
            },
        )


def _one_key(public_key: bytes) -> tuple[Any, ...]:
    return (replace(world.PUBLIC_KEYS[0], public_key=public_key),)


BEACONS: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
    "first": ({}, None),
    "same_again": ({}, {}),
    "newer": ({"config_seq": 8, "bundle_version": 13, "bundle_sha256": b"\1" * 32}, {}),
    "ahead_1000_ms": ({"issued_at_ms": NOW + 1_000}, None),
    "ahead_1001_ms": ({"issued_at_ms": NOW + 1_001}, None),
    "old_60000_ms": ({"issued_at_ms": NOW - 60_000}, None),
    "old_60001_ms": ({"issued_at_ms": NOW - 60_001}, None),
    "of_staging": ({"environment": "staging"}, None),
    "without_bundle": ({"bundle_sha256": b""}, None),
    "revocations_without_digest": ({"revocations_seq": 1}, None),
    "configuration_goes_back": ({"config_seq": 6}, {}),
    "generation_goes_back": ({}, {"generation": 2}),
    "revocations_go_back": ({}, {"revocations_seq": 1, "revocations_sha256": bytes(32)}),
    "key_set_goes_back": ({"config_seq": 8}, {"keyset_version": 2}),
    "bundle_goes_back": ({"config_seq": 8, "bundle_version": 11}, {}),
    "two_bundles_in_one_configuration": ({"bundle_sha256": b"\1" * 32}, {}),
    "restored_counts_from_below": ({"generation": 2, "config_seq": 1}, {}),
}


def beacons(artifacts: Artifacts) -> Iterator[tuple[str, Vector]]:
    cases = [(name, world.signed_beacon(**new), old) for name, (new, old) in BEACONS.items()]
    cases.append(("by_decider_key", world.signed_beacon("decider"), None))
    for name, signed, old in cases:
        new = read_beacon(signed, world.KEYS, environment=world.ENVIRONMENT, now_ms=NOW)
        before = None if old is None else world.beacon(**old)
        refusal = new if isinstance(new, Refusal) else succeeds(before, new)
        yield (
            name,
            {
                "why": name.replace("_", " "),
                "signed": canonical(signed).hex(),
                "previous": None if before is None else canonical(world.signed_beacon(**(old or {}))).hex(),
                "keyset": artifacts.name(SETTING.keyset),
                "root_public_key": ROOT.public_key.hex(),
                "environment": world.ENVIRONMENT,
                "now_ms": NOW,
                "expected": {"age_ms": max(0, NOW - new.issued_at_ms)}
                if refusal is None
                else {"reason": refusal.reason.value},
            },
        )


STEP = ("prod", "t1", "spiffe://licet.local/prod/tool/finance", "support", "task_1", "call_1")
STEPS = {"usual": STEP, "empty": ("",) * 6, "not_ascii": ("é", "ü", "", "", "", "日本")}
STEPS["boundary_moved"] = (STEP[0] + "t", "1", *STEP[2:])
HOLDS: dict[str, tuple[str, bytes, tuple[Requirement, ...], str]] = {
    "usual": ("a" * 32, bytes(range(32)), (Requirement("r1", "lead", 1), Requirement("r2", "sec", 2)), "{}"),
    "other_order": (
        "a" * 32,
        bytes(range(32)),
        (Requirement("r2", "sec", 2), Requirement("r1", "lead", 1)),
        "{}",
    ),
    "no_rule": ("a" * 32, bytes(32), (), '{"a":1}'),
    # In UTF-16 the second would come first.
    "rules_in_order_of_utf8": (
        "a" * 32,
        bytes(32),
        (Requirement("\N{FULLWIDTH LATIN SMALL LETTER A}", "lead", 1), Requirement("\U0001f4b6", "lead", 1)),
        "{}",
    ),
}

HOLDS_2: dict[str, dict[str, Any]] = {
    "usual": {},
    "says_everything": {
        "risk_flags": ["personal", "personal:email"],
        "traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01",
        "excluded_approvers": ["user-1", "user-2"],
    },
    "ends_later": {"expires_at_ms": NOW + 7_200_000},
    "whatever_it_says_it_is": {"hold_id": "0" * 32},
    "says_little": {"requirements": [], "text": "", "facts_json": "", "excluded_approvers": []},
    "text_not_ascii": {"text": "Lösche B1 \U0001f4b6", "facts_json": '{"é":1}'},
    # Longer than a length of one byte says.
    "text_of_200_bytes": {"text": "x" * 200},
}


def ids(_: Artifacts) -> Iterator[tuple[str, Vector]]:
    for name, step in STEPS.items():
        names = ("environment", "tenant", "audience", "agent", "task_id", "call_id")
        yield (
            f"spend_{name}",
            {"id": "spend", **dict(zip(names, step, strict=True)), "expected": spend_id(*step)},
        )
    for name, (step, digest, needs, facts) in HOLDS.items():
        demands = [[need.rule_id, need.role, need.quorum] for need in needs]
        yield (
            f"hold_{name}",
            {
                "id": "hold",
                "spend_id": step,
                "call_digest": digest.hex(),
                "requirements": demands,
                "facts_json": facts,
                "expected": hold_id_1(step, digest, needs, facts),
            },
        )
    for name, event in {"first": b"event", "empty": b""}.items():
        yield (
            f"event_{name}",
            {
                "id": "event",
                "prev_hash": ZERO_HASH.hex(),
                "event": event.hex(),
                "expected": event_hash(ZERO_HASH, event).hex(),
            },
        )
    random = bytes(range(10))
    for name, changes in HOLDS_2.items():
        hold = world.hold(world.decision(world.WIPE), **changes)
        made = {"id": "hold-v2", "hold": canonical(hold).hex(), "expected": hold_id(hold)}
        yield f"hold_2_{name}", made
    yield "uuid7", {"id": "uuid7", "now_ms": NOW, "random": random.hex(), "expected": uuid7(NOW, random)}


FOLDERS = {"permit": permits, "statement": statements, "keyset": keysets, "beacon": beacons, "ids": ids}


def names_of(folder: str) -> list[str]:
    """Return the names of the cases of a folder, without their numbers."""
    return [name for name, _ in FOLDERS[folder](Artifacts())]


def main() -> None:
    artifacts = Artifacts()
    for folder, cases in FOLDERS.items():
        place = HERE / folder
        place.mkdir(exist_ok=True)
        known = {path.stem[4:] for path in place.glob("*.json")}
        for name, vector in cases(artifacts):
            if name not in known:
                known.add(name)
                path = place / f"{len(known):03}_{name}.json"
                path.write_text(json.dumps(vector, indent=1, ensure_ascii=False) + "\n")
        print(f"{folder}: {len(known)} vectors")
    artifacts.write()


if __name__ == "__main__":
    main()
