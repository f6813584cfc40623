"""`licet audit backup` and `restore`: the whole store, by the engine's own means."""

import os
from typing import Annotated, Any

import typer

from audit.cli_settings import fail, read_settings
from licet.clock import wall_ms

Name = Annotated[str, typer.Argument(help="The backup's name; used once.")]
Disk = Annotated[
    str, typer.Option(help="A disk that the server allows backups on; default: its directory of backups.")
]


def backup(name: Name, *, disk: Disk = "") -> None:
    """Back the store up: every table and view of its database. The writer may go on meanwhile.

    Where it goes is the server's to say: `backups.allowed_path` or `backups.allowed_disk`; for the embedded
    front, its option --backups. Exit status: 0, 1 there is no backup.

    Example: licet audit backup 2026-11-29
    """
    from clickhouse_connect.driver.exceptions import Error

    from audit.settings import StoreSettings
    from audit.store.backup import BackupError, Place, take

    settings = read_settings(StoreSettings)
    try:
        place = Place(name, disk)
        held = take(settings.store().client(), settings.layout(), place, now_ms=wall_ms())
    except (Error, BackupError, OSError) as error:
        raise fail(str(error)) from error
    rows = sum(part.rows for part in held)
    typer.echo(f"{place} holds {rows} rows of {len({part.stream for part in held})} streams", err=True)


def restore(
    name: Name,
    *,
    disk: Disk = "",
    from_database: Annotated[
        str, typer.Option(help="The database's name when the backup was taken; default: this one's.")
    ] = "",
    into: Annotated[
        str, typer.Option(help="Database, made where it is missing. Default: LICET_CLICKHOUSE_DATABASE.")
    ] = "",
) -> None:
    """Put a backup into an empty database, bring it to this program's schema, and say what is missing of it.

    What came after the backup the writer reads from JetStream; with LICET_NATS_URL and the other settings of
    `licet audit write`, this says what there is to read. Then prove it: licet audit verify. Exit status: 0,
    1 nothing was restored, 3 something is missing.

    Example: licet audit restore 2026-11-29 --from-database licet --into licet_restored
    """
    from dataclasses import replace

    from clickhouse_connect.driver.exceptions import Error

    from audit.asking import views
    from audit.settings import StoreSettings
    from audit.store import backup as backups
    from audit.store.migrate import MigrationError, migrate

    settings = read_settings(StoreSettings, clickhouse_database=into or None)
    try:
        place = backups.Place(name, disk)
        if into:
            admin = replace(settings.store(), database="default").client()
            backups.make_database(admin, into, settings.layout())
            admin.close()
        client = settings.store().client()
        backups.restore(client, settings.layout(), place, source=from_database)
        typer.echo(f"restored {place}", err=True)
        for migration in migrate(client, settings.layout()):
            typer.echo(f"applied {migration.number:04d} {migration.name}", err=True)
        views.make(client, settings.layout())
        typer.echo(f"brought `calls` up to the events of {backups.rebuild(client)} days", err=True)
        lacks = _missing(client, name, settings.retention_days)
        lacks += _ahead(client)
    except (Error, backups.BackupError, MigrationError, OSError) as error:
        raise fail(str(error)) from error
    typer.echo("now start the writer, then: licet audit verify", err=True)
    if lacks:
        raise typer.Exit(3)


def _missing(client: Any, name: str, retention_days: int) -> int:
    """Say what is missing of the backup; return how much that is."""
    from datetime import UTC, datetime, timedelta

    from audit.store import backup as backups

    oldest = (datetime.now(UTC) - timedelta(days=retention_days)).date()
    lacks = backups.missing(client, name, oldest=oldest)
    for line in lacks:
        typer.echo(f"MISSING {line}", err=True)
    if not lacks:
        typer.echo(f"all is there that was counted when `{name}` was taken", err=True)
    typer.echo(f"the greatest generation in it is {backups.generation(client)}", err=True)
    return len(lacks)


def _ahead(client: Any) -> int:
    """Say what the writer has to read, where NATS is known; return how many streams it cannot go on with."""
    import asyncio

    from audit import run
    from audit.settings import AuditSettings
    from audit.store import backup as backups
    from licet.streams import StreamsError

    if not os.environ.get("LICET_NATS_URL"):
        typer.echo("not compared with JetStream: LICET_NATS_URL is not set", err=True)
        return 0
    try:
        available = asyncio.run(run.available(read_settings(AuditSettings)))
    except StreamsError as error:
        raise fail(f"restored, but not compared with JetStream: {error}") from error
    bad = 0
    for said in backups.ahead(client, available):
        typer.echo(f"{'' if said.whole else 'MISSING '}{said.text}", err=True)
        bad += not said.whole
    return bad
