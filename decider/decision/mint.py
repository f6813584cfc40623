"""Signs decisions. Only ALLOW and MODIFY are ever signed under the payload type of a permit.

So a signed denial cannot be used as a permit, however anybody parses it. Minting is the last step: the
caller has the acknowledgement of the decision's event before it lets the result leave the process.
"""

from typing import Final

from licet.statement import PayloadType, SigningKey, canonical
from licet.v1.decision_pb2 import Decision, DecisionType
from licet.v1.statement_pb2 import Signed

PERMITTING: Final = frozenset({DecisionType.DECISION_TYPE_ALLOW, DecisionType.DECISION_TYPE_MODIFY})
"""The decisions that let one call through."""

MAX_PERMIT_BYTES: Final = 4_096
"""The largest serialised Signed that a door takes."""


def slot_of(decision: Decision) -> PayloadType:
    """Return the payload type a decision is signed under."""
    return PayloadType.PERMIT if decision.decision in PERMITTING else PayloadType.DECISION


def mint(decision: Decision, key: SigningKey) -> Signed:
    """Return the signed decision. Raises ValueError where a permit would be too large for any door."""
    signed = key.sign(slot_of(decision), canonical(decision))
    if decision.decision in PERMITTING and signed.ByteSize() > MAX_PERMIT_BYTES:
        raise ValueError(f"a permit of {signed.ByteSize()} bytes is larger than {MAX_PERMIT_BYTES}")
    return signed
