"""The finance tool's orders: made, read and refunded in SQLite.

The tool trusts its callers, as tools do: it refunds an order whatever `refund_allowed` says. Who may call it
is not its business; that each refund happens once, for the order as it was decided on, is the guard's.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from examples.refund.fin.v1.finance_pb2 import GetOrderResponse, IssueRefundRequest, IssueRefundResponse

SCHEMA = Path(__file__).with_name("ledger.sql")
COLUMNS = "order_id, tenant, status, version, refund_allowed, amount_minor, currency, refunded_minor"


class UnknownOrder(LookupError):  # noqa: N818 - what it says, not a fault
    """There is no such order."""


@dataclass(frozen=True, slots=True)
class Order:
    """One order; amounts in minor units."""

    order_id: str
    tenant: str
    status: str
    version: int
    refund_allowed: bool
    amount_minor: int
    currency: str
    refunded_minor: int = 0

    def response(self) -> GetOrderResponse:
        """Return it as it goes over the wire."""
        return GetOrderResponse(**{name: getattr(self, name) for name in self.__slots__})


FIRST_ORDERS = (
    Order("O1", "t1", "paid", 1, refund_allowed=True, amount_minor=5000, currency="USD"),
    Order("O2", "t1", "paid", 1, refund_allowed=True, amount_minor=8000, currency="USD"),
    Order("O3", "t1", "paid", 1, refund_allowed=False, amount_minor=5000, currency="USD"),
    Order("O4", "t2", "paid", 1, refund_allowed=True, amount_minor=5000, currency="USD"),
)
"""What every book begins with."""

LOCK_WAIT_S = 15.0
"""How long readers and guarded refunds wait for the book's one write lock: the demo holds it for seconds."""


def bulk_orders(count: int) -> tuple[Order, ...]:
    """Return `count` more orders of tenant t1, B0001 and on, each of 50.00 USD that may be refunded."""
    return tuple(
        Order(f"B{number:04}", "t1", "paid", 1, refund_allowed=True, amount_minor=5000, currency="USD")
        for number in range(1, count + 1)
    )


def open_book(path: Path | str) -> sqlite3.Connection:
    """Open the tool's database and make its tables; commits survive a power cut (WAL, synchronous FULL)."""
    connection = sqlite3.connect(path, timeout=LOCK_WAIT_S, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.executescript(SCHEMA.read_text())
    return connection


def seed(connection: sqlite3.Connection, orders: Sequence[Order]) -> int:
    """Insert the orders that are missing; returns how many."""
    before = connection.total_changes
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(
        f"INSERT INTO orders ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",  # noqa: S608
        [tuple(getattr(order, name) for name in Order.__slots__) for order in orders],
    )
    connection.execute("COMMIT")
    return connection.total_changes - before


class Executes(Protocol):
    """Whatever runs a statement: a connection, or a step inside the guard's transaction."""

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> Any:
        """Run one statement with `?` parameters."""
        ...


def read_order(book: Executes, order_id: str) -> Order:
    """Return the order as it is now; raises UnknownOrder."""
    query = f"SELECT {COLUMNS} FROM orders WHERE order_id = ?"  # noqa: S608 - constants
    row = book.execute(query, (order_id,)).fetchone()
    if row is None:
        raise UnknownOrder(order_id)
    order_id, tenant, status, version, refund_allowed, amount_minor, currency, refunded_minor = row
    return Order(
        order_id, tenant, status, version, bool(refund_allowed), amount_minor, currency, refunded_minor
    )


class Step(Executes, Protocol):
    """What a refund needs to know of the step that it is part of; `licet.guard.Spend` is one."""

    @property
    def spend_id(self) -> str:
        """The step's one effect."""
        ...

    def check(self, *, tenant: str, facts: Mapping[str, int | str | bool | bytes]) -> None:
        """Compare the locked order with what was decided on."""
        ...

    def entry(self, *, account: str, amount_minor: int, currency: str) -> int:
        """Announce one ledger row and return its number."""
        ...


def refund(request: IssueRefundRequest, step: Step) -> IssueRefundResponse:
    """Pay back: the order and two ledger rows change in the step's transaction. Raises UnknownOrder."""
    order = read_order(step, request.order_id)
    step.check(
        tenant=order.tenant,
        facts={
            "order.tenant": order.tenant,
            "order.version": order.version,
            "order.status": order.status,
        },
    )
    minor, currency = request.amount.minor, request.amount.currency
    step.execute(
        "UPDATE orders SET refunded_minor = refunded_minor + ?, version = version + 1,"
        " status = CASE WHEN refunded_minor + ? >= amount_minor THEN 'refunded' ELSE 'paid' END"
        " WHERE order_id = ?",
        (minor, minor, order.order_id),
    )
    for account, amount in ((f"merchant:{order.tenant}", -minor), (f"customer:{order.order_id}", minor)):
        entry = step.entry(account=account, amount_minor=amount, currency=currency)
        step.execute(
            "INSERT INTO ledger (change_id, spend_id, entry, order_id, account, amount_minor, currency)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (f"{step.spend_id}/{entry}", step.spend_id, entry, order.order_id, account, amount, currency),
        )
    return IssueRefundResponse(
        refund_id=step.spend_id,
        order_id=order.order_id,
        amount=request.amount,
        order_version=order.version + 1,
    )
