"""How the rounds of a step ended, read from the spend stream's leader.

Guarantees: an outcome counts only when a sidecar of that audience signed it for this very step and round. A
record that cannot be verified proves nothing: the step stays where it is, and the door refuses it as spent.
"""

from dataclasses import dataclass
from typing import Final

from nats.aio.client import Client

from licet.keys import KeySet
from licet.refusal import Refusal
from licet.spend import SpendRecord, read_spend_record
from licet.statement import parse_signed
from licet.streams import read_last, stream_spend, subject_spend
from licet.v1.spend_pb2 import Outcome

MAX_ROUNDS: Final = 16
"""How often one step may be tried again; beyond it the last round stays, and the door says SPENT."""

NO_EFFECT: Final = frozenset({Outcome.OUTCOME_FAILED_NO_EFFECT, Outcome.OUTCOME_VOIDED})
"""The outcomes after which another round may begin."""


async def read_record(
    nc: Client,
    keys: KeySet,
    *,
    environment: str,
    tool: str,
    audience: str,
    spend_id: str,
    round: int,
    record: str,
    now_ms: int,
) -> SpendRecord | None:
    """Return a verified reserve or outcome of a round; None where there is none that can be believed.

    Raises `StreamsError` where the leader gave no answer.
    """
    subject = subject_spend(environment, tool, spend_id, round, record)
    stored = await read_last(nc, stream_spend(environment), subject)
    if stored is None:
        return None
    signed = parse_signed(stored.data)
    if isinstance(signed, Refusal):
        return None
    read = read_spend_record(signed, keys, environment=environment, now_ms=now_ms)
    if isinstance(read, Refusal) or read.audience != audience:
        return None
    if read.outcome is not None and (read.outcome.spend_id, read.outcome.round) != (spend_id, round):
        return None
    return read


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a step stands: the round a new permit is for, and whether an earlier one was executed."""

    round: int = 0
    executed: bool = False


async def standing_of(
    nc: Client, keys: KeySet, *, environment: str, tool: str, audience: str, spend_id: str, now_ms: int
) -> Standing:
    """Return where a step stands: its round is one after the last that provably had no effect.

    Raises `StreamsError` where the leader gave no answer.
    """
    for round_ in range(MAX_ROUNDS):
        read = await read_record(
            nc,
            keys,
            environment=environment,
            tool=tool,
            audience=audience,
            spend_id=spend_id,
            round=round_,
            record="outcome",
            now_ms=now_ms,
        )
        ended = read.outcome.outcome if read is not None and read.outcome is not None else None
        if ended not in NO_EFFECT:
            return Standing(round_, ended == Outcome.OUTCOME_EXECUTED)
    return Standing(MAX_ROUNDS - 1)
