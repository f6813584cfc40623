"""`licet audit`: the store's processes and its questions. stdout is data, stderr is talk."""

import asyncio
import secrets
from os import environ
from pathlib import Path
from typing import Annotated, Final

import typer

from audit.asking.cli import ask, evidence, ocsf, score, timeline
from audit.cli_settings import fail, read_settings
from audit.proof.cli import export_, verify
from audit.sealed.cli import inputs, open_, shred
from audit.store.cli import backup, restore
from licet.log import configure_logging

app: Final = typer.Typer(
    help="Keep decisions, join them to spends and ledger changes, answer questions on them.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)


def _split_address(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit():
        raise typer.BadParameter(f"`{listen}` is no host:port")
    return host.strip("[]"), int(port)


@app.command()
def front(
    *,
    path: Annotated[Path, typer.Option(help="Data directory; made when missing.")],
    password_file: Annotated[
        Path,
        typer.Option(envvar="LICET_CLICKHOUSE_PASSWORD_FILE", help="Made with a random one when missing."),
    ],
    listen: Annotated[str, typer.Option(help="Loopback host:port; port 0 takes a free one.")] = "127.0.0.1:0",
    port_file: Annotated[
        Path | None, typer.Option(envvar="LICET_PORT_FILE", help="Gets the port that was taken.")
    ] = None,
    user: Annotated[str, typer.Option(envvar="LICET_CLICKHOUSE_USER", help="The one user.")] = "licet",
    backups: Annotated[
        Path | None,
        typer.Option(envvar="LICET_BACKUPS_DIR", help="Directory of backups. Default: PATH with `-backups`."),
    ] = None,
) -> None:
    """Serve the embedded ClickHouse engine (chDB) over ClickHouse's HTTP interface, on loopback."""
    from audit.store.engine import EngineBusyError
    from audit.store.front import Account, serve

    configure_logging("audit-front")
    host, port = _split_address(listen)
    if not password_file.exists():
        password_file.touch(mode=0o600)
        password_file.write_text(secrets.token_hex(16) + "\n")
    password = password_file.read_text().strip()
    if not password:
        raise fail(f"the password file `{password_file}` is empty: write a password or remove the file")
    try:
        kept = backups or path.with_name(f"{path.name}-backups")
        asyncio.run(serve(path, Account(user, password), host, port, port_file, backups=kept))
    except (EngineBusyError, ValueError, OSError) as error:
        raise fail(str(error)) from error


@app.command()
def migrate(
    clickhouse_url: Annotated[str | None, typer.Option(help="Default: LICET_CLICKHOUSE_URL.")] = None,
    print_only: Annotated[bool, typer.Option("--print", help="Print the SQL and touch nothing.")] = False,
    cluster: Annotated[
        str | None, typer.Option(help="Cluster name. Default: LICET_CLICKHOUSE_CLUSTER.")
    ] = None,
) -> None:
    """Bring the store to this program's schema, and its questions' views. Safe to run again."""
    from clickhouse_connect.driver.exceptions import Error

    from audit.asking import views
    from audit.settings import StoreSettings
    from audit.store.migrate import Layout, MigrationError, migrate, shipped

    if print_only:
        layout = Layout(environ.get("LICET_CLICKHOUSE_CLUSTER", "") if cluster is None else cluster)
        for migration in shipped():
            typer.echo(f"-- {migration.number:04d} {migration.name}\n{layout.render(migration.text)}")
        typer.echo("-- the questions, as views")
        typer.echo("".join(f"{statement};\n\n" for statement in views.statements(layout)), nl=False)
        return
    settings = read_settings(StoreSettings, clickhouse_url=clickhouse_url, clickhouse_cluster=cluster)
    try:
        client = settings.store().client()
        for migration in migrate(client, settings.layout()):
            typer.echo(f"applied {migration.number:04d} {migration.name}", err=True)
        views.make(client, settings.layout())
    except (Error, MigrationError, OSError) as error:
        raise fail(str(error)) from error
    typer.echo("the store is at this program's schema", err=True)


@app.command()
def write() -> None:
    """Write JetStream's audit, spend-log and ledger streams to ClickHouse, each message exactly once.

    Settings come from LICET_ variables: ENVIRONMENT, NATS_URL, NATS_USER, NATS_PASSWORD_FILE, CLICKHOUSE_URL,
    CLICKHOUSE_USER, CLICKHOUSE_PASSWORD_FILE, KEYS_DIR, BATCH_ROWS.
    """
    from clickhouse_connect.driver.exceptions import Error

    from audit import run
    from audit.settings import AuditSettings
    from audit.store.migrate import MigrationError
    from licet.streams import StreamsError

    settings = read_settings(AuditSettings)
    configure_logging("audit-writer", settings.log_level)
    try:
        asyncio.run(run.until_stopped(lambda: run.write(settings)))
    except (Error, MigrationError, StreamsError, OSError) as error:
        raise fail(str(error)) from error


@app.command()
def reconcile() -> None:
    """Join decisions, spends and ledger changes; raise findings; fence rounds that were left open.

    Settings come from LICET_ variables: those of `write`, and TOOLS, CHECKPOINT_KEY_FILE, SPOOL_DIR,
    LEDGER_READERS_FILE, LABELS_FILE, DEV_IDENTITY, POLL_MS.
    """
    from clickhouse_connect.driver.exceptions import Error

    from audit import run
    from audit.judging.ledger_reader import LedgerReaderError
    from audit.settings import AuditSettings
    from audit.store.migrate import MigrationError
    from licet.journal.spool import SpoolError
    from licet.keyfile import KeyFileError
    from licet.streams import StreamsError

    settings = read_settings(AuditSettings)
    configure_logging("reconciler", settings.log_level)
    refused = (
        Error,
        MigrationError,
        StreamsError,
        SpoolError,
        LedgerReaderError,
        KeyFileError,
        ValueError,
        OSError,
    )
    try:
        asyncio.run(run.until_stopped(lambda: run.reconcile(settings)))
    except refused as error:
        raise fail(str(error)) from error


@app.command()
def reread(
    *,
    since: Annotated[str, typer.Option("--from", help="First day to read again, such as 2026-11-28.")],
    yes: Annotated[
        bool, typer.Option("--yes", help="Do it; without, only say what would be dropped.")
    ] = False,
) -> None:
    """Drop the rows of a day and later, for the writer to read again from JetStream. Stop it before."""
    from datetime import date

    from clickhouse_connect.driver.exceptions import Error

    from audit import run
    from audit.settings import AuditSettings
    from audit.writing import reread as again
    from licet.streams import StreamsError

    settings = read_settings(AuditSettings)
    try:
        client = settings.store().client()
        day = date.fromisoformat(since)
        needed = again.first_needed(client, day)
        again.check(needed, asyncio.run(run.first_available(settings)))
        if not yes:
            typer.echo(f"would read again from {needed}; add --yes", err=True)
            return
        typer.echo(f"dropped {', '.join(again.drop(client, day))}; start the writer", err=True)
    except (Error, again.RereadError, StreamsError, ValueError, OSError) as error:
        raise fail(str(error)) from error


@app.command()
def retain(
    *,
    days: Annotated[
        int | None, typer.Option(min=1, help="Days that rows are kept. Default: LICET_RETENTION_DAYS.")
    ] = None,
    payload_days: Annotated[
        int | None, typer.Option(min=1, help="Days that payloads are kept. Default: LICET_PAYLOAD_DAYS.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without, only say what would go.")] = False,
) -> None:
    """Change how long rows and sealed payloads stay. What goes is gone: export or back up before."""
    from clickhouse_connect.driver.exceptions import Error

    from audit.settings import StoreSettings
    from audit.store import retention

    settings = read_settings(StoreSettings, retention_days=days, payload_days=payload_days)
    layout = settings.layout()
    try:
        client = settings.store().client()
        gone = retention.going(client, layout)
        kept = f"rows for {layout.retention_days} days, payloads for {layout.payload_days}"
        told = f"{gone['events']} rows and {gone['payloads']} payloads are older"
        if not yes:
            typer.echo(f"would keep {kept}; {told} and would go; add --yes", err=True)
            return
        retention.apply(client, layout)
    except (Error, OSError) as error:
        raise fail(str(error)) from error
    typer.echo(f"keeps {kept}; {told} and go", err=True)


@app.command()
def roles(
    database: Annotated[str, typer.Option(help="Database of the tables.")] = "default",
    cluster: Annotated[str, typer.Option(help="Cluster name; empty for one server.")] = "",
) -> None:
    """Print SQL for roles and row policies on a ClickHouse server.

    Writer (adds only), SRE (every question), reader (one tenant), auditor (everything), migrator.
    """
    from audit.asking import views
    from audit.store.migrate import Layout, role_statements

    try:
        layout = Layout(cluster)
        statements = (*role_statements(layout, database), *views.grants(layout, database))
    except ValueError as error:
        raise fail(str(error)) from error
    typer.echo("".join(f"{statement};\n" for statement in statements), nl=False)


for command in (evidence, ask, timeline, score, ocsf, verify, inputs, shred, backup, restore):
    app.command()(command)
app.command(name="export")(export_)
app.command(name="open")(open_)
