"""A finance tool on either database, with its guard and a decider's keys beside it."""

import sqlite3
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import psycopg

from examples.refund.fin.v1.finance_pb2 import IssueRefundRequest, IssueRefundResponse
from licet.catalog import Catalog
from licet.guard import Anchor, Guard, Spend, SqliteLedger
from licet.guard.guard import Call, Done, Effect
from licet.guard.ledger import Change, Ledger
from licet.guard.postgres import PostgresLedger
from licet.keyfile import read_signed
from licet.keys import KeySet
from licet.permit import Presented
from licet.refusal import Refusal
from licet.spend import reserve_payload
from licet.statement import PayloadType, SigningKey
from licet.v1.decision_pb2 import Decision, Precondition
from licet.v1.guard_pb2 import BeaconRequest
from licet.v1.statement_pb2 import Scalar, Signed
from tests.worlds.mint import REFUND, Mint, now_ms, refund

ATTEMPT = "a" * 32
LEDGER_ROW = "INSERT INTO ledger (change_id, account, amount_minor, spend_id, entry) VALUES (?, ?, ?, ?, ?)"
ORDERS = (("O1", "t1", 1), ("O2", "t1", 1), ("O4", "t2", 1))


class Store(Protocol):
    """What differs between the databases."""

    ledger: Ledger
    refusals: tuple[type[Exception], ...]
    for_update: str

    def connect(self) -> Any:
        """A connection as the driver opens it, each statement committed at once: what an attacker has."""

    def spell(self, statement: str) -> str:
        """A statement with `?` in the driver's own style."""


class SqliteStore:
    refusals = (sqlite3.IntegrityError, sqlite3.OperationalError)
    for_update = ""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ledger = SqliteLedger(path)

    def connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, isolation_level=None)

    def spell(self, statement: str) -> str:
        return statement


class PostgresStore:
    refusals = (psycopg.Error,)
    for_update = " FOR UPDATE"

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.ledger = PostgresLedger(lambda: psycopg.connect(dsn))

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.dsn, autocommit=True)

    def spell(self, statement: str) -> str:
        return statement.replace("?", "%s")


class QuickMint(Mint):
    """A mint that reads its files once."""

    def key(self, name: str) -> SigningKey:
        if name not in self._keys:
            self._keys[name] = super().key(name)
        return self._keys[name]

    @cached_property
    def _keys(self) -> dict[str, SigningKey]:
        return {}

    @cached_property
    def k_tool(self) -> bytes:  # type: ignore[override]
        return Mint.k_tool.fget(self)  # type: ignore[attr-defined,no-any-return]

    @cached_property
    def keyset(self) -> KeySet:  # type: ignore[override]
        return Mint.keyset.fget(self)  # type: ignore[attr-defined,no-any-return]

    @cached_property
    def catalog(self) -> Catalog:  # type: ignore[override]
        return Mint.catalog.fget(self)  # type: ignore[attr-defined,no-any-return]


class GuardedTool:
    """Orders and a ledger, guarded; `refund` is what the tool does with a call that reached it."""

    def __init__(self, mint: Mint, store: Store) -> None:
        self.mint, self.store = mint, store
        self._make_tables()
        store.ledger.install()
        store.ledger.protect("ledger", "spend_id", "entry")
        self.guard = Guard(store.ledger, self.anchor())
        self.beacon()
        self.changes_run = 0

    def anchor(self, **changes: Any) -> Anchor:
        fields: dict[str, Any] = {
            "environment": "dev",
            "audience": self.mint.audience,
            "root_public_key": self.mint.key("root").public_key,
            "catalog": read_signed(self.mint.catalog_file),
            "tool_key": self.mint.k_tool,
        }
        return Anchor(**{**fields, **changes})

    def beacon(self, **changes: Any) -> Any:
        return self.guard.take_beacon(self.beacon_request(**changes))

    def beacon_request(self, **changes: Any) -> BeaconRequest:
        return BeaconRequest(beacon=self.mint.beacon(**changes), keyset=self.mint.keyset_signed)

    def decision(self, request: IssueRefundRequest | None = None, **changes: Any) -> Decision:
        """A lawful decision on the order as it is now."""
        request = refund() if request is None else request
        found = self.rows("SELECT version, tenant FROM orders WHERE order_id = ?", request.order_id)
        version, tenant = found[0] if found else (1, "t1")
        facts = {"order.version": version, "order.tenant": tenant, "order.status": "paid"}
        changes.setdefault("preconditions", preconditions(**facts))
        return self.mint.decision(body=request.SerializeToString(), **changes)

    def call(self, request: IssueRefundRequest | None = None, **changes: Any) -> Call:
        """A call as the sidecar forwards it, with a permit that `changes` are made to."""
        request = refund() if request is None else request
        return self.call_with(request, self.mint.sign(self.decision(request, **changes)))

    def call_with(self, request: IssueRefundRequest, *permits: bytes, attempt: str = ATTEMPT) -> Call:
        body = request.SerializeToString(deterministic=True)
        return Call(Presented(REFUND, permits, (), body, ""), attempt, "1" * 32, "2" * 16)

    def refund(self, call: Call, entries: int = 2) -> Done[IssueRefundResponse] | Refusal:
        request = IssueRefundRequest.FromString(call.presented.body)
        return self.guard.execute(call, Effect(self.change(request), IssueRefundResponse, entries))

    def change(self, request: IssueRefundRequest) -> Callable[[Spend], IssueRefundResponse]:
        def run(spend: Spend) -> IssueRefundResponse:
            self.changes_run += 1
            spell, order_id = self.store.spell, request.order_id
            query = "SELECT tenant, version, status FROM orders WHERE order_id = ?" + self.store.for_update
            tenant, version, status = spend.execute(spell(query), (order_id,)).fetchone()
            facts = {"order.tenant": tenant, "order.version": version, "order.status": status}
            spend.check(tenant=tenant, facts=facts)
            spend.execute(spell("UPDATE orders SET version = version + 1 WHERE order_id = ?"), (order_id,))
            minor = request.amount.minor
            for account, amount in (("merchant", -minor), ("customer", minor)):
                entry = spend.entry(account=account, amount_minor=amount, currency=request.amount.currency)
                spend.execute(
                    spell(LEDGER_ROW),
                    (f"{spend.spend_id}/{entry}", account, amount, spend.spend_id, entry),
                )
            return IssueRefundResponse(refund_id=spend.spend_id, order_version=version + 1)

        return run

    def reserve(
        self,
        decision: Decision,
        *,
        key: str = "spend-finance",
        attempt: str = ATTEMPT,
        slot: PayloadType = PayloadType.PERMIT,
    ) -> Signed:
        """The record that the sidecar wrote before it forwarded this call."""
        payload = reserve_payload(
            environment="dev",
            permit=Signed.FromString(self.mint.sign(decision, slot=slot)),
            attempt=attempt,
            sidecar=f"spiffe://licet.local/dev/sidecar/{key.removeprefix('spend-')}",
            reserved_at_ms=decision.issued_at_ms,
            call_digest=decision.call_digest,
        )
        return self.mint.key(key).sign(PayloadType.SPEND, payload)

    def rows(self, statement: str, *parameters: Any) -> list[Any]:
        connection = self.store.connect()
        try:
            return list(connection.execute(self.store.spell(statement), parameters).fetchall())
        finally:
            connection.close()

    def attack(self, statement: str, *parameters: Any) -> str:
        """Run a statement past the guard; returns the database's words of refusal, or `accepted`."""
        connection = self.store.connect()
        try:
            connection.execute(self.store.spell(statement), parameters)
        except self.store.refusals as error:
            return str(error).splitlines()[0]
        finally:
            connection.close()
        return "accepted"

    def ledger_rows(self) -> list[Any]:
        return self.rows("SELECT spend_id, entry, account, amount_minor FROM ledger ORDER BY spend_id, entry")

    def spend_rows(self) -> list[Any]:
        return self.rows("SELECT spend_id, round, state FROM licet_spend ORDER BY spend_id, round")

    def outbox(self, acked: int = 0, limit: int = 1000) -> tuple[Change, ...]:
        return self.store.ledger.outbox(acked, limit)

    def _make_tables(self) -> None:
        connection = self.store.connect()
        connection.execute(
            "CREATE TABLE orders"
            " (order_id text PRIMARY KEY, tenant text, version integer, status text DEFAULT 'paid')"
        )
        connection.execute(
            "CREATE TABLE ledger"
            " (change_id text PRIMARY KEY, account text, amount_minor integer, spend_id text,"
            " entry integer)"
        )
        for order in ORDERS:
            statement = self.store.spell("INSERT INTO orders (order_id, tenant, version) VALUES (?, ?, ?)")
            connection.execute(statement, order)
        connection.close()


def scalar(value: bool | int | str) -> Scalar:
    if isinstance(value, bool):
        return Scalar(flag=value)
    return Scalar(text=value) if isinstance(value, str) else Scalar(integer=value)


def preconditions(**checks: Any) -> list[Precondition]:
    return [Precondition(check=check, expect=scalar(value)) for check, value in checks.items()]


def ended(life_ms: int = 1_000, ago_ms: int = 6_000) -> dict[str, int]:
    """Times of a permit that ended so long ago that its round may be fenced."""
    end = now_ms() - ago_ms
    return {"issued_at_ms": end - life_ms, "not_after_ms": end}
