"""The store as it comes and goes: NATS may be away when the door opens, and reads need not wait for it.

Guaranteed: until the store answers, every reserve is refused as STORE_UNAVAILABLE, events gather in the
journal's spool, and beacons are asked for over gRPC; from its first answer on, everything goes its way
without a restart. Not guaranteed: that wrong credentials mend themselves; they stand in readiness and in
the log until somebody does.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from licet.beacon import HeldBeacon
from licet.journal import Journal
from licet.log import log
from licet.permit import Permit
from licet.refusal import Reason, Refusal
from licet.statement import SigningKey
from licet.streams import (
    Connection,
    CredentialsRefused,
    NatsSettings,
    Publisher,
    StoreUnavailable,
    connect,
    subject_beacon,
)
from licet.v1 import spend_pb2
from licet.v1.decision_pb2 import Decision
from sidecar.outcome import Outcome
from sidecar.parts import Reserved
from sidecar.store.outbox import OutboxRelay, Rows
from sidecar.store.spend import SpendClient

LOG: Final = logging.getLogger(__name__)

FIRST_ANSWER_S: Final = 2.0
"""How long one attempt waits for an answer."""

RETRY_S: Final = 1.0
"""Between two attempts to come in for the first time."""


class Store:
    """Spends, beacons over the subject, and the outbox relay, once NATS has answered.

    Args:
        nats: Where and who.
        name: What the server lists the connection as.
        environment: Environment.
        tool: Tool name.
        sidecar: Own SPIFFE id.
        spend_key: Signs spend records.
        directory: Spool of outcomes.
        journal: Gets its publisher from here.
        rows: The guard, for the outbox.
        beacon: The newest beacon.
        on_beacon: Takes what came over the beacon subject.
    """

    def __init__(
        self,
        nats: NatsSettings,
        name: str,
        *,
        environment: str,
        tool: str,
        sidecar: str,
        spend_key: SigningKey,
        directory: Path,
        journal: Journal,
        rows: Rows,
        beacon: Callable[[], HeldBeacon | None],
        on_beacon: Callable[[bytes], None],
    ) -> None:
        self._nats = nats
        self._name = name
        self._environment = environment
        self._tool = tool
        self._sidecar = sidecar
        self._key = spend_key
        self._directory = directory
        self._journal = journal
        self._rows = rows
        self._beacon = beacon
        self._on_beacon = on_beacon
        self._connection: Connection | None = None
        self._publisher: Publisher | None = None
        self._spend: SpendClient | None = None
        self._relay: OutboxRelay | None = None
        self._trouble = "no connection to NATS yet"

    @property
    def trouble(self) -> str:
        """Why the store cannot be used; empty when it can."""
        if self._publisher is None:
            return self._trouble
        if not self._publisher.connected:
            return "no connection to NATS"
        held = self._beacon()
        if held is not None and held.beacon.issued_at_ms < self._publisher.reconnected_at_ms:
            return "no beacon yet that looked at the store since it came back"
        return ""

    @property
    def waiting_outcomes(self) -> int:
        """How many outcome records have no ack yet."""
        return self._spend.waiting_outcomes if self._spend is not None else 0

    async def run(self) -> None:
        """Come in, then relay the outbox until cancelled."""
        relay = await self._come_in()
        await relay.run()

    async def close(self) -> None:
        """Give outcomes a last chance, then leave. The journal must be closed before."""
        if self._spend is not None:
            await self._spend.close()
        await self._journal.close()
        if self._publisher is not None:
            await self._publisher.close()
        if self._connection is not None:
            await self._connection.close()

    async def reserve(self, permit: Permit, *, attempt: str) -> Reserved | Refusal:
        """Check 12; STORE_UNAVAILABLE until NATS has answered."""
        if self._spend is None:
            return Refusal(Reason.STORE_UNAVAILABLE, detail=self._trouble)
        return await self._spend.reserve(permit, attempt=attempt)

    def outcome(self, permit: Permit, *, attempt: str, outcome: Outcome, status_code: int) -> None:
        """Spool an outcome, and look into the outbox: where there was an effect, there is a row."""
        assert self._spend is not None, "nothing is reserved before NATS has answered"
        self._spend.outcome(permit, attempt=attempt, outcome=outcome, status_code=status_code)
        if self._relay is not None:
            self._relay.poke()

    def fenced(
        self, decision: Decision, *, attempt: str, outcome: spend_pb2.Outcome.ValueType, answer: bytes
    ) -> None:
        """Spool the outcome that a fence found. Raises StoreUnavailable before NATS has answered."""
        if self._spend is None:
            raise StoreUnavailable(self._trouble)
        self._spend.fenced(decision, attempt=attempt, outcome=outcome, answer=answer)

    async def _come_in(self) -> OutboxRelay:
        connection = await self._connected()
        publisher = await Publisher.open(connection)
        self._spend = await SpendClient.open(
            self._directory,
            environment=self._environment,
            tool=self._tool,
            sidecar=self._sidecar,
            publisher=publisher,
            spend_key=self._key,
            beacon=self._beacon,
        )
        self._journal.attach(publisher)
        await connection.subscribe(subject_beacon(self._environment), cb=self._take_beacon)
        self._connection, self._publisher = connection, publisher
        self._relay = OutboxRelay(self._rows, publisher, environment=self._environment, tool=self._tool)
        log(LOG, logging.INFO, "store.reached")
        return self._relay

    async def _connected(self) -> Connection:
        while True:
            try:
                return await connect(self._nats, self._name, within_s=FIRST_ANSWER_S)
            except (StoreUnavailable, CredentialsRefused) as error:
                self._note(str(error))
                await asyncio.sleep(RETRY_S)

    async def _take_beacon(self, message: Any) -> None:
        self._on_beacon(message.data)

    def _note(self, trouble: str) -> None:
        if trouble != self._trouble:
            log(LOG, logging.WARNING, "store.away", trouble=trouble)
        self._trouble = trouble
