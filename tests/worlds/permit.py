"""A small world in which a permit holds: keys, a catalog, a beacon, an order to refund, an order book to
wipe.

Everything is derived from names, so the same world comes out anywhere. A test changes one thing and looks
what the door says.
"""

from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from nacl.bindings import crypto_sign

from licet.beacon import Beacon, HeldBeacon, beacon_payload, read_beacon
from licet.call import call_digest
from licet.catalog import Catalog, Method, read_catalog
from licet.dsse import PayloadType, SigningKey
from licet.hold import HOLD_VERSION, HOLD_VERSION_1, Requirement, hold_id, hold_id_1
from licet.identity import agent_id, audience_of
from licet.keys import KeyRole, KeySet, PublicKey, make_keyset, read_keyset
from licet.permit import DoorState, Permit, Presented, examine
from licet.refusal import Refusal
from licet.revocation import NONE, Revocations, read_revocations
from licet.spend import spend_id
from licet.strict import canonical
from licet.tier import CallClass
from licet.v1 import catalog_pb2, hold_pb2, keys_pb2
from licet.v1.decision_pb2 import Codec, Decision, DecisionType
from licet.v1.hold_pb2 import ApprovalAnswer
from licet.v1.statement_pb2 import Signed

NOW = 1_800_000_000_000
ENVIRONMENT = "prod"
TRUST_DOMAIN = "licet.local"
AUDIENCE = audience_of(TRUST_DOMAIN, ENVIRONMENT, "finance")
AGENT = agent_id(TRUST_DOMAIN, ENVIRONMENT, "support")
REFUND, WIPE, GET = "/fin.v1.Finance/IssueRefund", "/fin.v1.Finance/WipeOrders", "/fin.v1.Finance/GetOrder"
K_TOOL = sha256(b"k_tool").digest()
VALID = (NOW - 86_400_000, NOW + 86_400_000)


def signing_key(name: str) -> SigningKey:
    return SigningKey.from_seed(name, sha256(b"licet test key " + name.encode()).digest())


def public_key(name: str, role: KeyRole, **changes: Any) -> PublicKey:
    key = PublicKey(name, role, ENVIRONMENT, signing_key(name).public_key, *VALID)
    return replace(key, **changes)


PUBLIC_KEYS = (
    public_key("decider", KeyRole.DECIDER),
    public_key("beacon", KeyRole.BEACON),
    public_key("bundle", KeyRole.BUNDLE),
    public_key("catalog", KeyRole.CATALOG),
    public_key(
        "spend-finance",
        KeyRole.SPEND,
        owner=f"spiffe://{TRUST_DOMAIN}/prod/sidecar/finance",
        audience=AUDIENCE,
    ),
    public_key("checkpoint", KeyRole.CHECKPOINT, owner="source"),
    public_key("ada", KeyRole.APPROVER, owner="ada", approver_roles=("lead",)),
    public_key("bob", KeyRole.APPROVER, owner="bob", approver_roles=("lead", "security")),
    public_key("cyd", KeyRole.APPROVER, owner="cyd", approver_roles=("security",)),
    public_key("user", KeyRole.APPROVER, owner="user-1", approver_roles=("lead", "security")),
    public_key("decider-staging", KeyRole.DECIDER, environment="staging"),
    public_key("decider-old", KeyRole.DECIDER, not_before_ms=NOW - 2, not_after_ms=NOW),
    public_key("decider-early", KeyRole.DECIDER, not_before_ms=NOW + 1),
)


ROOT = signing_key("root")


def signed_keyset(*keys: PublicKey, version: int = 1) -> Signed:
    return ROOT.sign(PayloadType.KEYSET, make_keyset(ENVIRONMENT, version, keys or PUBLIC_KEYS))


def keyset(*keys: PublicKey, version: int = 1) -> KeySet:
    read = read_keyset(signed_keyset(*keys, version=version), ROOT.public_key, environment=ENVIRONMENT)
    assert isinstance(read, KeySet), read
    return read


KEYS = keyset()


def _file() -> descriptor_pb2.FileDescriptorProto:
    text, integer, message, data, enum = 9, 3, 11, 12, 14
    file = descriptor_pb2.FileDescriptorProto(name="fin.proto", package="fin.v1", syntax="proto3")
    shapes: dict[str, list[tuple[str, int, bool]]] = {
        "Money": [("minor", integer, False), ("currency", text, False)],
        "Refund": [
            ("order_id", text, False),
            ("amount", message, False),
            ("note", text, False),
            ("tags", text, True),
        ],
        "Wipe": [("book", text, False), ("why", text, False)],
        "GetOrder": [("order_id", text, False), ("view", enum, False), ("etag", data, False)],
        "Order": [("tenant", text, False), ("version", integer, False), ("money", message, False)],
        "Empty": [],
    }
    view = file.enum_type.add(name="View")
    for number, value in enumerate(("VIEW_UNSPECIFIED", "VIEW_FULL")):
        view.value.add(name=value, number=number)
    for name, parts in shapes.items():
        shape = file.message_type.add(name=name)
        for number, (part, kind, repeated) in enumerate(parts, 1):
            added = shape.field.add(name=part, number=number, type=kind, label=3 if repeated else 1)
            if kind == message:
                added.type_name = ".fin.v1.Money"
            if kind == enum:
                added.type_name = ".fin.v1.View"
    return file


DESCRIPTORS = descriptor_pb2.FileDescriptorSet(file=[_file()]).SerializeToString(deterministic=True)


def message(name: str) -> Any:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_file())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"fin.v1.{name}"))


_Refund, _Money, _Wipe, _GetOrder = (message(name) for name in ("Refund", "Money", "Wipe", "GetOrder"))


def refund(order_id: str = "O1", minor: int = 5000, currency: str = "USD", **more: Any) -> bytes:
    body: bytes = _Refund(
        order_id=order_id, amount={"minor": minor, "currency": currency}, **more
    ).SerializeToString()
    return body


WIPE_BODY: bytes = _Wipe(book="B1", why="closing").SerializeToString()
GET_BODY: bytes = _GetOrder(order_id="O1").SerializeToString()
GET_FULL_BODY: bytes = _GetOrder(order_id="O1", view=1, etag=b"abc").SerializeToString()


def method(of: str, /, **changes: Any) -> catalog_pb2.Method:
    common: dict[str, Any] = {"path": of, "codec": Codec.CODEC_PROTOBUF, "descriptors": DESCRIPTORS}
    of_path: dict[str, dict[str, Any]] = {
        REFUND: {
            "input_type": "fin.v1.Refund",
            "output_type": "fin.v1.Empty",
            "tier": 4,
            "operation": "refund",
            "resource": "order:{order_id}",
            "money": {"amount": "amount.minor", "currency": "amount.currency"},
            "facts": {
                "method": GET,
                "request": {"order_id": "order_id"},
                "tenant": "tenant",
                "preconditions": {"order.version": "version"},
            },
            "say": "Refund {amount} {amount.currency} for order {order_id}: {note}",
            "sensitive": ["note"],
            "guarded": True,
            "ceilings": True,
            "obligations": ["mask_reply"],
        },
        WIPE: {
            "input_type": "fin.v1.Wipe",
            "output_type": "fin.v1.Empty",
            "tier": 5,
            "operation": "wipe",
            "resource": "book:{book}",
            "say": "Wipe {book}",
            "guarded": True,
            "approvers": [{"role": "lead", "quorum": 1}, {"role": "security", "quorum": 1}],
        },
        GET: {
            "input_type": "fin.v1.GetOrder",
            "output_type": "fin.v1.Order",
            "tier": 1,
            "operation": "read_order",
            "resource": "order:{order_id}",
            "say": "Read order {order_id}",
        },
    }
    return catalog_pb2.Method(**{**common, **of_path[of], **changes})


def catalog_message(**methods: catalog_pb2.Method) -> catalog_pb2.Catalog:
    listed = {"refund": method(REFUND), "wipe": method(WIPE), "get": method(GET), **methods}
    return catalog_pb2.Catalog(
        version=1,
        catalog_version=3,
        environment=ENVIRONMENT,
        tool="finance",
        audience=AUDIENCE,
        entries=[catalog_pb2.CatalogEntry(path=one.path, current=canonical(one)) for one in listed.values()],
    )


def signed_catalog(message: catalog_pb2.Catalog) -> Signed:
    return signing_key("catalog").sign(PayloadType.CATALOG, canonical(message))


def catalog(**methods: catalog_pb2.Method) -> Catalog:
    read = read_catalog(signed_catalog(catalog_message(**methods)), KEYS, environment=ENVIRONMENT, now_ms=NOW)
    assert isinstance(read, Catalog), read
    return read


def signed_revocations(seq: int, *entries: tuple[str, str], key: str = "decider", **changes: Any) -> Signed:
    listed = [{"kind": f"REVOCATION_KIND_{kind}", "id": name, "revoked_at_ms": NOW} for kind, name in entries]
    fields = {"version": 1, "revocations_seq": seq, "environment": ENVIRONMENT, "revocations": listed}
    message = keys_pb2.RevocationList(**{**fields, **changes})
    return signing_key(key).sign(PayloadType.REVOCATIONS, canonical(message))


def beacon(**changes: Any) -> Beacon:
    fields: dict[str, Any] = {
        "environment": ENVIRONMENT,
        "issued_at_ms": NOW - 500,
        "config_seq": 7,
        "generation": 1,
        "bundle_version": 12,
        "bundle_sha256": bytes(32),
        "keyset_version": 1,
        "keyset_sha256": bytes(32),
        "revocations_seq": 0,
        "revocations_sha256": b"",
        "spend_floor": 3,
        "spend_log_origin_seq": 3,
        "store_safe": True,
    }
    return Beacon(**{**fields, **changes})


def signed_beacon(key: str = "beacon", **changes: Any) -> Signed:
    return signing_key(key).sign(PayloadType.BEACON, beacon_payload(beacon(**changes)))


@dataclass(frozen=True)
class Setting:
    """A door as its signed parts; time is Unix ms, also for the monotonic clock."""

    keyset: Signed = field(default_factory=signed_keyset)
    catalog: Signed = field(default_factory=lambda: signed_catalog(catalog_message()))
    revocations: Signed | None = None
    beacon: Signed | None = field(default_factory=signed_beacon)
    beacon_received_at_ms: int = NOW
    environment: str = ENVIRONMENT
    audience: str = AUDIENCE
    tool_key: bytes = K_TOOL
    generation: int = 1
    obligations: tuple[str, ...] = ()
    root_public_key: bytes = ROOT.public_key

    def door(self) -> DoorState:
        here, now = self.environment, self.beacon_received_at_ms
        keys = read_keyset(self.keyset, self.root_public_key, environment=here)
        assert isinstance(keys, KeySet), keys
        tools = read_catalog(self.catalog, keys, environment=here, now_ms=now)
        assert isinstance(tools, Catalog), tools
        revoked = NONE
        if self.revocations is not None:
            listed = read_revocations(self.revocations, keys, environment=here, now_ms=now)
            assert isinstance(listed, Revocations), listed
            revoked = listed
        held = None
        if self.beacon is not None:
            known = read_beacon(self.beacon, keys, environment=here, now_ms=now)
            assert isinstance(known, Beacon), known
            held = HeldBeacon.received(known, now_ms=now, monotonic_ms=now)
        return DoorState(
            environment=here,
            audience=self.audience,
            catalog=tools,
            keys=keys,
            revocations=revoked,
            beacon=held,
            k_tool=self.tool_key,
            generation=self.generation,
            obligations=frozenset(self.obligations),
        )


CATALOG = catalog()
METHODS: dict[str, Method] = {path: versions.current for path, versions in CATALOG.methods.items()}
SETTING = Setting()
DOOR = SETTING.door()
BODIES = {REFUND: refund(), WIPE: WIPE_BODY, GET: GET_BODY}
RESOURCES = {REFUND: "order:O1", WIPE: "book:B1", GET: "order:O1"}


def digest_of(path: str, body: bytes) -> bytes:
    return digest_under(METHODS[path], body)


def digest_under(method: Method, body: bytes) -> bytes:
    arguments = method.arguments(body)
    assert not isinstance(arguments, Refusal), arguments
    return call_digest(K_TOOL, method.codec, method.path, method.digest, arguments.encoded)


def decision(path: str = REFUND, body: bytes | None = None, **changes: Any) -> Decision:
    """The decision that lets `body` through; the spend id is that of the changed fields unless given."""
    one = METHODS[path]
    fields: dict[str, Any] = {
        "version": 1,
        "decision_id": "0190" + 28 * "a",
        "decision": DecisionType.DECISION_TYPE_ALLOW,
        "environment": ENVIRONMENT,
        "tenant": "t1",
        "principal": "user-1",
        "caller": AGENT,
        "agent": "support",
        "task_id": "task_1",
        "call_id": "call_1",
        "delegations": ["d1", "d2"],
        "audience": AUDIENCE,
        "method": path,
        "method_digest": one.digest,
        "resource": RESOURCES[path],
        "call_digest": digest_of(path, BODIES[path] if body is None else body),
        "bundle_version": 12,
        "rule_ids": ["refund-small"],
        "config_seq": 7,
        "reason": "within limits",
        "generation": 1,
        "issued_at_ms": NOW - 1_000,
        "not_after_ms": NOW + 50_000,
        "class": int(one.call_class),
        "spends": one.call_class is not CallClass.READ,
    }
    fields.update(changes)
    made = Decision(**fields)
    if "spend_id" not in changes:
        made.spend_id = spend_id(
            made.environment, made.tenant, made.audience, made.agent, made.task_id, made.call_id
        )
    return made


def sign(made: Decision, key: str = "decider", slot: PayloadType = PayloadType.PERMIT) -> bytes:
    return sign_payload(canonical(made), key, slot)


def sign_payload(payload: bytes, key: str = "decider", slot: PayloadType = PayloadType.PERMIT) -> bytes:
    return canonical(signing_key(key).sign(slot, payload))


def sign_bare(payload: bytes, key: str = "decider") -> bytes:
    """A signature over the payload itself, as a scheme without PAE would make it."""
    return crypto_sign(payload, signing_key(key)._secret)[:64]


def presented(path: str = REFUND, *permits: bytes, **changes: Any) -> Presented:
    made = Presented(path, permits or (sign(decision(path)),), (), BODIES.get(path, b""), AGENT)
    return replace(made, **changes)


def at_door(shown: Presented, door: DoorState = DOOR, now_ms: int = NOW) -> Permit | Refusal:
    return examine(shown, door, now_ms=now_ms, monotonic_ms=now_ms)


REQUIREMENTS = (Requirement("wipe-needs-lead", "lead", 1), Requirement("wipe-needs-security", "security", 1))


def hold(made: Decision, **changes: Any) -> hold_pb2.Hold:
    """The hold that `made` was lifted from, except for its id, which is then that of its contents."""
    fields: dict[str, Any] = {
        "version": HOLD_VERSION,
        "environment": made.environment,
        "spend_id": made.spend_id,
        "call_digest": made.call_digest,
        "tenant": made.tenant,
        "principal": made.principal,
        "agent": made.agent,
        "task_id": made.task_id,
        "method": made.method,
        "resource": made.resource,
        "requirements": [
            {"rule_id": one.rule_id, "role": one.role, "quorum": one.quorum} for one in REQUIREMENTS
        ],
        "text": "Wipe B1",
        "generation": made.generation,
        "expires_at_ms": NOW + 3_600_000,
        "excluded_approvers": ["user-1"],
        "facts_json": "{}",
        "audience": made.audience,
    }
    fields.update(changes)
    made_hold = hold_pb2.Hold(**fields)
    if "hold_id" not in changes:
        made_hold.hold_id = id_of(made_hold)
    return made_hold


def id_of(made: hold_pb2.Hold) -> str:
    """The id of what a hold says, as its version has it."""
    if made.version != HOLD_VERSION_1:
        return hold_id(made)
    needs = [Requirement(one.rule_id, one.role, one.quorum) for one in made.requirements]
    return hold_id_1(made.spend_id, made.call_digest, needs, made.facts_json)


def approval(held: hold_pb2.Hold, approver: str, role: str, **changes: Any) -> hold_pb2.Approval:
    fields: dict[str, Any] = {
        "version": 1,
        "environment": held.environment,
        "hold_id": held.hold_id,
        "hold_sha256": sha256(canonical(held)).digest(),
        "spend_id": held.spend_id,
        "call_digest": held.call_digest,
        "generation": held.generation,
        "approver": approver,
        "role": role,
        "answer": ApprovalAnswer.APPROVAL_ANSWER_APPROVE,
        "rule_ids": [one.rule_id for one in held.requirements if one.role == role],
        "authenticated_method": "webauthn",
        "authenticated_at_ms": NOW - 5_000,
        "not_after_ms": NOW + 3_600_000,
    }
    return hold_pb2.Approval(**{**fields, **changes})


def proof(
    held: hold_pb2.Hold,
    answer: hold_pb2.Approval,
    key: str | None = None,
    slot: PayloadType = PayloadType.APPROVAL,
) -> bytes:
    signed = signing_key(key or answer.approver).sign(slot, canonical(answer))
    return canonical(hold_pb2.ApprovalProof(hold=canonical(held), approval=signed))


def wipe_decision(**changes: Any) -> Decision:
    """A privileged decision that names its hold."""
    made = decision(WIPE, **changes)
    if "hold_id" not in changes:
        made.hold_id = hold(made).hold_id
    return made


def approved_wipe(made: Decision | None = None, *proofs: bytes) -> Presented:
    made = wipe_decision() if made is None else made
    held = hold(made)
    both = (proof(held, approval(held, "ada", "lead")), proof(held, approval(held, "cyd", "security")))
    return presented(WIPE, sign(made), approvals=proofs or both)
