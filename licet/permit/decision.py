"""Reading a permit alone: checks 4 and 5, without a door. What the guard and the reconciler need too.

Guarantees of a Decision that `verify_permit` returned: a decider's key signed these bytes as a permit; they
are in their one encoding, hold no unknown field, say ALLOW or MODIFY, and keep the rules below. Says
nothing about time, place, caller or arguments.
"""

import re

from licet.dsse import PayloadType
from licet.keys import KeySet
from licet.refusal import Reason, Refusal
from licet.spend import is_hex32, spend_id
from licet.statement import parse_signed, verify
from licet.strict import strict_parse
from licet.tier import CallClass
from licet.v1.decision_pb2 import ConstraintOp, Decision, DecisionType
from licet.v1.statement_pb2 import Signed

DECISION_VERSION = 1
"""Version of the message Decision that is read."""

MAX_PERMIT_BYTES = 4_096
"""Size of a serialised permit; metadata of more than 8 KiB would be refused by chance."""

DIGEST_BYTES = 32

_IDENTIFIER = re.compile(r"[\x20-\x7e]{1,128}", re.ASCII)
_LETS_THROUGH = frozenset({DecisionType.DECISION_TYPE_ALLOW, DecisionType.DECISION_TYPE_MODIFY})
_CLASSES = frozenset(CallClass)
_OPERATORS = frozenset(ConstraintOp.values()) - {ConstraintOp.CONSTRAINT_OP_UNSPECIFIED}


def is_identifier(text: str) -> bool:
    """Say whether `text` is well formed as a call id or task id: 1 to 128 printable ASCII characters."""
    return _IDENTIFIER.fullmatch(text) is not None


def verify_permit(permit: Signed | bytes, keys: KeySet, *, now_ms: int) -> Decision | Refusal:
    """Return the decision in a permit (checks 4 and 5), or why it is none. Revocation is not looked at."""
    if isinstance(permit, bytes):
        if len(permit) > MAX_PERMIT_BYTES:
            return Refusal(Reason.TOO_LARGE, f"a permit of {len(permit)} bytes")
        signed = parse_signed(permit)
        if isinstance(signed, Refusal):
            return signed
    else:
        signed = permit
    payload = verify(PayloadType.PERMIT, signed, keys, now_ms=now_ms)
    return payload if isinstance(payload, Refusal) else read_decision(payload)


def read_decision(payload: bytes) -> Decision | Refusal:
    """Return the decision that a verified permit payload spells, or why it lets nothing through (check 5)."""
    decision = strict_parse(Decision, payload)
    if isinstance(decision, Refusal):
        return decision
    if decision.version != DECISION_VERSION:
        return _malformed(f"version {decision.version}")
    if decision.decision not in _LETS_THROUGH:
        return Refusal(Reason.DECISION_INVALID, f"the decision {decision.decision} lets no call through")
    for check in (_check_form, _check_ids):
        refusal = check(decision)
        if refusal is not None:
            return refusal
    return decision


def _check_form(decision: Decision) -> Refusal | None:
    if bool(decision.call_digest) is bool(decision.ceilings):
        return _malformed("not exactly one of call_digest and ceilings")
    if len(decision.call_digest) not in {0, DIGEST_BYTES} or len(decision.method_digest) != DIGEST_BYTES:
        return _malformed("a digest that is not 32 bytes")
    narrowed = decision.decision == DecisionType.DECISION_TYPE_MODIFY
    if len(decision.original_call_digest) != (DIGEST_BYTES if narrowed else 0):
        return _malformed("MODIFY names the original digest, ALLOW does not")
    if getattr(decision, "class") not in _CLASSES:
        return _malformed("a class that is none")
    if any(constraint.op not in _OPERATORS for constraint in decision.ceilings):
        return _malformed("a ceiling with an operator that is none")
    if any(not obligation.id for obligation in decision.obligations):
        return _malformed("an obligation without id")
    if any(not (check.check and check.expect.WhichOneof("value")) for check in decision.preconditions):
        return _malformed("a precondition without name or value")
    return None


def _check_ids(decision: Decision) -> Refusal | None:
    if not is_hex32(decision.decision_id):
        return _malformed("the decision id is not 32 lower hex digits")
    if not (is_identifier(decision.call_id) and is_identifier(decision.task_id)):
        return _malformed("call id or task id is not 1 to 128 printable ASCII characters")
    if decision.hold_id and not is_hex32(decision.hold_id):
        return _malformed("the hold id is not 32 lower hex digits")
    step = spend_id(
        decision.environment,
        decision.tenant,
        decision.audience,
        decision.agent,
        decision.task_id,
        decision.call_id,
    )
    if decision.spend_id != step:
        return _malformed("the spend id is not that of the step")
    return None


def _malformed(detail: str) -> Refusal:
    return Refusal(Reason.PERMIT_MALFORMED, f"permit: {detail}")
