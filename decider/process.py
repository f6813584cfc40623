"""One decider process: its parts put together, started in order, drained in reverse.

Guaranteed: it listens at once, and answers UNAVAILABLE (`decider.waiting`) until NATS, a configuration and
everything else that decisions rest on could be had, however long that takes; when NATS goes away later, it
stays, answers UNAVAILABLE again and goes on by itself. On SIGTERM open decisions run to their end within
`drain_ms`, and only then does the journal close. What waiting does not mend (keys, catalogs, tasks,
credentials) is a `StartError` that names every fault.
"""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, Final

from nats.errors import Error as NatsError

from decider.approval.approvals import Approvals
from decider.approval.expiry import ExpiryWatch
from decider.approval.holds import Holds
from decider.budgets.office import open_limits
from decider.catalog.served_watch import watching
from decider.clock import SYSTEM_CLOCK
from decider.credentials import nats_settings, open_reader
from decider.decider import Decider
from decider.decision.envelope import House
from decider.decision.limits import Limits
from decider.decision.outcome import OutcomeReader
from decider.decision.parts import Parts
from decider.decision.reader import ToolReader
from decider.decision.sealer import Sealer
from decider.delegation.delegations import Registry
from decider.egress import packaged
from decider.entrance import Entrance, Services
from decider.health import Health
from decider.house import read_house
from decider.in_force.annals import Annals
from decider.in_force.beacon import BeaconPublisher
from decider.in_force.configuration import Configuration
from decider.in_force.first import connected, first_configuration, patiently
from decider.in_force.floor import Floor, FloorDamaged
from decider.meter import DecisionMeter, HoldWatch, observe
from decider.notices.announcer import Announcer
from decider.notices.webhook import Webhook, read_hooks
from decider.quota import Quota
from decider.reception import Reception
from decider.relations.file import FileRelations
from decider.service import DeciderService, identify_certified, identify_development
from decider.settings import DeciderSettings
from decider.source import SourceError
from decider.task.starts import FirstStarts
from decider.task.task_service import TaskRegistry, TaskService
from decider.task.task_store import TaskStore
from decider.telling import tell, telling
from decider.tokens.issuers import read_issuers
from decider.waiting import WaitingRoom
from licet import metrics, tracing
from licet.clock import elapsed_ms, wall_ms
from licet.identity import decider_id
from licet.journal import Journal, SpoolError
from licet.keyfile import KeyFileError, read_public, read_secret, read_signing_key
from licet.log import log
from licet.port_file import forget_port
from licet.statement import SigningKey
from licet.streams import (
    ConfigStore,
    Connection,
    Publisher,
    StreamsError,
    subject_audit,
    subject_payload,
)
from licet.v1 import approvals_pb2_grpc, decider_pb2_grpc, task_pb2_grpc

logger = logging.getLogger(__name__)

READY_WITHIN_S: Final = 15.0
"""How long `start` waits for the first decision to be possible before it leaves that to time."""

_CANNOT_START: Final = (
    FloorDamaged,
    KeyFileError,
    SourceError,
    StreamsError,
    SpoolError,
    OSError,
    ValueError,
)


CANCEL_AGAIN_S: Final = 0.2

DRAIN_S: Final = 5.0
"""How long the end of a process waits for NATS to take its last events, in seconds."""


class StartError(Exception):
    """The process cannot start; `str()` says what to change, one line for each fault."""


class DeciderProcess:
    """A decider, from its settings to its last event."""

    def __init__(self, settings: DeciderSettings) -> None:
        self._settings = settings
        self._own_id = decider_id(settings.trust_domain, settings.environment)
        self._identify = identify_certified if settings.tls else identify_development
        self._exits = contextlib.AsyncExitStack()
        self._acked = True
        self._nc: Connection | None = None
        self._entrance: Entrance | None = None
        self._opening: asyncio.Task[None] | None = None
        self._configuration: Configuration | None = None
        self.metrics_port = 0

    @property
    def port(self) -> int:
        """Where it listens; 0 before it does."""
        return self._entrance.port if self._entrance is not None else 0

    async def start(self) -> None:
        """Listen, and return once decisions can be made, or after `READY_WITHIN_S` all the same.

        Raises `StartError` for what waiting does not mend, as far as it shows by then; `opened` has the rest.
        """
        try:
            await self._begin()
            if self._opening is not None:
                await asyncio.wait({self._opening}, timeout=READY_WITHIN_S)
                if self._opening.done():
                    self._opening.result()
        except BaseException as error:
            await self.stop()
            if isinstance(error, _CANNOT_START):
                raise StartError(str(error)) from error
            raise

    async def opened(self) -> None:
        """Return once decisions can be made. Raises `StartError`."""
        assert self._opening is not None, "not started"
        try:
            await asyncio.shield(self._opening)
        except _CANNOT_START as error:
            raise StartError(str(error)) from error

    async def _begin(self) -> None:
        """Read what lies on this machine, and listen."""
        settings = self._settings
        forget_port(settings.port_file)  # or a probe would call us ready
        self._root, self._floor = read_public(settings.root_key_file), Floor(settings.spool_dir)
        self._quota = Quota(settings.quota_per_second, settings.quota_burst)
        self._exits.push_async_callback(self._disconnect)
        self._journal = await self._open_journal()
        self._exits.push_async_callback(self._close_journal)
        known = House(settings.trust_domain, settings.environment, {}, {}, {})
        self._waiting = WaitingRoom(
            self._journal, self._quota, known, SYSTEM_CLOCK, identify=self._identify, way=self._way
        )
        self._exits.push_async_callback(tell, self._waiting.flood, last=True)
        self._run(telling(self._waiting.flood))
        self._entrance = Entrance(settings, Health(elapsed_ms), self._waiting)
        await self._entrance.listen()
        self._opening = asyncio.create_task(self._open())

    def _run(self, loop: Coroutine[Any, Any, None]) -> None:
        self._exits.push_async_callback(_ended, asyncio.create_task(loop))

    def _way(self) -> str:
        """Return whom callers can ask: as the rules in force say, or what was in force last."""
        current = self._configuration.current if self._configuration is not None else None
        return current.bundle.escalate_to if current is not None else self._settings.escalate_to

    def _admit(self, peer: str, cost: int = 1) -> bool:
        """Take so much of a caller's quota for what is no decision."""
        return self._quota.take(peer, elapsed_ms(), cost)

    async def _open(self) -> None:
        """Become able to decide, and then serve. Raises what waiting does not mend."""
        settings = self._settings
        name = f"decider-{settings.instance}"
        self._nc = nc = await connected(nats_settings(settings), name, self._wait_for)
        self._publisher = await Publisher.open(nc)
        self._journal.attach(self._publisher)
        store = ConfigStore(self._publisher, settings.environment)
        configuration = Configuration(store, self._root, settings.environment, floor=self._floor)
        self._configuration = configuration
        annals = Annals(self._journal)
        configuration.rejected, configuration.taken = annals.rejected, annals.taken
        keys = await first_configuration(
            configuration, settings.environment, self._wait_for, wall_ms=wall_ms, monotonic_ms=elapsed_ms
        )
        packaged()  # a second of reading, that the first caller would wait for
        house = await self._begun(read_house(settings, keys, now_ms=wall_ms()))
        await self._exits.enter_async_context(watching(house.drift, house.catalogs, self._journal))
        reader = open_reader(settings, self._own_id)
        self._exits.push_async_callback(reader.close)
        holds = Holds(self._publisher, settings.environment)
        traces, counts = self._open_tracing(), self._open_metrics(holds, configuration)
        limits = await self._exits.enter_async_context(self._limits(nc, configuration, house, counts))
        tasks = TaskStore(self._publisher, settings.environment, self._task_key())
        announcer = Announcer(nc, settings.environment, [*map(Webhook, read_hooks(settings.webhooks_file))])
        parts = self._parts(
            nc, configuration, house, reader, holds, limits=limits, tasks=tasks, announcer=announcer
        )
        decider = Decider(parts)
        beacons = BeaconPublisher(
            nc,
            configuration,
            read_signing_key(settings.keys_dir / "beacon.key"),
            settings.environment,
            wall_ms=wall_ms,
            monotonic_ms=elapsed_ms,
        )
        service = DeciderService(
            decider,
            beacons,
            lambda sha256: configuration.artifact(sha256, now_ms=wall_ms()),
            OutcomeReader(nc, configuration, house),
            identify=self._identify,
            tracing=traces,
            meter=DecisionMeter(counts, house.catalogs),
            way=self._way,
            admit=self._admit,
        )
        approvals = self._approvals(holds, configuration, announcer)
        for flood in (decider.flood, approvals.flood):
            self._exits.push_async_callback(tell, flood, last=True)
            self._run(telling(flood))
        expiry = ExpiryWatch(holds, configuration, self._journal, announcer, wall_ms)
        for loop in (beacons.run(), expiry.run(), announcer.run()):
            self._run(loop)
        self._serve(service, approvals, self._registering(tasks, configuration, house), configuration)

    def _reception(self) -> Reception:
        return Reception(self._identify, self._admit, self._way)

    def _approvals(self, holds: Holds, configuration: Configuration, announcer: Announcer) -> Approvals:
        return Approvals(
            holds,
            configuration,
            self._journal,
            announcer,
            reception=self._reception(),
            wall_ms=wall_ms,
            desks=self._settings.whose_desks(),
            owe=self._quota.owe,
            monotonic_ms=elapsed_ms,
        )

    async def _begun(self, house: House) -> House:
        """Return the house with its tasks as they began at first."""
        settings = self._settings
        if settings.tasks_begin_anew:
            return house
        master = read_secret(settings.master_key_file)
        starts = FirstStarts(self._publisher, settings.environment, master)
        tasks = await patiently(lambda: starts.kept(house.tasks, wall_ms()), self._wait_for)
        return replace(house, tasks=tasks)

    def _registering(self, tasks: TaskStore, configuration: Configuration, house: House) -> TaskService:
        settings = self._settings
        registry = TaskRegistry(
            tasks,
            configuration,
            self._journal,
            registrars=settings.who_registers(),
            trust_domain=settings.trust_domain,
            listed=house.tasks,
            wall_ms=wall_ms,
        )
        return TaskService(registry, reception=self._reception())

    def _task_key(self) -> SigningKey | None:
        path = self._settings.keys_dir / "task.key"
        return read_signing_key(path) if path.exists() else None

    def _limits(
        self, nc: Connection, configuration: Configuration, house: House, counts: metrics.Metrics
    ) -> contextlib.AbstractAsyncContextManager[Limits]:
        return open_limits(
            self._publisher,
            nc,
            configuration,
            environment=self._settings.environment,
            instance=self._settings.instance,
            master=read_secret(self._settings.master_key_file),
            audiences={catalog.tool: audience for audience, catalog in house.catalogs.items()},
            counts=counts,
            wall_ms=wall_ms,
        )

    def _parts(
        self,
        nc: Connection,
        configuration: Configuration,
        house: House,
        reader: ToolReader,
        holds: Holds,
        *,
        limits: Limits,
        tasks: TaskStore,
        announcer: Announcer,
    ) -> Parts:
        settings = self._settings
        return Parts(
            house=house,
            own_id=self._own_id,
            key=read_signing_key(settings.keys_dir / "decider.key"),
            master=read_secret(settings.master_key_file),
            configuration=configuration,
            journal=self._journal,
            reader=reader,
            nc=nc,
            holds=holds,
            quota=self._quota,
            clock=SYSTEM_CLOCK,
            delegations=Registry(nc, settings.environment),
            limits=limits,
            tasks=tasks,
            users=read_issuers(settings.issuers_file, elapsed_ms),
            sealer=Sealer(),
            announcer=announcer,
            relations=FileRelations(settings.relations_file) if settings.relations_file else None,
        )

    def _open_tracing(self) -> tracing.Tracing:
        settings = self._settings
        traces = tracing.configure("licet-decider", settings.otlp_endpoint, settings.instance)
        self._exits.push_async_callback(asyncio.to_thread, traces.shutdown)
        return traces

    def _open_metrics(self, holds: Holds, configuration: Configuration) -> metrics.Metrics:
        settings = self._settings
        counts = metrics.configure(
            "licet-decider", settings.metrics_endpoint, settings.metrics_listen, settings.instance
        )
        self._exits.push_async_callback(asyncio.to_thread, counts.shutdown)
        observe(counts, self._journal, configuration)
        self.metrics_port = counts.port
        self._run(HoldWatch(holds, configuration, counts, wall_ms).run())
        return counts

    async def _open_journal(self) -> Journal:
        settings = self._settings
        return await Journal.open(
            settings.spool_dir,
            source=self._own_id,
            environment=settings.environment,
            subject=subject_audit(settings.environment, "decider", settings.instance),
            checkpoint_key=read_signing_key(settings.keys_dir / "checkpoint-decider.key"),
            payload_subject=subject_payload(settings.environment, "decider", settings.instance),
        )

    def _wait_for(self, why: str) -> None:
        if why != self._waiting.why:
            log(logger, logging.WARNING, "decider.waiting", detail=why[:500])
        self._waiting.why = why

    def _serve(
        self,
        service: DeciderService,
        approvals: Approvals,
        registering: TaskService,
        configuration: Configuration,
    ) -> None:
        """Let the services in for the waiting room, and say so."""
        assert self._entrance is not None, "it listens"
        services = Services()
        to: Any = services  # the generated functions ask for a server
        decider_pb2_grpc.add_DeciderServiceServicer_to_server(service, to)
        approvals_pb2_grpc.add_ApprovalServiceServicer_to_server(approvals, to)
        task_pb2_grpc.add_TaskServiceServicer_to_server(registering, to)
        self._entrance.let_in(services, configuration)
        log(logger, logging.INFO, "decider.listening", port=self.port, metrics_port=self.metrics_port)

    async def stop(self) -> bool:
        """Drain and stop; returns whether every event was acked."""
        if self._opening is not None:
            await _ended(self._opening)
        if self._entrance is not None:
            await self._entrance.close()
        await self._exits.aclose()
        return self._acked

    async def _close_journal(self) -> None:
        drain_s = DRAIN_S if self._nc is not None else 0.0  # nobody to send anything to
        self._acked = await self._journal.close(drain_s)

    async def _disconnect(self) -> None:
        if self._nc is not None:
            with contextlib.suppress(OSError, NatsError):  # a server that is gone cannot be told goodbye
                await self._nc.close()


async def _ended(task: asyncio.Task[None]) -> None:
    """End a task, cancelling until it ends: before Python 3.12 `wait_for` may swallow a cancel."""
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=CANCEL_AGAIN_S)
