"""Balances and bookings as JetStream keeps them: authenticated, each naming the record it replaced.

Each is an own record (`decider.own_record`). Guarantees: what `read_…` returns some decider wrote for that
very subject. An older record put back is a true one; whoever has seen a newer one tells by
`previous_seq`.
"""

from typing import Final

from decider.budgets.booking import Balance, Booking, Claim
from decider.budgets.budget import Account
from decider.own_record import unseal
from licet.call import tool_key
from licet.refusal import Refusal
from licet.statement import canonical, strict_parse
from licet.streams import StoredMessage, StoreUnavailable
from licet.v1 import budget_pb2

RECORD_VERSION: Final = 1


class RecordRefused(StoreUnavailable):
    """A record that no decider wrote, or one older than what was there before: nothing can rest on it."""


def budget_key(master: bytes) -> bytes:
    """Return the key of an environment's records; of all generations, since the next one must end them."""
    return tool_key(master, "licet-budgets", 0)


def _opened(key: bytes, stored: StoredMessage, known_seq: int) -> bytes:
    payload = unseal(key, stored.subject, stored.data)
    if payload is None:
        raise RecordRefused(f"`{stored.subject}` holds a record that no decider wrote")
    if stored.seq < known_seq:
        raise RecordRefused(f"`{stored.subject}` went back from {known_seq} to {stored.seq}")
    return payload


def _continues(subject: str, seq: int, previous_seq: int, known_seq: int) -> None:
    if known_seq and seq != known_seq and previous_seq < known_seq:
        raise RecordRefused(f"`{subject}` holds a record older than the one at {known_seq}")


def balance_bytes(balance: Balance) -> bytes:
    """Return the payload of a balance that replaces the one at `balance.seq`."""
    return canonical(
        budget_pb2.BudgetBalance(
            version=RECORD_VERSION,
            account=balance.account.text,
            booked=balance.booked,
            settled=balance.settled,
            ends_ms=balance.account.ends_ms,
            previous_seq=balance.seq,
        )
    )


def read_balance(key: bytes, stored: StoredMessage, *, known_seq: int = 0) -> Balance:
    """Return a stored balance; `known_seq` is of the newest one seen before. Raises `RecordRefused`."""
    message = strict_parse(budget_pb2.BudgetBalance, _opened(key, stored, known_seq))
    if isinstance(message, Refusal) or message.version != RECORD_VERSION:
        raise RecordRefused(f"`{stored.subject}` holds no balance")
    _continues(stored.subject, stored.seq, message.previous_seq, known_seq)
    account = Account(stored.subject.rpartition(".")[2], message.account, message.ends_ms)
    return Balance(account, message.booked, message.settled, stored.seq)


def booking_bytes(booking: Booking, decider: str) -> bytes:
    """Return the payload of a booking that replaces the one at `booking.seq`, written by `decider`."""
    accounts = tuple((booking.accounts or {}).values())
    return canonical(
        budget_pb2.BudgetBooking(
            version=RECORD_VERSION,
            spend_id=booking.spend_id,
            tool=booking.tool,
            round=booking.round,
            end_ms=booking.end_ms,
            claims=[
                budget_pb2.BudgetClaim(
                    decision_id=claim.decision_id,
                    amounts=[claim.amounts.get(one.account_id, 0) for one in accounts],
                )
                for claim in booking.claims
            ],
            decider=decider,
            previous_seq=booking.seq,
            accounts=[
                budget_pb2.BudgetAccount(account_id=one.account_id, text=one.text, ends_ms=one.ends_ms)
                for one in accounts
            ],
        )
    )


def read_booking(key: bytes, stored: StoredMessage) -> Booking:
    """Return a stored booking. Raises `RecordRefused`."""
    message = strict_parse(budget_pb2.BudgetBooking, _opened(key, stored, 0))
    if isinstance(message, Refusal) or message.version != RECORD_VERSION:
        raise RecordRefused(f"`{stored.subject}` holds no booking")
    accounts = [Account(one.account_id, one.text, one.ends_ms) for one in message.accounts]
    claims = [
        Claim(
            claim.decision_id,
            {one.account_id: amount for one, amount in zip(accounts, claim.amounts, strict=True)},
        )
        for claim in message.claims
    ]
    return Booking(
        spend_id=message.spend_id,
        tool=message.tool,
        round=message.round,
        end_ms=message.end_ms,
        claims=tuple(claims),
        accounts={one.account_id: one for one in accounts},
        seq=stored.seq,
    )
