"""One sidecar process: its parts put together, started in order, drained in reverse.

Guaranteed: no traffic before the first beacon; on SIGTERM new calls are refused by the transport, open
calls run to their end within `drain_ms`, and only then do journal and spend client close, so an executed
call has its event. Not guaranteed: the outcome of a call that outlasts the drain; its reserve is fenced
later.
"""

import asyncio
import logging
import secrets
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

from grpc import aio

from licet import tracing
from licet.identity import audience_of, reconciler_id, sidecar_id
from licet.journal import Journal
from licet.keyfile import read_public, read_secret, read_signing_key
from licet.log import log
from licet.streams import Connection, NatsSettings, Publisher, connect, subject_audit, subject_beacon
from sidecar.clock import SystemClock
from sidecar.core import Door, Limits, Parts
from sidecar.decider_link import DeciderLink
from sidecar.fence import Fence
from sidecar.grpc_door import SERVER_OPTIONS, GrpcDoor, identify_certified, identify_development
from sidecar.guard_link import GuardLink
from sidecar.health import HealthServer
from sidecar.knowledge import Identity, Knowledge
from sidecar.outbox import OutboxRelay
from sidecar.quota import Quota
from sidecar.settings import SidecarSettings
from sidecar.spend import SpendClient
from sidecar.tls import CertificateFiles, channel_credentials, server_credentials
from sidecar.tool import SocketTool

LOG: Final = logging.getLogger(__name__)

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
        self._tasks: list[asyncio.Task[None]] = []
        self.port = 0
        self.health_port = 0
        self._draining = False

    async def start(self) -> None:
        """Connect, open the spool, hear of the first beacon or keep asking, then listen."""
        settings = self._settings
        env, tool, domain = settings.environment, settings.tool, settings.trust_domain
        self._audience = audience_of(domain, env, tool)
        self._source = sidecar_id(domain, env, tool)
        self._tracing = tracing.configure("licet-sidecar", settings.otlp_endpoint, settings.instance)
        self._tool = SocketTool(settings.tool_socket)
        self._guard = GuardLink(self._tool.channel)
        certificates = _certificates(settings)
        self._decider = DeciderLink(
            settings.decider,
            self._audience,
            credentials=channel_credentials(certificates) if certificates is not None else None,
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
        await self._start_store()
        self._tool.start()
        self._door = self._make_door()
        self._relay = OutboxRelay(self._guard, self._publisher, environment=env, tool=tool)
        self._run(self._knowledge.run(), self._relay.run())
        await self._listen()

    async def stop(self) -> int:
        """Drain and close; return how many calls had not ended in time."""
        self._draining = True
        log(LOG, logging.INFO, "sidecar.draining", open=self._door.open)
        grace_ms = self._settings.drain_ms
        await asyncio.gather(self._server.stop(grace_ms / 1000), self._door.drain(grace_ms))
        left = self._door.open
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._spend.close()
        await self._journal.close()
        await self._health.stop()
        await self._tool.close()
        await self._decider.close()
        await self._publisher.close()
        await self._nats.close()
        self._tracing.shutdown()
        log(LOG, logging.INFO, "sidecar.stopped", left_open=left)
        return left

    def reasons(self) -> dict[str, str]:
        """Return why each subsystem is not ready; empty texts for those that are."""
        known = self._knowledge.known
        age_ms = self._knowledge.age_ms()
        return {
            "keys": "" if known is not None else self._knowledge.trouble,
            "beacon": _beacon_reason(age_ms, self._knowledge.trouble),
            "store": self._store_reason(),
            "tool": "" if self._tool.reachable else "no connection to the tool's socket",
            "guard": "" if self._guard.absent else self._guard.trouble,
            "spool": "the event spool is full" if self._journal.full else "",
            "door": "draining" if self._draining else "",
        }

    def _store_reason(self) -> str:
        known = self._knowledge.known
        if not self._publisher.connected:
            return "no connection to NATS"
        if known is not None and not known.held.beacon.store_safe:
            return "the spend stream's settings are not safe"
        return ""

    async def _start_store(self) -> None:
        settings = self._settings
        nats = NatsSettings(
            url=settings.nats_url,
            user=settings.nats_user,
            password_file=settings.nats_password_file,
            ca_file=settings.nats_ca_file,
        )
        self._nats: Connection = await connect(nats, f"sidecar-{settings.tool}-{settings.instance}")
        self._publisher = await Publisher.open(self._nats)
        spool = settings.spool_dir
        self._journal = await Journal.open(
            spool / "journal",
            source=self._source,
            subject=subject_audit(settings.environment, "sidecar", settings.tool),
            environment=settings.environment,
            publisher=self._publisher,
            checkpoint_key=read_signing_key(settings.checkpoint_key_file),
        )
        self._spend = await SpendClient.open(
            spool / "outcome",
            environment=settings.environment,
            tool=settings.tool,
            sidecar=self._source,
            publisher=self._publisher,
            spend_key=read_signing_key(settings.spend_key_file),
            beacon=self._knowledge.held,
        )
        await self._nats.subscribe(subject_beacon(settings.environment), cb=self._on_beacon)

    async def _on_beacon(self, message: Any) -> None:
        self._knowledge.offer(message.data)

    def _make_door(self) -> Door:
        settings = self._settings
        parts = Parts(
            clock=self._clock,
            quota=Quota(per_second=settings.quota_per_second, burst=settings.quota_burst),
            beacons=self._knowledge,
            spend=self._spend,
            tool=self._tool,
            journal=self._journal,
            fences=Fence(self._guard, self._spend, self._knowledge.state, self._clock),
            tracing=self._tracing,
            nonce=secrets.token_bytes,
            reconciler=reconciler_id(settings.trust_domain, settings.environment),
            decider=self._decider,
        )
        return Door(parts, Limits(tool_timeout_ms=settings.tool_timeout_ms))

    async def _listen(self) -> None:
        settings = self._settings
        identify = identify_certified if settings.tls else identify_development
        self._server = aio.server(options=SERVER_OPTIONS)
        door = GrpcDoor(self._door.handle, identify, streams=self._knowledge.streams)
        self._server.add_generic_rpc_handlers((door,))
        certificates = _certificates(settings)
        self.port = (
            self._server.add_insecure_port(settings.listen)
            if certificates is None
            else self._server.add_secure_port(settings.listen, server_credentials(certificates))
        )
        await self._server.start()
        self._health = HealthServer(self.reasons)
        host, _, port = settings.health_listen.rpartition(":")
        self.health_port = await self._health.start(host, int(port))
        _write_port(settings.port_file, self.port)
        _write_port(settings.health_port_file, self.health_port)
        if settings.dev_identity:
            log(LOG, logging.WARNING, "sidecar.development_identities", listen=settings.listen)
        log(LOG, logging.INFO, "sidecar.listening", port=self.port, health_port=self.health_port)

    def _run(self, *loops: Coroutine[Any, Any, None]) -> None:
        running = asyncio.get_running_loop()
        self._tasks.extend(running.create_task(loop) for loop in loops)


def _certificates(settings: SidecarSettings) -> CertificateFiles | None:
    certificate, key, authority = settings.tls_certificate_file, settings.tls_key_file, settings.tls_ca_file
    if certificate is None or key is None or authority is None:
        return None
    return CertificateFiles(certificate, key, authority)


def _beacon_reason(age_ms: int | None, trouble: str) -> str:
    if age_ms is None:
        return trouble or "no beacon yet"
    if age_ms > MAX_READY_AGE_MS:
        return f"the beacon is {age_ms} ms old: {trouble or 'nothing newer came'}"
    return ""


def _write_port(path: Path | None, port: int) -> None:
    """Write a chosen port, whole or not at all: a reader must not see half a number."""
    if path is None:
        return
    partial = path.with_suffix(".partial")
    partial.write_text(f"{port}\n", "utf-8")
    partial.replace(path)
