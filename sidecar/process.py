"""One sidecar process: its parts put together, started in order, drained in reverse.

Guaranteed: no traffic before the first beacon; on SIGTERM new calls are refused by the transport, open
calls run to their end within `drain_ms`, and only then do journal and spend client close, so an executed
call has its event. Not guaranteed: the outcome of a call that outlasts the drain; its reserve is fenced
later.
"""

import asyncio
import logging
import os
import secrets
from collections.abc import Coroutine
from typing import Any, Final

from grpc import aio

from licet import metrics, tracing
from licet.catalog import Catalog
from licet.identity import audience_of, decider_id, reconciler_id, sidecar_id
from licet.intake import bucket_of
from licet.journal import Journal, SpoolError
from licet.keyfile import read_public, read_secret, read_signing_key
from licet.log import log
from licet.odd_path import keep_serving
from licet.port_file import forget_port, tell_port
from licet.streams import NatsSettings, subject_audit
from licet.tls_relay import TlsRelay
from sidecar.clock import SystemClock
from sidecar.core import Door, Limits, Parts
from sidecar.decider_link import DeciderLink
from sidecar.entrance.grpc_door import SERVER_OPTIONS, GrpcDoor, identify_certified, identify_development
from sidecar.entrance.health import HealthServer
from sidecar.entrance.probe import Probe
from sidecar.entrance.tls import CertificateFiles, server_credentials
from sidecar.knowledge import Identity, Knowledge
from sidecar.meter import DoorMeter, TimedSpend, observe
from sidecar.quota import Quota
from sidecar.settings import SidecarSettings
from sidecar.store.link import Store
from sidecar.tool.fence import Fence
from sidecar.tool.guard_link import GuardLink
from sidecar.tool.link import SocketTool
from sidecar.watch import Watch

LOG: Final = logging.getLogger(__name__)

CANCEL_AGAIN_S: Final = 0.5
"""After which a task that did not end is cancelled again."""

TELL_S: Final = 1.0
"""Between two looks at refusals that were counted."""

PARENT_S: Final = 1.0
"""Between two looks at whether the parent of workers still runs."""

MAX_READY_AGE_MS: Final = 5_000
"""A door whose beacon is older lets no write through, so it asks for no traffic."""


class Sidecar:
    """A sidecar, from its settings to its last event.

    Args:
        settings: Everything it is told from outside.
    """

    def __init__(self, settings: SidecarSettings) -> None:
        self._settings = settings
        self._clock = SystemClock()
        self._quota = Quota(per_second=settings.quota_per_second, burst=settings.quota_burst)
        self._identify = identify_certified if settings.tls else identify_development
        self._tasks: list[asyncio.Task[None]] = []
        self.port = 0
        self.health_port = 0
        self._draining = False
        self.broken = ""
        """Why the process must end: a part of it ended for good; empty while all is well."""
        self.ending = asyncio.Event()
        """Set when it is time to stop: by whoever started it, or by itself when it is broken."""

    async def start(self) -> None:
        """Connect, open the spool, hear of the first beacon or keep asking, then listen. Raises OSError."""
        settings = self._settings
        for stale in (settings.port_file, settings.health_port_file):
            forget_port(stale)
        env, tool, domain = settings.environment, settings.tool, settings.trust_domain
        self._audience = audience_of(domain, env, tool)
        self._source = sidecar_id(domain, env, tool)
        self._tracing = tracing.configure("licet-sidecar", settings.otlp_endpoint, settings.instance)
        self._metrics = metrics.configure(
            "licet-sidecar", settings.metrics_endpoint, settings.metrics_listen, settings.instance
        )
        self._tool = _tool(settings)
        self._guard = GuardLink(self._tool.channel)
        certificates, decider = _certificates(settings), decider_id(domain, env)
        self._decider = DeciderLink(
            settings.decider,
            self._audience,
            relay=None if certificates is None else TlsRelay(settings.decider, certificates, decider),
            identity=self._source if settings.dev_identity else "",
        )
        self._knowledge = Knowledge(
            Identity(
                environment=env,
                audience=self._audience,
                root_key=read_public(settings.root_key_file),
                tool_key=read_secret(settings.tool_key_file),
                generation=settings.generation,
                catalog_file=settings.catalog,
            ),
            self._decider,
            self._clock,
            self._guard.hand_over,
        )
        await self._open_store()
        self._tool.start()
        self._decider.start()
        self._door = self._make_door()
        door = self._door
        observe(self._metrics, self._knowledge, self._journal, self._store, lambda: door.open)
        self._run(self._knowledge.run(), self._store.run(), Watch(self._knowledge, self._journal).run())
        self._run(self._tell())
        if settings.shared_port:
            self._run(self._watch_parent(os.getppid()))
        await self._listen()

    async def stop(self) -> int:
        """Drain and close; return how many calls had not ended in time."""
        self._draining = True
        self._probe.close()
        log(LOG, logging.INFO, "sidecar.draining", open=self._door.open)
        grace_ms = self._settings.drain_ms
        await asyncio.gather(self._server.stop(grace_ms / 1000), self._door.drain(grace_ms))
        left = self._door.open
        await _end(self._tasks)
        await self._tell_counted(last=True)
        await self._store.close()
        await self._health.stop()
        await self._tool.close()
        await self._decider.close()
        await asyncio.gather(
            asyncio.to_thread(self._tracing.shutdown), asyncio.to_thread(self._metrics.shutdown)
        )
        log(LOG, logging.INFO, "sidecar.stopped", left_open=left)
        return left

    @property
    def metrics_port(self) -> int:
        """Where Prometheus scrapes; 0 where it does not."""
        return self._metrics.port

    def reasons(self) -> dict[str, str]:
        """Return why each subsystem is not ready; empty texts for those that are."""
        known = self._knowledge.known
        age_ms = self._knowledge.age_ms()
        return {
            "keys": "" if known is not None else self._trouble(),
            "beacon": _beacon_reason(age_ms, self._trouble()),
            "store": self._store_reason(),
            "tool": "" if self._tool.reachable else "no connection to the tool's socket",
            "guard": self._guard.reason(known.catalog if known is not None else None),
            "spool": "the event spool is full" if self._journal.full else "",
            "door": "draining" if self._draining else self.broken,
        }

    def _trouble(self) -> str:
        """Why nothing newer is known; whom we cannot reach comes before what nobody said."""
        return self._decider.trouble or self._knowledge.trouble

    def _store_reason(self) -> str:
        known = self._knowledge.known
        if self._store.trouble:
            return self._store.trouble
        if known is not None and not known.held.beacon.store_safe:
            return "the spend stream's settings are not safe"
        return ""

    async def _open_store(self) -> None:
        settings = self._settings
        spool = settings.spool_dir
        self._journal = await Journal.open(
            spool / "journal",
            source=self._source,
            subject=subject_audit(settings.environment, "sidecar", settings.tool),
            environment=settings.environment,
            checkpoint_key=read_signing_key(settings.checkpoint_key_file),
        )
        nats = NatsSettings(
            url=settings.nats_url,
            user=settings.nats_user,
            password_file=settings.nats_password_file,
            ca_file=settings.nats_ca_file,
        )
        self._store = Store(
            nats,
            f"sidecar-{settings.tool}-{settings.instance}",
            environment=settings.environment,
            tool=settings.tool,
            sidecar=self._source,
            spend_key=read_signing_key(settings.spend_key_file),
            directory=spool / "outcome",
            journal=self._journal,
            rows=self._guard,
            beacon=self._knowledge.held,
            on_beacon=self._knowledge.offer,
        )

    def _make_door(self) -> Door:
        settings = self._settings
        parts = Parts(
            clock=self._clock,
            quota=self._quota,
            beacons=self._knowledge,
            spend=TimedSpend(self._store, self._metrics),
            tool=self._tool,
            journal=self._journal,
            fences=Fence(self._guard, self._store, self._knowledge.state, self._clock),
            tracing=self._tracing,
            nonce=secrets.token_bytes,
            reconciler=reconciler_id(settings.trust_domain, settings.environment),
            decider=self._decider,
            meter=DoorMeter(self._metrics),
        )
        return Door(parts, Limits(tool_timeout_ms=settings.tool_timeout_ms))

    def _admit(self, context: Any) -> str:
        """Take a token of a caller's quota for a question that is no call; return whose, or an empty text."""
        pairs = tuple(context.invocation_metadata() or ())
        bucket = bucket_of(self._identify(context, pairs), context.peer())
        return bucket if self._quota.take(bucket, monotonic_ms=self._clock.monotonic_ms()) is None else ""

    def _catalog(self) -> Catalog | None:
        known = self._knowledge.known
        return None if known is None else known.catalog

    async def _listen(self) -> None:
        settings = self._settings
        keep_serving()
        self._server = aio.server(options=(*SERVER_OPTIONS, ("grpc.so_reuseport", int(settings.shared_port))))
        door = GrpcDoor(self._door.handle, self._identify, streams=self._knowledge.streams)
        reflected = None if settings.reflection else door.streaming  # refused there, with its event
        self._probe = Probe(self._admit, self.reasons, self._catalog, reflected=reflected)
        self._server.add_generic_rpc_handlers((self._probe, door))
        certificates = _certificates(settings)
        self.port = (
            self._server.add_insecure_port(settings.listen)
            if certificates is None
            else self._server.add_secure_port(settings.listen, server_credentials(certificates))
        )
        await self._server.start()
        self._run(self._serving())
        self._health = HealthServer(self.reasons)
        host, _, port = settings.health_listen.rpartition(":")
        self.health_port = await self._health.start(host, int(port), shared=settings.shared_port)
        tell_port(settings.port_file, self.port)
        tell_port(settings.health_port_file, self.health_port)
        if settings.dev_identity:
            log(LOG, logging.WARNING, "sidecar.development_identities", listen=settings.listen)
        ports = {"port": self.port, "health_port": self.health_port, "metrics_port": self.metrics_port}
        log(LOG, logging.INFO, "sidecar.listening", **ports)

    def _run(self, *loops: Coroutine[Any, Any, None]) -> None:
        running = asyncio.get_running_loop()
        for loop in loops:
            task = running.create_task(loop)
            task.add_done_callback(self._loop_ended)
            self._tasks.append(task)

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(TELL_S)
            await self._tell_counted()

    async def _tell_counted(self, *, last: bool = False) -> None:
        try:
            await self._door.tell(last=last)
        except SpoolError as error:
            log(LOG, logging.ERROR, "door.counts_untold", error=str(error)[:200])

    async def _watch_parent(self, parent: int) -> None:
        """End when the parent of the workers has: nobody would start or stop this one any more."""
        while True:
            await asyncio.sleep(PARENT_S)
            if os.getppid() != parent:
                raise RuntimeError("the parent of the workers has ended")

    async def _serving(self) -> None:
        """Raise when nobody is served any more though nobody asked for it: a wall that lives is no door."""
        await self._server.wait_for_termination()
        if not self._draining:
            raise RuntimeError("the gRPC server has ended")
        await asyncio.Event().wait()

    def _loop_ended(self, task: asyncio.Task[None]) -> None:
        """A loop that should never end did: say so and end the process, drained, rather than limp on."""
        if not task.cancelled():
            self.broken = f"a part ended: {task.exception()!r}"[:200]
            log(LOG, logging.CRITICAL, "sidecar.broken", why=self.broken)
            self.ending.set()


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel `tasks` until they have ended: nats-py eats a cancellation that comes while it flushes."""
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=CANCEL_AGAIN_S)


def _certificates(settings: SidecarSettings) -> CertificateFiles | None:
    certificate, key, authority = settings.tls_certificate_file, settings.tls_key_file, settings.tls_ca_file
    if certificate is None or key is None or authority is None:
        return None
    return CertificateFiles(certificate, key, authority)


def _tool(settings: SidecarSettings) -> SocketTool:
    if settings.tool_client == "grpcio":
        return SocketTool(settings.tool_socket)
    from sidecar.tool.http2_link import Http2Tool

    return Http2Tool(settings.tool_socket)


def _beacon_reason(age_ms: int | None, trouble: str) -> str:
    if age_ms is None:
        return trouble or "no beacon yet"
    if age_ms > MAX_READY_AGE_MS:
        return f"the beacon is {age_ms} ms old: {trouble or 'nothing newer came'}"
    return ""
