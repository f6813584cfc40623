import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from licet.beacon import HeldBeacon, read_beacon
from licet.metadata import PERMIT
from licet.obligation import DOOR_OBLIGATIONS
from licet.permit import DoorState
from licet.refusal import Refusal
from licet.revocation import NONE
from licet.tracing import Tracing
from sidecar.core import Door, Limits, Parts
from sidecar.exchange import Pairs, Refused, Reply
from sidecar.parts import Decider, Fences
from sidecar.quota import Quota
from tests.worlds.fakes import FakeBeacons, FakeClock, FakeJournal, FakeSpend, FakeTool, request
from tests.worlds.mint import AGENT, ENVIRONMENT, REFUND, Mint, now_ms, refund

RECONCILER = "spiffe://licet.local/dev/reconciler"


class World:
    """A door on fakes, with a real catalog, real keys and real permits."""

    def __init__(self, mint: Mint) -> None:
        self.mint = mint
        self.clock = FakeClock(now_ms())
        self.spend = FakeSpend()
        self.tool = FakeTool()
        self.journal = FakeJournal()
        self.beacons = FakeBeacons(self.state())
        self.quota = Quota(per_second=10_000, burst=10_000)
        self.fences: Any = None
        self.decider: Decider | None = None
        self.door = self.make_door()

    def state(self, **beacon: Any) -> DoorState:
        signed = self.mint.beacon(issued_at_ms=self.clock.now, **beacon)
        read = read_beacon(signed, self.mint.keyset, environment=ENVIRONMENT, now_ms=self.clock.now)
        assert not isinstance(read, Refusal)
        return DoorState(
            environment=ENVIRONMENT,
            audience=self.mint.audience,
            catalog=self.mint.catalog,
            keys=self.mint.keyset,
            revocations=NONE,
            beacon=HeldBeacon.received(read, now_ms=self.clock.now, monotonic_ms=self.clock.monotonic),
            k_tool=self.mint.k_tool,
            obligations=DOOR_OBLIGATIONS,
        )

    def make_door(self, **limits: int) -> Door:
        fences: Fences = self.fences
        return Door(
            Parts(
                clock=self.clock,
                quota=self.quota,
                beacons=self.beacons,
                spend=self.spend,
                tool=self.tool,
                journal=self.journal,
                fences=fences,
                tracing=Tracing("test"),
                nonce=os.urandom,
                reconciler=RECONCILER,
                decider=self.decider,
            ),
            Limits(**limits),
        )

    def change_catalog(self, **methods: dict[str, Any]) -> None:
        """Replace the catalog for this world alone."""
        from licet.catalog import read_catalog
        from tests.worlds.mint import build_signed_catalog

        signed = build_signed_catalog(self.mint.key("catalog"), **methods)
        catalog = read_catalog(signed, self.mint.keyset, environment=ENVIRONMENT, now_ms=now_ms())
        assert not isinstance(catalog, Refusal), catalog
        state = self.beacons.state()
        assert state is not None
        self.beacons.set(replace(state, catalog=catalog))

    async def call(
        self,
        *permits: bytes,
        path: str = REFUND,
        body: bytes | None = None,
        metadata: Pairs = (),
        **rest: Any,
    ) -> Reply:
        body = refund().SerializeToString() if body is None else body
        pairs = (*((PERMIT, permit) for permit in permits), *metadata)
        rest.setdefault("peer", AGENT)
        return await self.door.handle(request(path, body, pairs, **rest))

    @property
    def event(self) -> tuple[str, dict[str, Any]]:
        """The one event there is; more or none is a failure of the test."""
        assert len(self.journal.events) == 1, self.journal.events
        return self.journal.events[0]


def reason(reply: Reply) -> str:
    return reply.refusal.reason.value if isinstance(reply, Refused) else "passed"


@pytest.fixture(scope="session")
def mint(tmp_path_factory: pytest.TempPathFactory) -> Mint:
    return Mint(Path(tmp_path_factory.mktemp("mint")))


@pytest.fixture
def world(mint: Mint) -> World:
    return World(mint)
