"""Names on the wire: subjects and streams, each made in one place and from checked tokens only.

A subject is a path of tokens. A token that came from outside and held `.`, `*` or `>` would name somebody
else's subject, so every part passes `subject_token` ([a-z0-9_-], 1 to 64 characters) or is a number or a
lower-hex id. Raises ValueError for anything else.
"""

import re
from typing import Final

from licet.identity import subject_token

RESERVE: Final = "reserve"
OUTCOME: Final = "outcome"
RECORDS: Final = frozenset({RESERVE, OUTCOME})
"""The two records of a spend."""

PROCESSES: Final = frozenset({"decider", "sidecar", "audit", "tool", "operator"})
"""Which kinds of process keep a journal."""

_HEX_32: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
_HEX_64: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


def _hex(pattern: re.Pattern[str], text: str, noun: str) -> str:
    if pattern.fullmatch(text) is None:
        raise ValueError(f"{noun} `{text[:80]}` is not lower hex of its length")
    return text


def _number(value: int, noun: str) -> str:
    if value < 0:
        raise ValueError(f"{noun} `{value}` is negative")
    return str(value)


def subject_spend(env: str, tool: str, spend_id: str, round: int, record: str) -> str:
    """Return the write-once subject of one record (`reserve` or `outcome`) of one round of one step."""
    if record not in RECORDS:
        raise ValueError(f"`{record}` is no record of a spend")
    step = f"{_hex(_HEX_32, spend_id, 'spend id')}.{_number(round, 'round')}"
    return f"licet.spend.{subject_token(env)}.{subject_token(tool)}.{step}.{record}"


def subject_audit(env: str, process: str, name: str) -> str:
    """Return the subject of one process's events; `name` is the tool of a sidecar, else the instance."""
    if process not in PROCESSES:
        raise ValueError(f"`{process}` is no kind of process that keeps a journal")
    return f"licet.audit.{subject_token(env)}.{process}.{subject_token(name)}"


def subject_payload(env: str, process: str, name: str) -> str:
    """Return the subject of one process's sealed payloads, beside its events."""
    return f"licet.payload.{subject_audit(env, process, name).removeprefix('licet.audit.')}"


def subject_ledger(env: str, tool: str, outbox_seq: int) -> str:
    """Return the write-once subject of one row of a tool's outbox."""
    return f"licet.ledger.{subject_token(env)}.{subject_token(tool)}.{_number(outbox_seq, 'outbox sequence')}"


def subject_beacon(env: str) -> str:
    """Return the core NATS subject of the beacon; no stream keeps it."""
    return f"licet.beacon.{subject_token(env)}"


def subject_notice(env: str) -> str:
    """Return the core NATS subject on which approvers' tools hear of holds; no stream keeps it."""
    return f"licet.notice.{subject_token(env)}.hold"


def subject_config_active(env: str) -> str:
    """Return the subject of the active configuration."""
    return f"licet.config.{subject_token(env)}.active"


def subject_artifact(env: str, sha256_hex: str) -> str:
    """Return the subject of one artifact, named by the SHA-256 of its serialised Signed."""
    return f"licet.config.{subject_token(env)}.artifact.{_hex(_HEX_64, sha256_hex, 'artifact digest')}"


def subject_delegation(env: str, delegation_id: str) -> str:
    """Return the subject of one signed link of authority handed down."""
    return (
        f"licet.config.{subject_token(env)}.delegation.{_hex(_HEX_32, delegation_id, 'delegation id')}.link"
    )


def subject_delegation_revoked(env: str, delegation_id: str) -> str:
    """Return the subject on which anything at all says that this link is revoked."""
    return f"{subject_delegation(env, delegation_id).removesuffix('.link')}.revoked"


def subject_balance(env: str, account_id: str) -> str:
    """Return the subject of what is used of one budget by those who share it, in one period."""
    return f"licet.budget.{subject_token(env)}.balance.{_hex(_HEX_32, account_id, 'account id')}"


def subject_booking(env: str, spend_id: str) -> str:
    """Return the subject of what one step has booked."""
    return f"licet.budget.{subject_token(env)}.booking.{_hex(_HEX_32, spend_id, 'spend id')}"


def stream_spend(env: str) -> str:
    """Return the name of the spend stream."""
    return f"LICET_SPEND_{subject_token(env)}"


def stream_spend_log(env: str) -> str:
    """Return the name of the spend log, the server's own copy of the spend stream."""
    return f"LICET_SPEND_LOG_{subject_token(env)}"


def stream_audit(env: str) -> str:
    """Return the name of the stream of journal events."""
    return f"LICET_AUDIT_{subject_token(env)}"


def stream_ledger(env: str) -> str:
    """Return the name of the stream of ledger changes."""
    return f"LICET_LEDGER_{subject_token(env)}"


def stream_payload(env: str) -> str:
    """Return the name of the stream of sealed payloads."""
    return f"LICET_PAYLOAD_{subject_token(env)}"


def stream_config(env: str) -> str:
    """Return the name of the configuration stream."""
    return f"LICET_CONFIG_{subject_token(env)}"


def stream_budget(env: str) -> str:
    """Return the name of the stream of balances and bookings."""
    return f"LICET_BUDGET_{subject_token(env)}"
