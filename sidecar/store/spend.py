"""Check 12 and 14 on the store: uses a step up, once for all replicas, and records how it ended.

A reserve is one message on a subject that takes one message, ever; whoever is acked first has the step.
Each try carries a `Nats-Msg-Id` of 128 random bits that stands nowhere else: whoever knew it could have the
server ack a record it never stored.

| what comes back | means |
|---|---|
| an ack, its sequence above every one seen before | RESERVED |
| 10077 with the text of a used-up subject | SPENT |
| 10077 with any other text | STORE_FULL |
| an ack marked duplicate, after a try without answer | RESERVED: that try was stored |
| an ack marked duplicate, on the first try | refused: somebody knew the Msg-Id |
| an ack at or below a sequence seen before | STORE_ROLLED_BACK, until the generation grows |
| nothing until the permit's end | STORE_UNAVAILABLE, uncertain: not forwarded, though maybe used up |

Outcomes go to the store at once; what is not acked goes to a spool and from there until acked, also by the
next run. A kill between the call and the ack of its outcome may leave no outcome: that is UNKNOWN, which a
fence settles. Nobody re-drives.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from licet.beacon import Beacon, HeldBeacon
from licet.clock import wall_ms
from licet.journal import DurableQueue, Letter, SpoolError
from licet.log import log
from licet.permit import Permit
from licet.refusal import Reason, Refusal
from licet.spend import FENCED_STATUS_CODE, outcome_payload, reserve_payload
from licet.statement import PayloadType, SigningKey, canonical
from licet.streams import PubAck, Publishing, StoreRefused, StoreUnavailable, stream_spend, subject_spend
from licet.streams.subjects import OUTCOME, RESERVE
from licet.v1 import spend_pb2
from licet.v1.decision_pb2 import Decision
from licet.v1.hold_pb2 import ApprovalProof
from sidecar.outcome import Outcome
from sidecar.parts import Reserved
from sidecar.store.floor import Floor, FloorWatch
from sidecar.store.prompt import PromptQueue

LOG: Final = logging.getLogger(__name__)

LIMIT_REACHED: Final = 10077
"""The server's number for several limits; only its text tells a used-up subject from a full stream."""
USED_UP: Final = "maximum messages per subject exceeded"
"""Pinned by a contract test against the server."""

MAX_LOG_LAG: Final = 10_000
"""How many records the spend log may be behind the newest one known here before writes stop."""
TRY_S: Final = 1.0
"""How long one try waits for its ack."""
PAUSE_S: Final = 0.05
"""Between two tries."""

STEP: Final = 12

_OUTCOMES: Final = {
    Outcome.EXECUTED: spend_pb2.OUTCOME_EXECUTED,
    Outcome.FAILED_NO_EFFECT: spend_pb2.OUTCOME_FAILED_NO_EFFECT,
}


def system_ms() -> int:
    """Return Unix ms by this machine's clock."""
    return wall_ms()


def is_used_up(refused: StoreRefused) -> bool:
    """Say whether the store refused because the subject holds its one message already."""
    return refused.err_code == LIMIT_REACHED and refused.description == USED_UP


class SpendClient:
    """Spends for one tool. `open` makes it; `reserve` and `outcome` are the core's `Spend`."""

    def __init__(
        self,
        queue: PromptQueue,
        publisher: Publishing,
        floor: Floor,
        *,
        environment: str,
        tool: str,
        sidecar: str,
        spend_key: SigningKey,
        beacon: Callable[[], HeldBeacon | None],
        now_ms: Callable[[], int],
        max_log_lag: int,
    ) -> None:
        self._queue = queue
        self._publisher = publisher
        self._environment = environment
        self._tool = tool
        self._sidecar = sidecar
        self._key = spend_key
        self._beacon = beacon
        self._now_ms = now_ms
        self._max_log_lag = max_log_lag
        self._floor = floor
        self.uncertain = 0
        """Reserves so far that ended without an answer: their steps may be used up."""
        self._lost = 0

    @classmethod
    async def open(
        cls,
        directory: Path,
        *,
        environment: str,
        tool: str,
        sidecar: str,
        publisher: Publishing,
        spend_key: SigningKey,
        beacon: Callable[[], HeldBeacon | None],
        now_ms: Callable[[], int] = system_ms,
        max_log_lag: int = MAX_LOG_LAG,
    ) -> Self:
        """Open the outcome spool in `directory`; outcomes that an earlier run left are published first.

        Args:
            directory: of this process alone.
            environment: the one environment.
            tool: the tool's name.
            sidecar: own SPIFFE id; must own `spend_key`.
            publisher: of the tool's own NATS account.
            spend_key: signs the records.
            beacon: the newest beacon; its age is check 9's business.
            now_ms: Unix ms.
            max_log_lag: records the spend log may be behind.

        Raises:
            SpoolBroken: another process has the directory, or the disk refuses.
        """
        floor = Floor()
        watch = FloorWatch(publisher, floor, beacon)
        durable = await DurableQueue.open(directory, publisher=watch, settles=_settles)
        queue = PromptQueue(durable, watch, _settles)
        return cls(
            queue,
            publisher,
            floor,
            environment=environment,
            tool=tool,
            sidecar=sidecar,
            spend_key=spend_key,
            beacon=beacon,
            now_ms=now_ms,
            max_log_lag=max_log_lag,
        )

    @property
    def lost_outcomes(self) -> int:
        """Outcomes so far that neither store nor spool took; their rounds stay UNKNOWN until fenced."""
        return self._lost + self._queue.lost

    @property
    def waiting_outcomes(self) -> int:
        """How many outcome records have no ack yet."""
        return self._queue.depth

    async def reserve(self, permit: Permit, *, attempt: str) -> Reserved | Refusal:
        """Use the step up, or say why not: check 12, the linearisation point of the call.

        Returns Reserved only when this process's own record is the one in the store. Any refusal means that
        nothing may be forwarded; after an uncertain one (its detail says so) the step may be used up all
        the same.
        """
        held = self._beacon()
        if held is None:
            return _refuse(Reason.BEACON_STALE, "no beacon yet")
        hindrance = self._hindrance(held.beacon)
        if hindrance is not None:
            return hindrance
        floor = self._floor.begin(held.beacon)
        if floor is None:
            return _refuse(Reason.STORE_ROLLED_BACK, "an ack came at or below a sequence seen before")
        subject = subject_spend(self._environment, self._tool, permit.spend_id, permit.round, RESERVE)
        answer = await self._publish(subject, self._reserve_record(permit, attempt), permit.not_after_ms)
        if isinstance(answer, Refusal):
            return answer
        if answer.stream != stream_spend(self._environment):
            return _refuse(Reason.STORE_UNSAFE, f"stream `{answer.stream[:80]}` took a spend")
        if not self._floor.rises(answer.seq, floor, held.beacon.generation):
            return _refuse(Reason.STORE_ROLLED_BACK, f"sequence {answer.seq} is not above {floor}")
        return Reserved(answer.seq)

    def outcome(self, permit: Permit, *, attempt: str, outcome: Outcome, status_code: int) -> None:
        """Spool the outcome of a reserve; it is published until acked. Raises ValueError for UNKNOWN."""
        if outcome not in _OUTCOMES:
            raise ValueError("not knowing is the absence of an outcome record")
        self._record_outcome(permit.decision, attempt, _OUTCOMES[outcome], status_code, b"")

    def fenced(
        self, decision: Decision, *, attempt: str, outcome: spend_pb2.Outcome.ValueType, answer: bytes
    ) -> None:
        """Spool the outcome that a fence found, with the guard's answer."""
        self._record_outcome(decision, attempt, outcome, FENCED_STATUS_CODE, answer)

    async def close(self, drain_s: float = 5.0) -> bool:
        """Wait at most `drain_s` seconds for acks of outcomes, then stop; returns whether all came."""
        return await self._queue.close(drain_s)

    def _hindrance(self, beacon: Beacon) -> Refusal | None:
        """What the beacon says against spending now.

        After a lost connection the store may be a restored one. Nobody spends on it before a decider has
        looked: one tool's records would lift the sequence over the floor before another tool's could fall
        below it.
        """
        if not beacon.store_safe:
            return _refuse(Reason.STORE_UNSAFE, "the decider found the stream's settings unsafe")
        if beacon.issued_at_ms < self._publisher.reconnected_at_ms:
            return _refuse(
                Reason.STORE_UNAVAILABLE, "no beacon yet that looked at the store since it came back"
            )
        lag = max(self._floor.seen, beacon.spend_floor) - beacon.spend_log_origin_seq
        if lag > self._max_log_lag:
            return _refuse(Reason.LOG_BEHIND, f"the spend log is {lag} records behind")
        return None

    def _reserve_record(self, permit: Permit, attempt: str) -> bytes:
        payload = reserve_payload(
            environment=self._environment,
            permit=permit.signed,
            attempt=attempt,
            sidecar=self._sidecar,
            reserved_at_ms=self._now_ms(),
            call_digest=permit.call_digest,
            approvals=[ApprovalProof.FromString(raw) for raw in permit.approvals],  # check 11 parsed them
        )
        return canonical(self._key.sign(PayloadType.SPEND, payload))

    async def _publish(self, subject: str, body: bytes, ends_ms: int) -> PubAck | Refusal:
        """Publish one reserve, again and again under one Msg-Id while nobody knows whether it is stored."""
        msg_id = secrets.token_hex(16)
        open_tries, last = 0, ""
        while (left_s := (ends_ms - self._now_ms()) / 1_000) > 0:
            held = self._beacon() if open_tries else None
            hindrance = self._hindrance(held.beacon) if held is not None else None
            if hindrance is not None:  # the connection was lost meanwhile: the store may be a restored one
                last = hindrance.detail
                await asyncio.sleep(min(PAUSE_S, left_s))
                continue
            try:
                ack = await self._publisher.publish(subject, body, msg_id=msg_id, timeout=min(TRY_S, left_s))
            except StoreRefused as refused:
                return self._refused(refused, open_tries)
            except StoreUnavailable as error:
                if not error.maybe_stored and not open_tries:
                    return _refuse(Reason.STORE_UNAVAILABLE, str(error))
                open_tries += error.maybe_stored
                last = str(error)
                await asyncio.sleep(min(PAUSE_S, left_s))
                continue
            if ack.duplicate and not open_tries:
                return _refuse(Reason.STORE_UNAVAILABLE, "the store knew the Msg-Id of a first try")
            return ack
        if not open_tries:
            return _refuse(Reason.EXPIRED, "the permit ended before its reserve was sent")
        return self._uncertain(last)

    def _refused(self, refused: StoreRefused, open_tries: int) -> Refusal:
        if is_used_up(refused):
            return _refuse(Reason.SPENT, "the step is used up")
        if open_tries:
            return self._uncertain(str(refused))
        if refused.err_code == LIMIT_REACHED:
            return _refuse(Reason.STORE_FULL, str(refused))
        return _refuse(Reason.STORE_UNAVAILABLE, str(refused))

    def _uncertain(self, cause: str) -> Refusal:
        self.uncertain += 1
        log(LOG, logging.WARNING, "spend.uncertain", detail=cause[:200])
        return _refuse(Reason.STORE_UNAVAILABLE, f"uncertain, the step may be used up: {cause}")

    def _record_outcome(
        self,
        decision: Decision,
        attempt: str,
        outcome: spend_pb2.Outcome.ValueType,
        status_code: int,
        answer: bytes,
    ) -> None:
        payload = outcome_payload(
            environment=self._environment,
            spend_id=decision.spend_id,
            round=decision.round,
            attempt=attempt,
            outcome=outcome,
            sidecar=self._sidecar,
            recorded_at_ms=self._now_ms(),
            status_code=status_code,
            decision_id=decision.decision_id,
            fence_answer=answer,
        )
        subject = subject_spend(self._environment, self._tool, decision.spend_id, decision.round, OUTCOME)
        body = canonical(self._key.sign(PayloadType.SPEND, payload))
        try:
            self._queue.put(Letter(subject, secrets.token_hex(16), body))
        except SpoolError as error:
            self._lost += 1
            log(LOG, logging.ERROR, "spend.outcome_lost", detail=str(error)[:200])
            return
        self._queue.sync_soon()


def _settles(letter: Letter, refused: StoreRefused) -> bool:
    """An outcome that is there already was written by a fence, or by an earlier try of ours."""
    settled = is_used_up(refused)
    if settled:
        log(LOG, logging.INFO, "spend.outcome_known", subject=letter.subject)
    return settled


def _refuse(reason: Reason, detail: str) -> Refusal:
    return Refusal(reason, detail, STEP)
