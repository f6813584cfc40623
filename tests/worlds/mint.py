"""A decider's keys without a decider: mints permits as one would, and as an attacker would like to."""

import itertools
import time
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from decider.catalog.build import build_catalog
from decider.catalog.descriptors import Descriptors
from decider.catalog.tools import read_tools
from examples.refund.fin.v1 import finance_pb2
from licet.beacon import Beacon, beacon_payload
from licet.call import call_digest
from licet.catalog import Catalog, Method, read_catalog
from licet.embedded.dev_keys import make_dev_keys
from licet.identity import TRUST_DOMAIN_DEV, agent_id, audience_of
from licet.keyfile import read_secret, read_signed, read_signing_key
from licet.keys import KeySet, PublicKey, make_keyset, read_keyset
from licet.refusal import Refusal
from licet.spend import spend_id
from licet.statement import PayloadType, SigningKey, artifact_sha256, canonical
from licet.v1 import decision_pb2, statement_pb2
from licet.v1.statement_pb2 import Signed

ENVIRONMENT = "dev"
TOOL = "finance"
AGENT = agent_id(TRUST_DOMAIN_DEV, ENVIRONMENT, "refund-bot")
OTHER_AGENT = agent_id(TRUST_DOMAIN_DEV, ENVIRONMENT, "support-bot")
REFUND = "/fin.v1.Finance/IssueRefund"
GET_ORDER = "/fin.v1.Finance/GetOrder"
SEARCH = "/fin.v1.Finance/SearchPolicy"
POLICY = Path(__file__).parents[2] / "examples" / "refund" / "policy"
BUNDLE = sha256(b"bundle").digest()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def refund(
    order_id: str = "O1", minor: int = 5_000, currency: str = "USD", **fields: Any
) -> finance_pb2.IssueRefundRequest:
    amount = finance_pb2.Amount(minor=minor, currency=currency)
    return finance_pb2.IssueRefundRequest(order_id=order_id, amount=amount, **fields)


def build_signed_catalog(key: SigningKey, *, environment: str = ENVIRONMENT, **changes: Any) -> Signed:
    """Sign the example's catalog; `changes` maps a method's last word to fields to overwrite."""
    from licet.v1 import catalog_pb2

    source = read_tools(POLICY / "tools.yaml")
    descriptors = Descriptors((POLICY / "descriptors.binpb").read_bytes())
    raw = build_catalog(source, descriptors, environment=environment, trust_domain=TRUST_DOMAIN_DEV)
    catalog = catalog_pb2.Catalog.FromString(raw)
    for entry in catalog.entries:
        method = catalog_pb2.Method.FromString(entry.current)
        for name, value in changes.get(entry.path.rpartition("/")[2], {}).items():
            if isinstance(value, (list, tuple)):
                method.ClearField(name)
                getattr(method, name).extend(value)
            else:
                setattr(method, name, value)
        entry.current = canonical(method)
    return key.sign(PayloadType.CATALOG, canonical(catalog))


@dataclass
class Mint:
    """Everything a decider signs with. `mint.permit(...)` is lawful unless told otherwise."""

    directory: Path
    generation: int = 1
    bundle_version: int = 7
    config_seq: int = 3
    calls: Any = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self.keys_dir = self.directory / "keys"
        make_dev_keys(
            self.keys_dir,
            ENVIRONMENT,
            (TOOL, "other"),
            (),
            TRUST_DOMAIN_DEV,
            approvers={"lena": ("finance-lead",)},
        )
        self.audience = audience_of(TRUST_DOMAIN_DEV, ENVIRONMENT, TOOL)
        self.catalog_file = self.directory / "finance.catalog"
        self.write_catalog()

    def write_catalog(self, **changes: Any) -> None:
        self.catalog_file.write_bytes(canonical(build_signed_catalog(self.key("catalog"), **changes)))

    def key(self, name: str) -> SigningKey:
        return read_signing_key(self.keys_dir / f"{name}.key")

    @property
    def k_tool(self) -> bytes:
        return read_secret(self.keys_dir / f"tool-{TOOL}.key")

    @property
    def keyset_signed(self) -> Signed:
        return read_signed(self.keys_dir / "keyset.signed")

    @property
    def keyset(self) -> KeySet:
        keys = read_keyset(self.keyset_signed, self.key("root").public_key, environment=ENVIRONMENT)
        assert not isinstance(keys, Refusal)
        return keys

    @property
    def catalog(self) -> Catalog:
        catalog = read_catalog(
            read_signed(self.catalog_file), self.keyset, environment=ENVIRONMENT, now_ms=now_ms()
        )
        assert not isinstance(catalog, Refusal), catalog
        return catalog

    def add_keys(self, *extra: PublicKey) -> None:
        """Put further public keys into the key set, as the root would."""
        keys = self.keyset
        payload = make_keyset(ENVIRONMENT, keys.version + 1, (*keys.keys.values(), *extra))
        signed = self.key("root").sign(PayloadType.KEYSET, payload)
        (self.keys_dir / "keyset.signed").write_bytes(canonical(signed))

    def method(self, path: str) -> Method:
        versions = self.catalog.method(path)
        assert versions is not None
        return versions.current

    def decision(
        self, path: str = REFUND, body: bytes | None = None, **changes: Any
    ) -> decision_pb2.Decision:
        """A lawful decision for `body`, with `changes` to its fields; the spend id follows them."""
        method = self.method(path)
        body = refund().SerializeToString() if body is None else body
        arguments = method.arguments(body)
        assert not isinstance(arguments, Refusal), arguments
        resource = method.resource_of(arguments)
        assert not isinstance(resource, Refusal), resource
        now = now_ms()
        fields: dict[str, Any] = {
            "version": 1,
            "decision_id": sha256(f"{now}-{next(self.calls)}".encode()).hexdigest()[:32],
            "decision": decision_pb2.DECISION_TYPE_ALLOW,
            "environment": ENVIRONMENT,
            "tenant": "t1",
            "principal": "ana@t1.example.com",
            "caller": AGENT,
            "agent": "refund-bot",
            "task_id": "task_789",
            "call_id": f"call-{now}-{next(self.calls)}",
            "audience": self.audience,
            "method": path,
            "method_digest": method.digest,
            "resource": resource,
            "call_digest": call_digest(self.k_tool, method.codec, path, method.digest, arguments.encoded),
            "bundle_version": self.bundle_version,
            "rule_ids": ["refund-within-policy"],
            "config_seq": self.config_seq,
            "generation": self.generation,
            "issued_at_ms": now,
            "not_after_ms": now + 60_000,
            "class": int(method.call_class),
            "spends": method.spends,
            **changes,
        }
        fields.setdefault(
            "spend_id",
            spend_id(
                fields["environment"],
                fields["tenant"],
                fields["audience"],
                fields["agent"],
                fields["task_id"],
                fields["call_id"],
            ),
        )
        return decision_pb2.Decision(**fields)

    def sign(
        self, decision: decision_pb2.Decision, key: str = "decider", slot: PayloadType = PayloadType.PERMIT
    ) -> bytes:
        return canonical(self.key(key).sign(slot, canonical(decision)))

    def permit(self, path: str = REFUND, body: bytes | None = None, **changes: Any) -> bytes:
        return self.sign(self.decision(path, body, **changes))

    def beacon(self, **changes: Any) -> Signed:
        fields: dict[str, Any] = {
            "environment": ENVIRONMENT,
            "issued_at_ms": now_ms(),
            "config_seq": self.config_seq,
            "generation": self.generation,
            "bundle_version": self.bundle_version,
            "bundle_sha256": BUNDLE,
            "keyset_version": self.keyset.version,
            "keyset_sha256": artifact_sha256(self.keyset_signed),
            "revocations_seq": 0,
            "revocations_sha256": b"",
            "spend_floor": 0,
            "spend_log_origin_seq": 1 << 40,
            "store_safe": True,
            **changes,
        }
        return self.key("beacon").sign(PayloadType.BEACON, beacon_payload(Beacon(**fields)))


def scalar(value: str | int) -> statement_pb2.Scalar:
    if isinstance(value, str):
        return statement_pb2.Scalar(text=value)
    return statement_pb2.Scalar(integer=value)
