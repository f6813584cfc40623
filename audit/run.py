"""The audit writer and the reconciler as processes: wired from settings, run until SIGTERM."""

import asyncio
import logging
import signal
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from clickhouse_connect.driver.exceptions import Error as ClickHouseError
from clickhouse_connect.driver.exceptions import OperationalError

from audit.judging.alert import Webhook
from audit.judging.fence import SidecarFencer
from audit.judging.ledger_reader import LedgerCursors, read_file, read_labels
from audit.judging.reconcile import Reconciler
from audit.proof.keyring import Keyring
from audit.settings import AuditSettings, StoreSettings
from audit.store.migrate import check
from audit.store.stored import House
from audit.writing.writer import StreamWriter, kept_streams, streams
from licet import metrics, telemetry, tracing
from licet.clock import wall_us
from licet.identity import reconciler_id, sidecar_id
from licet.journal import Journal
from licet.journal.spool import SpoolError
from licet.keyfile import read_signing_key
from licet.log import log
from licet.metrics import Metrics
from licet.streams import NatsSettings, Publisher, StreamsError, connect, stream_info, subject_audit

LOG: Final = logging.getLogger(__name__)
STORE_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 30.0


def nats_settings(settings: AuditSettings) -> NatsSettings:
    """Return where NATS is and who we are there."""
    return NatsSettings(
        settings.nats_url, settings.nats_user, settings.nats_password_file, settings.nats_ca_file
    )


def keyring(settings: AuditSettings) -> Keyring | None:
    """Return the key set's reader; None where no directory is given."""
    if settings.keys_dir is None:
        return None
    root = settings.root_key_file or settings.keys_dir / "root.pub"
    return Keyring(settings.keys_dir / "keyset.signed", root, settings.environment)


async def until_stopped(work: Callable[[], Awaitable[None]]) -> None:
    """Run `work` until it ends or SIGTERM or SIGINT comes; then cancel it and wait for it."""
    task = asyncio.ensure_future(work())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        log(LOG, logging.INFO, "process.stops")


async def open_store(settings: StoreSettings) -> Any:
    """Connect to the store, waiting as long as it is away, and check its schema; raises MigrationError."""
    while True:
        try:
            client = await asyncio.to_thread(settings.store().client)
            await asyncio.to_thread(check, client)
        except (OperationalError, OSError) as error:
            log(LOG, logging.WARNING, "store.waits", error=str(error)[:300])
            await asyncio.sleep(STORE_WAIT_S)
        else:
            return client


async def write(settings: AuditSettings) -> None:
    """Write every stream that the store keeps; waits for NATS and the store as long as they are away.

    Raises MigrationError where the store's schema is not this program's.
    """
    keys = keyring(settings)

    def house() -> House:
        return House(settings.environment, settings.trust_domain, keys.current() if keys else None)

    counts = metrics.configure("licet-audit-writer", settings.metrics_endpoint, settings.metrics_listen)
    traces = tracing.configure("licet-audit-writer", settings.otlp_endpoint)
    nc = await connect(nats_settings(settings), "audit-writer", within_s=None)
    holder = f"{socket.gethostname()}:{_instance(settings.spool_dir)}"
    try:
        writers = []
        for stream in kept_streams(settings.environment):
            client = await open_store(settings)
            rows = settings.batch_rows
            writers.append(StreamWriter(nc, client, stream, holder, rows, metrics=counts, tracing=traces))
        async with asyncio.TaskGroup() as group:
            for writer in writers:
                group.create_task(writer.run(house))
    finally:
        await nc.close()
        await asyncio.gather(asyncio.to_thread(traces.shutdown), asyncio.to_thread(counts.shutdown))


def _instance(directory: Path | None) -> str:
    """The same over restarts of one instance, so that it need not wait for its own lease."""
    return str(directory.resolve()) if directory else "default"


async def reconcile(settings: AuditSettings) -> None:
    """Poll the store, raise findings into this process's own journal, fence open rounds.

    Raises MigrationError, LedgerReaderError, KeyFileError where the settings do not fit.
    """
    if settings.checkpoint_key_file is None or settings.spool_dir is None:
        raise ValueError("the reconciler needs LICET_CHECKPOINT_KEY_FILE and LICET_SPOOL_DIR")
    readers = read_file(settings.ledger_readers_file) if settings.ledger_readers_file else {}
    labels = read_labels(settings.labels_file) if settings.labels_file else {}
    identity = reconciler_id(settings.trust_domain, settings.environment)
    client = await open_store(settings)
    nc = await connect(nats_settings(settings), "reconciler", within_s=None)
    publisher = await Publisher.open(nc)
    journal = await Journal.open(
        settings.spool_dir,
        source=identity,
        environment=settings.environment,
        subject=subject_audit(settings.environment, "audit", "reconciler"),
        checkpoint_key=read_signing_key(settings.checkpoint_key_file),
        publisher=publisher,
    )
    webhook = Webhook(settings.alert_webhook) if settings.alert_webhook else None
    claimed = identity if settings.dev_identity else ""
    doors = {tool: sidecar_id(settings.trust_domain, settings.environment, tool) for tool in settings.tools}
    fencer = SidecarFencer(settings.tools, claimed, settings.certificate, doors)
    traces = tracing.configure("licet-reconciler", settings.otlp_endpoint)
    counts = metrics.configure("licet-reconciler", settings.metrics_endpoint, settings.metrics_listen)
    counts.observe(telemetry.METRIC_SPOOL_DEPTH, lambda: {("journal",): journal.depth})
    cursors = LedgerCursors(settings.spool_dir / "ledger-cursors.json")
    reconciler = Reconciler(
        client,
        journal,
        fencer,
        readers,
        streams=streams(settings.environment),
        labels=labels,
        alert=webhook.send if webhook else None,
        ledger_cursors=await asyncio.to_thread(cursors.load, readers, partial(_tools_of_ledgers, client)),
        tracing=traces,
        metrics=counts,
    )
    try:
        await _poll(reconciler, cursors, settings.poll_ms / 1000, counts)
    finally:
        if webhook:
            await webhook.drain()
        await journal.close()
        await fencer.close()
        await asyncio.gather(asyncio.to_thread(traces.shutdown), asyncio.to_thread(counts.shutdown))
        await publisher.close()
        await nc.close()


def _tools_of_ledgers(client: Any) -> list[str]:
    rows = client.query("SELECT DISTINCT tool FROM events WHERE kind = 'ledger.changed'").result_rows
    return [str(tool) for (tool,) in rows]


async def _poll(reconciler: Reconciler, cursors: LedgerCursors, pause_s: float, counts: Metrics) -> None:
    """Poll for ever: nothing that a poll raises ends it; what is no outage is logged and counted."""
    failed = counts.counter(telemetry.METRIC_RECONCILER_FAILURES)
    failed.begin()
    unexpected = 0
    while True:
        try:
            await reconciler.poll(wall_us())
            await asyncio.to_thread(cursors.save, reconciler.ledger_cursors)
            unexpected = 0
        except (ClickHouseError, StreamsError, SpoolError, OSError) as error:
            log(LOG, logging.WARNING, "reconciler.waits", error=str(error)[:300])
            await asyncio.sleep(STORE_WAIT_S)
        except Exception as error:
            unexpected += 1
            failed.add(1)
            log(LOG, logging.ERROR, "reconciler.failed", failures=unexpected, error=repr(error)[:300])
            LOG.debug("reconciler.failed", exc_info=error)
            await asyncio.sleep(min(STORE_WAIT_S * 2 ** min(unexpected, 5), LONGEST_WAIT_S))
        await asyncio.sleep(pause_s)


async def available(settings: AuditSettings) -> dict[str, tuple[int, int]]:
    """Return the first and the last sequence that JetStream has of each stream. Raises StreamsError."""
    nc = await connect(nats_settings(settings), "audit-look", forever=False)
    try:
        found = {}
        for stream in kept_streams(settings.environment):
            info = await stream_info(nc, stream)
            if info is not None:
                found[stream] = int(info["state"]["first_seq"]), int(info["state"]["last_seq"])
        return found
    finally:
        await nc.close()


async def first_available(settings: AuditSettings) -> dict[str, int]:
    """Return the first sequence that JetStream still has of each stream of `events`. Raises StreamsError."""
    found = await available(settings)
    return {stream: found[stream][0] for stream in streams(settings.environment) if stream in found}
