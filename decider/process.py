"""One decider process: its parts put together, started in order, drained in reverse.

Guaranteed: it listens only after it has read a configuration, or says that there is none; on SIGTERM open
decisions run to their end within `drain_ms`, and only then does the journal close. What cannot be used at
start (keys, catalogs, tasks) is a `StartError` that names every fault.
"""

import asyncio
import contextlib
import logging
import time
from typing import Any, Final

import grpc
import grpc.aio
from nats.errors import Error as NatsError

from decider.approval.approvals import Approvals
from decider.approval.expiry import ExpiryWatch
from decider.approval.holds import Holds
from decider.budgets.office import open_limits
from decider.catalog.served_watch import watching
from decider.clock import SYSTEM_CLOCK, monotonic_ms, wall_ms
from decider.credentials import channel_credentials, nats_settings, server_credentials
from decider.decider import Decider
from decider.decision.envelope import House
from decider.decision.limits import Limits
from decider.decision.outcome import OutcomeReader
from decider.decision.parts import Parts
from decider.decision.reader import ToolReader
from decider.decision.sealer import Sealer
from decider.delegation.delegations import Registry
from decider.egress import packaged
from decider.health import Health
from decider.house import read_delegations, read_house
from decider.in_force.beacon import BeaconPublisher
from decider.in_force.configuration import Configuration
from decider.in_force.floor import Floor, FloorDamaged
from decider.in_force.in_force import InForce
from decider.meter import DecisionMeter, HoldWatch, observe
from decider.notices.announcer import Announcer
from decider.notices.webhook import Webhook, read_hooks
from decider.quota import Quota
from decider.relations.file import FileRelations
from decider.service import SERVER_OPTIONS, DeciderService, identify_certified, identify_development
from decider.settings import DeciderSettings
from decider.source import SourceError
from decider.task.task_service import TaskRegistry, TaskService
from decider.task.task_store import TaskStore
from decider.telling import tell, telling
from decider.tokens.issuers import read_issuers
from licet import metrics, tracing
from licet.event import EventKind
from licet.identity import audience_of, decider_id
from licet.journal import Journal, SpoolError
from licet.keyfile import KeyFileError, read_public, read_secret, read_signing_key
from licet.keys import KeySet
from licet.log import log
from licet.odd_path import keep_serving
from licet.statement import SigningKey
from licet.streams import (
    ConfigStore,
    Publisher,
    StreamsError,
    connect,
    subject_audit,
    subject_payload,
)
from licet.v1 import approvals_pb2_grpc, decider_pb2_grpc, task_pb2_grpc

logger = logging.getLogger(__name__)

CONFIGURATION_WITHIN_S: Final = 15.0
"""How long a start waits for a configuration to be activated."""


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


class StartError(Exception):
    """The process cannot start; `str()` says what to change, one line for each fault."""


class DeciderProcess:
    """A decider, from its settings to its last event."""

    def __init__(self, settings: DeciderSettings) -> None:
        self._settings = settings
        self._own_id = decider_id(settings.trust_domain, settings.environment)
        self._exits = contextlib.AsyncExitStack()
        self._acked = True
        self._known: InForce | None = None
        self.port = 0
        self.metrics_port = 0

    async def start(self) -> None:
        """Start everything. Raises `StartError`."""
        try:
            await self._start()
        except BaseException as error:
            await self._exits.aclose()
            if isinstance(error, _CANNOT_START):
                raise StartError(str(error)) from error
            raise

    async def _start(self) -> None:
        settings = self._settings
        self._nc = await connect(nats_settings(settings), f"decider-{settings.instance}")
        self._exits.push_async_callback(self._disconnect)
        self._publisher = await Publisher.open(self._nc)
        store = ConfigStore(self._publisher, settings.environment)
        root, floor = read_public(settings.root_key_file), Floor(settings.spool_dir)
        configuration = Configuration(store, root, settings.environment, floor=floor)
        self._journal = await self._open_journal()
        self._exits.push_async_callback(self._close_journal)
        configuration.rejected, configuration.taken = self._bundle_rejected, self._bundle_activated
        keys = await self._first_configuration(configuration)
        packaged()  # a second of reading, that the first caller would wait for
        house = read_house(settings, keys, now_ms=wall_ms())
        await self._exits.enter_async_context(watching(house.drift, house.catalogs, self._journal))
        reader = self._open_reader()
        self._exits.push_async_callback(reader.close)
        holds = Holds(self._publisher, settings.environment)
        traces, counts = self._open_tracing(), self._open_metrics(holds, configuration)
        limits = await self._exits.enter_async_context(self._limits(configuration, house, counts))
        tasks = TaskStore(self._publisher, settings.environment, self._task_key())
        webhooks = [Webhook(hook) for hook in read_hooks(settings.webhooks_file)]
        announcer = Announcer(self._nc, settings.environment, webhooks)
        parts = self._parts(
            configuration, house, reader, holds, limits=limits, tasks=tasks, announcer=announcer
        )
        decider = Decider(parts)
        beacons = BeaconPublisher(
            self._nc,
            configuration,
            read_signing_key(settings.keys_dir / "beacon.key"),
            settings.environment,
            wall_ms=wall_ms,
            monotonic_ms=monotonic_ms,
        )
        service = DeciderService(
            decider,
            beacons,
            store,
            OutcomeReader(self._nc, configuration, house),
            identify=identify_certified if settings.tls else identify_development,
            tracing=traces,
            meter=DecisionMeter(counts, house.catalogs),
        )
        self._exits.push_async_callback(tell, decider.flood, last=True)
        expiry = ExpiryWatch(holds, configuration, self._journal, announcer, wall_ms)
        for loop in (beacons.run(), telling(decider.flood), expiry.run(), announcer.run()):
            self._exits.push_async_callback(_ended, asyncio.create_task(loop))
        approvals = Approvals(
            holds,
            configuration,
            self._journal,
            announcer,
            identify=identify_certified if settings.tls else identify_development,
            wall_ms=wall_ms,
        )
        registering = self._registering(tasks, configuration, house)
        await self._listen(service, approvals, registering, Health(configuration, monotonic_ms))

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
        return TaskService(registry, identify=identify_certified if settings.tls else identify_development)

    def _task_key(self) -> SigningKey | None:
        path = self._settings.keys_dir / "task.key"
        return read_signing_key(path) if path.exists() else None

    def _limits(
        self, configuration: Configuration, house: House, counts: metrics.Metrics
    ) -> contextlib.AbstractAsyncContextManager[Limits]:
        return open_limits(
            self._publisher,
            self._nc,
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
            nc=self._nc,
            holds=holds,
            quota=Quota(settings.quota_per_second, settings.quota_burst),
            clock=SYSTEM_CLOCK,
            delegations=Registry(read_delegations(settings)),
            limits=limits,
            tasks=tasks,
            users=read_issuers(settings.issuers_file, monotonic_ms),
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
        watching = asyncio.create_task(HoldWatch(holds, configuration, counts, wall_ms).run())
        self._exits.push_async_callback(_ended, watching)
        return counts

    async def _open_journal(self) -> Journal:
        settings = self._settings
        return await Journal.open(
            settings.spool_dir,
            source=self._own_id,
            environment=settings.environment,
            subject=subject_audit(settings.environment, "decider", settings.instance),
            checkpoint_key=read_signing_key(settings.keys_dir / "checkpoint-decider.key"),
            publisher=self._publisher,
            payload_subject=subject_payload(settings.environment, "decider", settings.instance),
        )

    async def _bundle_activated(self, in_force: InForce, detail: str) -> None:
        await self._record(
            EventKind.BUNDLE_ACTIVATED,
            in_force.config_seq,
            detail,
            bundle_version=in_force.bundle.version,
            generation=in_force.generation,
        )
        known, self._known = self._known, in_force
        await self._record_keys(in_force, known)

    async def _record_keys(self, in_force: InForce, before: InForce | None) -> None:
        """Record each key that came or was revoked; at the start every revoked one, for nobody may have."""
        revoked = in_force.revoked_keys - (before.revoked_keys if before else frozenset())
        added = in_force.keys.keys.keys() - before.keys.keys.keys() if before else frozenset()
        for kind, key_ids in ((EventKind.KEY_ADDED, added), (EventKind.KEY_REVOKED, revoked)):
            for key_id in sorted(key_ids):
                await self._record(kind, in_force.config_seq, "", key_id=key_id)

    async def _bundle_rejected(self, seq: int, detail: str) -> None:
        await self._record(EventKind.BUNDLE_REJECTED, max(seq, 0), detail)

    async def _record(self, kind: EventKind, seq: int, detail: str, **fields: Any) -> None:
        try:
            await self._journal.append(kind, detail=detail, config_seq=seq, **fields)
        except SpoolError as error:
            log(logger, logging.ERROR, "event.lost", detail=str(error)[:300])

    async def _first_configuration(self, configuration: Configuration) -> KeySet:
        """Wait for the first configuration: without its key set no catalog can be verified."""
        deadline = time.monotonic() + CONFIGURATION_WITHIN_S
        while True:
            read = await configuration.refresh(now_ms=wall_ms(), monotonic_ms=monotonic_ms())
            if read is not None:
                return read.in_force.keys
            if time.monotonic() > deadline:
                why = f"the record is refused: {configuration.refused}" if configuration.refused else ""
                raise StartError(
                    f"no configuration is in force in environment `{self._settings.environment}`: "
                    f"{why or 'run `licet policy activate`'}"
                )
            await asyncio.sleep(0.2)

    def _open_reader(self) -> ToolReader:
        settings = self._settings
        addresses = {
            audience_of(settings.trust_domain, settings.environment, tool): address
            for tool, address in settings.tools.items()
        }
        credentials = channel_credentials(settings) if settings.tls else None
        return ToolReader(addresses, own_id="" if settings.tls else self._own_id, credentials=credentials)

    async def _listen(
        self, service: DeciderService, approvals: Approvals, registering: TaskService, health: Health
    ) -> None:
        settings = self._settings
        keep_serving()
        self._server = grpc.aio.server(options=SERVER_OPTIONS)
        self._exits.push_async_callback(self._server.stop, settings.drain_ms / 1000)
        decider_pb2_grpc.add_DeciderServiceServicer_to_server(service, self._server)
        approvals_pb2_grpc.add_ApprovalServiceServicer_to_server(approvals, self._server)
        task_pb2_grpc.add_TaskServiceServicer_to_server(registering, self._server)
        health.add_to(self._server)
        if settings.tls:
            self.port = self._server.add_secure_port(settings.listen, server_credentials(settings))
        else:
            log(logger, logging.WARNING, "identity.development", listen=settings.listen)
            self.port = self._server.add_insecure_port(settings.listen)
        await self._server.start()
        if settings.port_file is not None:
            partial = settings.port_file.with_name(f".{settings.port_file.name}")
            partial.write_text(f"{self.port}\n", "ascii")
            partial.replace(settings.port_file)
        log(logger, logging.INFO, "decider.listening", port=self.port, metrics_port=self.metrics_port)

    async def stop(self) -> bool:
        """Drain and stop; returns whether every event was acked."""
        await self._exits.aclose()
        return self._acked

    async def _close_journal(self) -> None:
        self._acked = await self._journal.close()

    async def _disconnect(self) -> None:
        with contextlib.suppress(OSError, NatsError):  # a server that is gone cannot be told goodbye
            await self._nc.close()


async def _ended(task: asyncio.Task[None]) -> None:
    """End a task, cancelling until it ends: before Python 3.12 `wait_for` may swallow a cancel."""
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=CANCEL_AGAIN_S)
