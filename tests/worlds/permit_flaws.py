"""Every way we know to present a call that must not pass, each with the reason it must be refused with.

Each flaw names the check that stops it and the nearest lawful scene, which must pass. The tests, the
vectors and the removal of checks all read this list.
"""

from dataclasses import dataclass, replace
from typing import Any

from licet.catalog import read_method
from licet.dsse import PayloadType, pae
from licet.permit import Permit, Presented, examine
from licet.refusal import Reason, Refusal
from licet.strict import canonical
from licet.v1.decision_pb2 import ConstraintOp, DecisionType
from licet.v1.hold_pb2 import ApprovalAnswer
from licet.v1.statement_pb2 import Signed
from tests.worlds import permit as world
from tests.worlds.permit import GET, NOW, REFUND, SETTING, WIPE, Setting


@dataclass(frozen=True)
class Scene:
    """A call at a door at a moment."""

    presented: Presented
    setting: Setting = SETTING
    now_ms: int = NOW

    def examine(self) -> Permit | Refusal:
        return examine(self.presented, self.setting.door(), now_ms=self.now_ms, monotonic_ms=self.now_ms)


@dataclass(frozen=True)
class Flaw:
    """A call that must be refused with `reason` by the check of that name; `twin` is the nearest that must
    pass.
    """

    name: str
    check: str
    reason: Reason
    scene: Scene
    twin: Scene
    negative: int | None = None


LAWFUL = Scene(world.presented())
LAWFUL_READ = Scene(world.presented(GET))
LAWFUL_WIPE = Scene(world.approved_wipe())
FLAWS: list[Flaw] = []


def add(  # noqa: PLR0917 - the columns of a table
    name: str, check: str, reason: Reason, scene: Scene, twin: Scene = LAWFUL, negative: int | None = None
) -> None:
    FLAWS.append(Flaw(name, check, reason, scene, twin, negative))


def decided(path: str = REFUND, **changes: Any) -> Scene:
    """A scene in which the permit says something else, signed all the same."""
    return Scene(world.presented(path, world.sign(world.decision(path, **changes))))


def signed(payload: bytes) -> Scene:
    return Scene(world.presented(REFUND, world.sign_payload(payload)))


def shown(**changes: Any) -> Scene:
    """A scene in which something else is presented."""
    return Scene(replace(world.presented(), **changes))


# 2 ----------------------------------------------------------------------
for label, path in {
    "without_slash": REFUND[1:],
    "two_slashes": "/" + REFUND,
    "query": REFUND + "?x=1",
    "trailing_slash": REFUND + "/",
    "other_case": REFUND.lower(),
    "percent_encoded": REFUND.replace("v1", "%761"),
    "empty": "",
}.items():
    add(f"path_{label}", "check_02_path", Reason.METHOD_UNKNOWN, shown(path=path), negative=10)

_STREAMING = world.method(REFUND, client_streaming=True)
_STREAMING_CATALOG = world.signed_catalog(world.catalog_message(refund=_STREAMING))
add(
    "client_streaming",
    "check_02_path",
    Reason.CLIENT_STREAMING,
    Scene(world.presented(), Setting(catalog=_STREAMING_CATALOG)),
)

# 3 ----------------------------------------------------------------------
_PERMIT = world.sign(world.decision())
_SIGNED = Signed.FromString(_PERMIT)
add("no_permit", "check_03_single", Reason.NO_PERMIT, shown(permits=()), negative=1)
add("two_permits", "check_03_single", Reason.PERMIT_AMBIGUOUS, shown(permits=(_PERMIT, _PERMIT)), negative=2)


def of_size(size: int) -> bytes:
    """A permit whose serialised Signed is `size` bytes long."""
    spare = size - len(world.sign(world.decision(reason="r" * 1000))) + 1000
    return world.sign(world.decision(reason="r" * spare))


add(
    "permit_of_4097_bytes",
    "check_03_single",
    Reason.TOO_LARGE,
    shown(permits=(of_size(4097),)),
    shown(permits=(of_size(4096),)),
)
add("permit_empty", "check_04_signature", Reason.KEY_UNKNOWN, shown(permits=(b"",)))
add("permit_garbage", "check_03_single", Reason.PERMIT_MALFORMED, shown(permits=(b"\xff" * 20,)))
add(
    "envelope_unknown_field",
    "check_03_single",
    Reason.PERMIT_UNKNOWN_FIELD,
    shown(permits=(_PERMIT + b"\x20\x01",)),
)
add(
    "envelope_payload_twice",
    "check_03_single",
    Reason.PERMIT_MALFORMED,
    shown(permits=(canonical(Signed(payload=b"other")) + _PERMIT,)),
)

# 4 ----------------------------------------------------------------------
_DENY = world.decision(decision=DecisionType.DECISION_TYPE_DENY)
add(
    "signed_denial",
    "check_04_signature",
    Reason.SIGNATURE_INVALID,
    Scene(world.presented(REFUND, world.sign(_DENY, slot=PayloadType.DECISION))),
    negative=3,
)
add(
    "signed_as_revocations",
    "check_04_signature",
    Reason.SIGNATURE_INVALID,
    Scene(world.presented(REFUND, world.sign(world.decision(), slot=PayloadType.REVOCATIONS))),
    negative=3,
)


def _bare() -> bytes:
    payload = canonical(world.decision())
    return canonical(Signed(payload=payload, signature=world.sign_bare(payload), key_id="decider"))


add(
    "signature_without_pae",
    "check_04_signature",
    Reason.SIGNATURE_INVALID,
    shown(permits=(_bare(),)),
    negative=4,
)
for key in ("beacon", "bundle", "catalog", "ada", "spend-finance", "checkpoint"):
    add(
        f"signed_by_{key.replace('-', '_')}_key",
        "check_04_signature",
        Reason.KEY_ROLE,
        Scene(world.presented(REFUND, world.sign(world.decision(), key))),
        negative=5,
    )
for key, label in {
    "decider-staging": "of_staging",
    "decider-old": "ended",
    "decider-early": "not_begun",
}.items():
    add(
        f"key_{label}",
        "check_04_signature",
        Reason.KEY_SCOPE,
        Scene(world.presented(REFUND, world.sign(world.decision(), key))),
        negative=6,
    )
add(
    "key_unknown",
    "check_04_signature",
    Reason.KEY_UNKNOWN,
    Scene(world.presented(REFUND, world.sign(world.decision(), "nobody"))),
)


def _altered(**changes: Any) -> bytes:
    fields = {"payload": _SIGNED.payload, "signature": _SIGNED.signature, "key_id": _SIGNED.key_id}
    return canonical(Signed(**{**fields, **changes}))


for label, changes in {
    "signature_of_63_bytes": {"signature": _SIGNED.signature[:-1]},
    "signature_of_65_bytes": {"signature": _SIGNED.signature + b"\0"},
    "signature_missing": {"signature": b""},
    "signature_flipped": {"signature": bytes([_SIGNED.signature[0] ^ 1]) + _SIGNED.signature[1:]},
    "payload_other": {"payload": canonical(world.decision(principal="user-2"))},
}.items():
    add(label, "check_04_signature", Reason.SIGNATURE_INVALID, shown(permits=(_altered(**changes),)))

# 5 ----------------------------------------------------------------------
_PAYLOAD = canonical(world.decision())
_VARINT = b"\xb8\x3e\x01"  # field 999, varint 1
_PRECONDITION = {"check": "order.version", "expect": {"integer": 17}}


def nested(number: int, inner: bytes) -> bytes:
    """`inner` with an unknown field after it, as field `number` of the permit."""
    body = inner + _VARINT
    tag = number << 3 | 2
    head = bytes([tag]) if tag < 128 else bytes([tag & 127 | 128, tag >> 7])
    return head + bytes([len(body)]) + body


UNKNOWN = Reason.PERMIT_UNKNOWN_FIELD
add("unknown_field", "check_05_decision", UNKNOWN, signed(_PAYLOAD + _VARINT), negative=8)
add(
    "unknown_field_in_obligation",
    "check_05_decision",
    UNKNOWN,
    signed(_PAYLOAD + nested(70, b"\x0a\x01m")),
    negative=8,
)
add(
    "unknown_field_in_precondition",
    "check_05_decision",
    UNKNOWN,
    signed(_PAYLOAD + nested(42, b"\x0a\x01v")),
    negative=8,
)
add(
    "unknown_field_in_scalar",
    "check_05_decision",
    UNKNOWN,
    signed(_PAYLOAD + b"\xd2\x02\x07\x12\x05\x08\x01" + _VARINT),
    negative=8,
)
add(
    "unknown_field_in_ceiling",
    "check_05_decision",
    UNKNOWN,
    signed(_PAYLOAD + nested(41, b"\x10\x01")),
    negative=8,
)
for number, label in {0: "unspecified", 2: "deny", 3: "hold", 99: "unknown"}.items():
    add(
        f"decision_{label}",
        "check_05_decision",
        Reason.DECISION_INVALID,
        decided(decision=number),
        negative=9,
    )

_OTHER = world.decision(tenant="t2")
_CEILING = {"path": ["order_id"], "op": ConstraintOp.CONSTRAINT_OP_EQ, "values": [{"text": "O1"}]}
MALFORMED = Reason.PERMIT_MALFORMED
for label, changes in {
    "version_0": {"version": 0},
    "version_2": {"version": 2},
    "digest_and_ceilings": {"ceilings": [_CEILING]},
    "neither_digest_nor_ceilings": {"call_digest": b""},
    "digest_of_31_bytes": {"call_digest": bytes(31)},
    "method_digest_missing": {"method_digest": b""},
    "modify_without_original": {"decision": DecisionType.DECISION_TYPE_MODIFY},
    "allow_with_original": {"original_call_digest": bytes(32)},
    "class_unspecified": {"class": 0},
    "class_unknown": {"class": 9},
    "operator_unspecified": {"call_digest": b"", "ceilings": [{"path": ["order_id"]}]},
    "operator_unknown": {"call_digest": b"", "ceilings": [{"path": ["order_id"], "op": 99}]},
    "obligation_without_id": {"obligations": [{"paths": ["note"]}]},
    "precondition_without_value": {"preconditions": [{"check": "order.version"}]},
    "precondition_without_name": {"preconditions": [{"expect": {"integer": 1}}]},
    "decision_id_short": {"decision_id": "a" * 31},
    "decision_id_upper": {"decision_id": "A" * 32},
    "call_id_empty": {"call_id": ""},
    "call_id_of_129": {"call_id": "c" * 129},
    "call_id_with_newline": {"call_id": "call_1\n"},
    "call_id_not_ascii": {"call_id": "call_é"},
    "task_id_empty": {"task_id": ""},
    "hold_id_short": {"hold_id": "abc"},
    "spend_id_empty": {"spend_id": ""},
    "spend_id_of_another_step": {"spend_id": _OTHER.spend_id},
}.items():
    twin = decided(call_id="c" * 128) if label == "call_id_of_129" else LAWFUL
    add(label, "check_05_decision", MALFORMED, decided(**changes), twin)
add("not_a_message", "check_05_decision", MALFORMED, signed(b"\x0a\xff"))
add("field_twice", "check_05_decision", MALFORMED, signed(b"\x08\x01" + _PAYLOAD))
# One precondition, `v`, with two values: the later merges into the earlier, or overrides it.
_MERGING = b"\xd2\x02\x0b\x0a\x01v\x12\x02\x08\x05\x12\x02\x08\x11"
_OVERRIDING = b"\xd2\x02\x09\x0a\x01v\x12\x04\x08\x05\x10\x07"
add("submessage_in_parts", "check_05_decision", MALFORMED, signed(_PAYLOAD + _MERGING))
add("oneof_twice", "check_05_decision", MALFORMED, signed(_PAYLOAD + _OVERRIDING))
add("varint_overlong", "check_05_decision", MALFORMED, signed(b"\x08\x81\x00" + _PAYLOAD[2:]))
add("default_spelled_out", "check_05_decision", MALFORMED, signed(_PAYLOAD + b"\x82\x05\x00"))

# 6 ----------------------------------------------------------------------
add(
    "environment_staging",
    "check_06_scope",
    Reason.ENVIRONMENT_MISMATCH,
    decided(environment="staging"),
    negative=11,
)
_OTHER_TOOL = world.AUDIENCE.replace("finance", "billing")
add(
    "audience_of_another_tool",
    "check_06_scope",
    Reason.AUDIENCE_MISMATCH,
    decided(audience=_OTHER_TOOL),
    negative=12,
)
add("method_of_another_call", "check_06_scope", Reason.METHOD_MISMATCH, decided(method=GET))
add("method_digest_not_listed", "check_06_scope", Reason.METHOD_SUPERSEDED, decided(method_digest=bytes(32)))
add("class_lowered", "check_06_class", MALFORMED, decided(**{"class": 1}))
add("class_raised", "check_06_class", MALFORMED, decided(**{"class": 3}))
add("write_that_does_not_spend", "check_06_class", MALFORMED, decided(spends=False))
add(
    "ceilings_where_exact",
    "check_06_class",
    MALFORMED,
    decided(GET, call_digest=b"", ceilings=[_CEILING]),
    LAWFUL_READ,
)

# 7 ----------------------------------------------------------------------
_THIEF = world.AGENT.replace("support", "sales")
add("caller_is_another", "check_07_caller", Reason.CALLER_MISMATCH, shown(peer=_THIEF), negative=14)
add("caller_without_identity", "check_07_caller", Reason.CALLER_UNKNOWN, shown(peer=""))
add("caller_with_query", "check_07_caller", Reason.CALLER_UNKNOWN, shown(peer=world.AGENT + "?x"))

# 8 ----------------------------------------------------------------------


def lived(path: str, issued: int, end: int) -> Scene:
    return decided(path, issued_at_ms=NOW + issued, not_after_ms=NOW + end)


add(
    "from_the_future",
    "check_08_time",
    Reason.NOT_YET_VALID,
    lived(REFUND, 1_001, 9_000),
    lived(REFUND, 1_000, 9_000),
)
add("expired", "check_08_time", Reason.EXPIRED, lived(REFUND, -9_000, 0), lived(REFUND, -9_000, 1))
add(
    "write_lives_too_long",
    "check_08_time",
    Reason.LIFE_TOO_LONG,
    lived(REFUND, 0, 60_001),
    lived(REFUND, 0, 60_000),
)
add(
    "read_lives_too_long",
    "check_08_time",
    Reason.LIFE_TOO_LONG,
    lived(GET, 0, 300_001),
    lived(GET, 0, 300_000),
)
add(
    "ends_before_it_begins",
    "check_08_time",
    Reason.LIFE_TOO_LONG,
    lived(REFUND, 500, 400),
    lived(REFUND, 500, 501),
)

# 9 ----------------------------------------------------------------------


def heard(**changes: Any) -> Setting:
    return Setting(beacon=world.signed_beacon(**changes))


def at(setting: Setting, path: str = REFUND, **changes: Any) -> Scene:
    return replace(decided(path, **changes), setting=setting)


add("no_beacon", "check_09_beacon", Reason.BEACON_STALE, at(Setting(beacon=None)), negative=31)
# The beacon was 500 ms old when it came; the write is tried 4,501 ms later, the read 59,501 ms later.
add(
    "beacon_5001_ms_old",
    "check_09_beacon",
    Reason.BEACON_STALE,
    replace(LAWFUL, now_ms=NOW + 4_501),
    replace(LAWFUL, now_ms=NOW + 4_500),
    negative=31,
)
_LONG_READ = lived(GET, 0, 300_000)
add(
    "beacon_60001_ms_old_for_a_read",
    "check_09_beacon",
    Reason.BEACON_STALE,
    replace(_LONG_READ, now_ms=NOW + 59_501),
    replace(_LONG_READ, now_ms=NOW + 59_500),
    negative=31,
)
add(
    "beacon_replayed",
    "check_09_beacon",
    Reason.BEACON_STALE,
    at(heard(issued_at_ms=NOW - 5_001)),
    at(heard(issued_at_ms=NOW - 5_000)),
    negative=31,
)
add("configuration_newer_than_beacon", "check_09_beacon", Reason.BEACON_BEHIND, decided(config_seq=8))
add(
    "bundle_superseded",
    "check_09_beacon",
    Reason.BUNDLE_SUPERSEDED,
    at(heard(bundle_version=13, config_seq=8)),
    negative=34,
)
add(
    "bundle_of_the_future",
    "check_09_beacon",
    Reason.BUNDLE_SUPERSEDED,
    decided(bundle_version=13),
    negative=34,
)
add(
    "bundle_newer_than_beacon",
    "check_09_beacon",
    Reason.BEACON_BEHIND,
    decided(bundle_version=13, config_seq=8),
    at(heard(bundle_version=13, config_seq=8), bundle_version=13, config_seq=8),
    negative=34,
)
_RESTORED = replace(heard(generation=2), generation=2)
add(
    "generation_superseded",
    "check_09_beacon",
    Reason.GENERATION_SUPERSEDED,
    at(_RESTORED),
    at(_RESTORED, generation=2),
)
add("generation_of_the_future", "check_09_beacon", Reason.BEACON_BEHIND, decided(generation=2))
add(
    "tool_key_of_another_generation",
    "check_09_beacon",
    Reason.GENERATION_SUPERSEDED,
    at(heard(generation=2), generation=2),
    at(_RESTORED, generation=2),
)
add("key_set_older_than_beacon", "check_09_beacon", Reason.BEACON_BEHIND, at(heard(keyset_version=2)))
_NAMED = {"revocations_seq": 1, "revocations_sha256": bytes(32)}
_NOTHING = replace(heard(**_NAMED), revocations=world.signed_revocations(1, ("TASK", "task_2")))
add(
    "revocations_older_than_beacon",
    "check_09_beacon",
    Reason.BEACON_BEHIND,
    at(heard(**_NAMED)),
    at(_NOTHING),
)
for kind, name, reason, negative in (
    ("KEY", "decider", Reason.KEY_REVOKED, 7),
    ("DECISION", world.decision().decision_id, Reason.DECISION_REVOKED, None),
    ("TASK", "task_1", Reason.TASK_REVOKED, None),
    ("AGENT", "support", Reason.AGENT_REVOKED, None),
    ("PRINCIPAL", "user-1", Reason.PRINCIPAL_REVOKED, None),
    ("DELEGATION", "d1", Reason.DELEGATION_REVOKED, 35),
    ("DELEGATION", "d2", Reason.DELEGATION_REVOKED, 35),
    ("TOOL", world.AUDIENCE, Reason.TOOL_STOPPED, None),
    ("ENVIRONMENT", "prod", Reason.ENVIRONMENT_STOPPED, None),
):
    _REVOKED = replace(_NOTHING, revocations=world.signed_revocations(1, (kind, name), ("TASK", name + "x")))
    label = name if kind == "DELEGATION" else ""
    add(
        f"{kind.lower()}_revoked{label}", "check_09_revocations", reason, at(_REVOKED), at(_NOTHING), negative
    )

# 10 ----------------------------------------------------------------------


def sent(body: bytes, **changes: Any) -> Scene:
    """The permit for the usual refund, or a changed one, with another body."""
    scene = decided(**changes)
    return replace(scene, presented=replace(scene.presented, body=body))


_BODY = world.refund()
add("arguments_garbage", "check_10_arguments", Reason.ARGUMENTS_MALFORMED, sent(b"\x0a\xff"))
add(
    "arguments_unknown_field",
    "check_10_arguments",
    Reason.UNKNOWN_FIELD,
    sent(_BODY + b"\xb8\x3e\x01"),
    negative=17,
)
add("order_other", "check_10_resource", Reason.RESOURCE_MISMATCH, sent(world.refund("O2")))
add(
    "resource_of_another_order",
    "check_10_resource",
    Reason.RESOURCE_MISMATCH,
    decided(resource="order:O2"),
)
_SPLIT = world.refund("O1:x")
add(
    "resource_with_separator",
    "check_10_resource",
    Reason.RESOURCE_MISMATCH,
    sent(_SPLIT, resource="order:O1:x", call_digest=world.digest_of(REFUND, _SPLIT)),
    sent(_SPLIT, resource="order:O1%3Ax", call_digest=world.digest_of(REFUND, _SPLIT)),
)
_NUL = world.refund("O1\0")
add(
    "order_with_nul",
    "check_10_resource",
    Reason.ARGUMENTS_MALFORMED,
    sent(_NUL, resource="order:O1%00", call_digest=world.digest_of(REFUND, _NUL)),
)
add("amount_51", "check_10_binding", Reason.DIGEST_MISMATCH, sent(world.refund(minor=5100)))
add("amount_49", "check_10_binding", Reason.DIGEST_MISMATCH, sent(world.refund(minor=4900)))
add("currency_other", "check_10_binding", Reason.DIGEST_MISMATCH, sent(world.refund(currency="EUR")))
add("note_added", "check_10_binding", Reason.DIGEST_MISMATCH, sent(world.refund(note="x")))
_MERGED = _BODY + b"\x12\x03\x08\x8f\x4e"  # a second `amount`: it merges to 9999
add("amount_merged", "check_10_binding", Reason.DIGEST_MISMATCH, sent(_MERGED), negative=16)
add(
    "tool_key_of_another_tool",
    "check_10_binding",
    Reason.DIGEST_MISMATCH,
    replace(LAWFUL, setting=Setting(tool_key=bytes(32))),
)


def limited(minor: int, currency: str = "USD", note: str = "") -> Scene:
    equal, least, most = (
        ConstraintOp.CONSTRAINT_OP_EQ,
        ConstraintOp.CONSTRAINT_OP_GE,
        ConstraintOp.CONSTRAINT_OP_LE,
    )
    limits = [
        _CEILING,
        {"path": ["amount", "currency"], "op": equal, "values": [{"text": "USD"}]},
        {"path": ["amount", "minor"], "op": least, "values": [{"integer": 1}]},
        {"path": ["amount", "minor"], "op": most, "values": [{"integer": 5000}]},
    ]
    body = world.refund(minor=minor, currency=currency, note=note)
    return sent(body, call_digest=b"", ceilings=limits)


add("ceiling_51", "check_10_binding", Reason.CEILING_EXCEEDED, limited(5100), limited(4900))
add("ceiling_other_currency", "check_10_binding", Reason.CEILING_EXCEEDED, limited(50, "JPY"), limited(50))
add(
    "ceiling_none_for_a_field",
    "check_10_binding",
    Reason.CEILING_UNCOVERED,
    limited(50, note="x"),
    limited(50),
)

_RULED = world.method(
    REFUND,
    arguments=[
        {"path": "amount.minor", "min": 1, "max": 5000},
        {"path": "note", "max_length": 3},
        {"path": "tags", "one_of": ["a", "b"], "max_items": 2},
    ],
)


def ruled(**more: Any) -> Scene:
    """A permit for exactly this refund, signed by the decider, where the tool's owner has argument rules."""
    method = read_method(REFUND, canonical(_RULED))
    body = world.refund(**more)
    setting = Setting(catalog=world.signed_catalog(world.catalog_message(refund=_RULED)))
    digest = world.digest_under(method, body)
    return replace(sent(body, method_digest=method.digest, call_digest=digest), setting=setting)


for label, broken, kept in (
    ("above_the_owners_limit", {"minor": 5001}, {"minor": 5000}),
    ("of_nothing", {"minor": 0}, {"minor": 1}),
    ("negative", {"minor": -1}, {"minor": 1}),
    ("with_a_long_note", {"note": "éé"}, {"note": "éa"}),
    ("with_an_unlisted_tag", {"tags": ["a", "c"]}, {"tags": ["a", "b"]}),
    ("with_too_many_tags", {"tags": ["a", "b", "a"]}, {"tags": ["a", "b"]}),
):
    add(f"refund_{label}", "check_10_rules", Reason.ARGUMENT_REFUSED, ruled(**broken), ruled(**kept))

# 11 ----------------------------------------------------------------------
add(
    "obligation_unknown",
    "check_11_obligations",
    Reason.OBLIGATION_UNKNOWN,
    decided(obligations=[{"id": "burn_after_reading"}]),
    decided(obligations=[{"id": "mask_reply", "paths": ["note"]}]),
)

_WIPE = world.wipe_decision()
_HELD = world.hold(_WIPE)
_LEAD = world.proof(_HELD, world.approval(_HELD, "ada", "lead"))
_SECURITY = world.proof(_HELD, world.approval(_HELD, "cyd", "security"))
INVALID, MISSING = Reason.APPROVAL_INVALID, Reason.APPROVAL_MISSING
_APPROVALS = "check_11_approvals"


def approved(*proofs: bytes, setting: Setting = SETTING) -> Scene:
    return Scene(replace(world.approved_wipe(_WIPE), approvals=proofs), setting)


def lead(key: str | None = None, approver: str = "ada", **changes: Any) -> Scene:
    """The lead's approval says something else; security's is in order."""
    answer = world.approval(_HELD, approver, **{"role": "lead", **changes})
    return approved(world.proof(_HELD, answer, key), _SECURITY)


def held(**changes: Any) -> Scene:
    """Both approve another hold than the one the decision names."""
    other = world.hold(_WIPE, **changes)
    both = (world.approval(other, "ada", "lead"), world.approval(other, "cyd", "security"))
    return approved(*(world.proof(other, one) for one in both))


add("approval_with_a_write", _APPROVALS, INVALID, shown(approvals=(_LEAD,)))
add("approvals_missing", _APPROVALS, MISSING, approved(), LAWFUL_WIPE)
add("approval_of_one_role", _APPROVALS, MISSING, approved(_LEAD), LAWFUL_WIPE)
add(
    "approvals_of_one_role",
    _APPROVALS,
    MISSING,
    approved(_LEAD, world.proof(_HELD, world.approval(_HELD, "bob", "lead"))),
    LAWFUL_WIPE,
)
add("same_person_twice", _APPROVALS, INVALID, approved(_LEAD, _LEAD, _SECURITY), LAWFUL_WIPE, 37)
add(
    "one_person_two_hats",
    _APPROVALS,
    INVALID,
    approved(*(world.proof(_HELD, world.approval(_HELD, "bob", role)) for role in ("lead", "security"))),
    LAWFUL_WIPE,
    37,
)
add("five_approvals", _APPROVALS, Reason.TOO_LARGE, approved(*[_LEAD] * 5), LAWFUL_WIPE)
add("approval_garbage", _APPROVALS, INVALID, approved(b"\xff", _SECURITY), LAWFUL_WIPE)
add("approval_too_large", _APPROVALS, Reason.TOO_LARGE, approved(bytes(4097), _SECURITY), LAWFUL_WIPE)
add("approval_own", _APPROVALS, INVALID, lead("user", "user-1"), LAWFUL_WIPE, 37)
add("approval_by_another_key", _APPROVALS, INVALID, lead("cyd"), LAWFUL_WIPE, 37)
add("approval_by_decider_key", _APPROVALS, INVALID, lead("decider"), LAWFUL_WIPE, 37)
add(
    "approval_in_another_slot",
    _APPROVALS,
    INVALID,
    approved(
        world.proof(_HELD, world.approval(_HELD, "ada", "lead"), slot=PayloadType.DELEGATION), _SECURITY
    ),
    LAWFUL_WIPE,
    37,
)
for label, changes in {
    "ended": {"not_after_ms": NOW},
    "of_another_hold": {"hold_sha256": bytes(32)},
    "of_another_hold_id": {"hold_id": "0" * 32},
    "of_another_step": {"spend_id": "0" * 32},
    "of_other_arguments": {"call_digest": bytes(32)},
    "of_another_generation": {"generation": 2},
    "of_another_environment": {"environment": "staging"},
    "of_another_version": {"version": 2},
    "in_a_role_not_held": {"role": "security"},
    "of_another_role_s_rule": {"rule_ids": ["wipe-needs-security"]},
    "rejecting": {"answer": ApprovalAnswer.APPROVAL_ANSWER_REJECT},
    "escalating": {"answer": ApprovalAnswer.APPROVAL_ANSWER_ESCALATE},
    "without_answer": {"answer": ApprovalAnswer.APPROVAL_ANSWER_UNSPECIFIED},
    "with_an_unknown_answer": {"answer": 99},
}.items():
    add(f"approval_{label}", _APPROVALS, INVALID, lead(**changes), LAWFUL_WIPE, 37)
add("approval_of_no_rule", _APPROVALS, MISSING, lead(rule_ids=[]), LAWFUL_WIPE, 37)
for label, changes in {
    "of_another_step": {"spend_id": "0" * 32},
    "of_other_arguments": {"call_digest": bytes(32)},
    "of_another_tenant": {"tenant": "t2"},
    "of_another_task": {"task_id": "task_2"},
    "of_another_resource": {"resource": "book:B2"},
    "of_another_generation": {"generation": 2},
    "of_another_environment": {"environment": "staging"},
    "of_other_facts": {"facts_json": '{"books": 2}'},
    "ended": {"expires_at_ms": NOW - 1_000},
    "of_another_version": {"version": 3},
    "that_excludes_the_approver": {"excluded_approvers": ["ada"]},
    "with_an_id_of_its_own": {"hold_id": "0" * 32},
    "that_waits_for_nobody": {"requirements": [{"rule_id": "r", "role": "lead", "quorum": 0}]},
}.items():
    add(f"hold_{label}", _APPROVALS, INVALID, held(**changes), LAWFUL_WIPE, 37)
_TWO_HOLDS = world.hold(_WIPE, expires_at_ms=NOW + 7_200_000)  # the same id
add(
    "two_holds_of_one_id",
    _APPROVALS,
    INVALID,
    approved(_LEAD, world.proof(_TWO_HOLDS, world.approval(_TWO_HOLDS, "cyd", "security"))),
    LAWFUL_WIPE,
)
_NO_ADA = replace(_NOTHING, revocations=world.signed_revocations(1, ("KEY", "ada")))
add(
    "approver_key_revoked",
    _APPROVALS,
    INVALID,
    approved(_LEAD, _SECURITY, setting=_NO_ADA),
    approved(_LEAD, _SECURITY, setting=_NOTHING),
    37,
)

# Later flaws: their vectors come after the others, whatever their check ---------------
_STREAMING_NEXT = world.catalog_message()
_STREAMING_NEXT.entries[0].next = canonical(_STREAMING)
add(
    "client_streaming_in_the_next_version",
    "check_02_path",
    Reason.CLIENT_STREAMING,
    Scene(world.presented(), Setting(catalog=world.signed_catalog(_STREAMING_NEXT))),
)
_BARE = world.method(REFUND, guarded=False, unguarded="at_most_once")
_BARE_SETTING = Setting(catalog=world.signed_catalog(world.catalog_message(refund=_BARE)))


def at_bare_tool(again: int) -> Scene:
    """A try at a tool without guard, whose digests are its own."""
    method = _BARE_SETTING.door().catalog.methods[REFUND].current
    digest = world.digest_under(method, world.refund())
    return at(_BARE_SETTING, method_digest=method.digest, call_digest=digest, round=again)


add("second_round_without_guard", "check_06_class", Reason.ROUND_INVALID, at_bare_tool(1), at_bare_tool(0))
add(
    "tool_key_of_a_later_generation",
    "check_09_beacon",
    Reason.GENERATION_SUPERSEDED,
    Scene(world.presented(), replace(SETTING, generation=2)),
    Scene(world.presented(), SETTING),
)


def _behind_another_statement() -> Scene:
    """A signature, and behind it the front of what it signs: another slot's, ending as a permit does."""
    wanted = canonical(world.decision())
    end = pae(PayloadType.PERMIT, wanted)
    other = world.signing_key("decider").sign(PayloadType.DECISION, b"x" + end)
    front = pae(PayloadType.DECISION, other.payload).removesuffix(end)
    made = Signed(payload=wanted, signature=other.signature + front, key_id=other.key_id)
    return shown(permits=(canonical(made),))


add(
    "signature_with_the_front_of_another_statement",
    "check_04_signature",
    Reason.SIGNATURE_INVALID,
    _behind_another_statement(),
    negative=3,
)


def _named_otherwise() -> Scene:
    """Decision, hold and approvals agree on an id that is not the hold's contents'."""
    made = world.wipe_decision(hold_id="0" * 32)
    other = world.hold(made, hold_id=made.hold_id)
    both = (world.approval(other, "ada", "lead"), world.approval(other, "cyd", "security"))
    return Scene(
        world.presented(WIPE, world.sign(made), approvals=tuple(world.proof(other, one) for one in both))
    )


add("hold_id_that_the_decision_names_too", _APPROVALS, INVALID, _named_otherwise(), LAWFUL_WIPE, 37)

_SAID: dict[str, Any] = {
    "text": "Wipe B1",
    "risk_flags": ["personal"],
    "excluded_approvers": ["owner-1", "user-1"],
    "traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01",
}
_FLAGGED = world.hold(world.decision(WIPE), **_SAID)
_FLAGGED_WIPE = world.wipe_decision(hold_id=_FLAGGED.hold_id)


def retold(**changes: Any) -> Scene:
    """What people saw and signed says something else than the hold the decision names, under its id."""
    said = world.hold(_FLAGGED_WIPE, **_SAID | {"hold_id": _FLAGGED.hold_id} | changes)
    both = (world.approval(said, "ada", "lead"), world.approval(said, "cyd", "security"))
    proofs = tuple(world.proof(said, one) for one in both)
    return Scene(replace(world.approved_wipe(_FLAGGED_WIPE), approvals=proofs))


LAWFUL_FLAGGED = retold()
for label, changes in {
    "text": {"text": "Tidy B1"},
    "risk_flags": {"risk_flags": []},
    "excluded_approvers": {"excluded_approvers": ["user-1"]},
    "facts": {"facts_json": '{"books": 1}'},
    "requirements": {"requirements": [{"rule_id": "wipe-needs-lead", "role": "lead", "quorum": 1}]},
    "version": {"version": 1},
}.items():
    add(f"hold_with_another_{label}_under_its_id", _APPROVALS, INVALID, retold(**changes), LAWFUL_FLAGGED, 37)
_OF_1 = world.hold(world.decision(WIPE), version=1)
_WIPE_1 = world.wipe_decision(hold_id=_OF_1.hold_id)


def of_1(**changes: Any) -> Scene:
    """Decided, held and approved before an upgrade."""
    held_1 = world.hold(_WIPE_1, version=1, **changes)
    both = (world.approval(held_1, "ada", "lead"), world.approval(held_1, "cyd", "security"))
    return Scene(
        replace(world.approved_wipe(_WIPE_1), approvals=tuple(world.proof(held_1, one) for one in both))
    )


add("hold_of_version_1_with_other_facts", _APPROVALS, INVALID, of_1(facts_json='{"books": 2}'), of_1(), 37)
