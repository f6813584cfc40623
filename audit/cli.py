"""`licet audit`: the store's processes and its questions. stdout is data, stderr is talk."""

import asyncio
import secrets
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from licet.log import configure_logging

app: Final = typer.Typer(
    help="Keep decisions, join them to spends and ledger changes, answer questions on them.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)


def _fail(message: str) -> typer.Exit:
    typer.echo(message, err=True)
    return typer.Exit(1)


def _settings(kind: Any, **given: object) -> Any:
    """Make settings from the environment and the options that were given; exits 2 with every bad value."""
    from pydantic import ValidationError

    try:
        return kind(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        for problem in error.errors():
            name = "LICET_" + "_".join(str(part) for part in problem["loc"]).upper()
            typer.echo(f"{name}: {problem['msg'].lower()}", err=True)
        raise typer.Exit(2) from None


def _split_address(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit():
        raise typer.BadParameter(f"`{listen}` is no host:port")
    return host.strip("[]"), int(port)


@app.command()
def front(
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
) -> None:
    """Serve the embedded ClickHouse engine (chDB) over ClickHouse's HTTP interface, on loopback."""
    from audit.engine import EngineBusyError
    from audit.front import Account, serve

    configure_logging("audit-front")
    host, port = _split_address(listen)
    if not password_file.exists():
        password_file.touch(mode=0o600)
        password_file.write_text(secrets.token_hex(16) + "\n")
    password = password_file.read_text().strip()
    if not password:
        raise _fail(f"the password file `{password_file}` is empty: write a password or remove the file")
    try:
        asyncio.run(serve(path, Account(user, password), host, port, port_file))
    except (EngineBusyError, ValueError, OSError) as error:
        raise _fail(str(error)) from error


@app.command()
def migrate(
    clickhouse_url: Annotated[str | None, typer.Option(help="Default: LICET_CLICKHOUSE_URL.")] = None,
    print_only: Annotated[bool, typer.Option("--print", help="Print the SQL and touch nothing.")] = False,
    cluster: Annotated[
        str | None, typer.Option(help="Cluster name. Default: LICET_CLICKHOUSE_CLUSTER.")
    ] = None,
) -> None:
    """Bring the store to this program's schema. Safe to run again."""
    from clickhouse_connect.driver.exceptions import Error

    from audit.migrate import Layout, MigrationError, migrate, shipped
    from audit.settings import StoreSettings

    if print_only:
        layout = Layout(cluster or "")
        for migration in shipped():
            typer.echo(f"-- {migration.number:04d} {migration.name}\n{layout.render(migration.text)}")
        return
    settings = _settings(StoreSettings, clickhouse_url=clickhouse_url, clickhouse_cluster=cluster)
    try:
        for migration in migrate(settings.store().client(), settings.layout()):
            typer.echo(f"applied {migration.number:04d} {migration.name}", err=True)
    except (Error, MigrationError, OSError) as error:
        raise _fail(str(error)) from error
    typer.echo("the store is at this program's schema", err=True)


@app.command()
def write() -> None:
    """Write JetStream's audit, spend-log and ledger streams to ClickHouse, each message exactly once.

    Settings come from LICET_ variables: ENVIRONMENT, NATS_URL, NATS_USER, NATS_PASSWORD_FILE, CLICKHOUSE_URL,
    CLICKHOUSE_USER, CLICKHOUSE_PASSWORD_FILE, KEYS_DIR, BATCH_ROWS.
    """
    from clickhouse_connect.driver.exceptions import Error

    from audit import run
    from audit.migrate import MigrationError
    from audit.settings import AuditSettings
    from licet.streams import StreamsError

    configure_logging("audit-writer")
    settings = _settings(AuditSettings)
    try:
        asyncio.run(run.until_stopped(lambda: run.write(settings)))
    except (Error, MigrationError, StreamsError, OSError) as error:
        raise _fail(str(error)) from error


@app.command()
def reconcile() -> None:
    """Join decisions, spends and ledger changes; raise findings; fence rounds that were left open.

    Settings come from LICET_ variables: those of `write`, and TOOLS, CHECKPOINT_KEY_FILE, SPOOL_DIR,
    LEDGER_READERS_FILE, LABELS_FILE, DEV_IDENTITY, POLL_MS.
    """
    from clickhouse_connect.driver.exceptions import Error

    from audit import run
    from audit.ledger_reader import LedgerReaderError
    from audit.migrate import MigrationError
    from audit.settings import AuditSettings
    from licet.journal.spool import SpoolError
    from licet.keyfile import KeyFileError
    from licet.streams import StreamsError

    configure_logging("reconciler")
    settings = _settings(AuditSettings)
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
        raise _fail(str(error)) from error


@app.command()
def evidence(
    spend: Annotated[str, typer.Option(help="Spend id of the step.")] = "",
    decision: Annotated[str, typer.Option(help="Decision id.")] = "",
    call: Annotated[str, typer.Option(help="TASK/CALL: task id and call id.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the three evidences of a step, and the finding they lead to.

    Example: licet audit evidence --call task_789/call_1
    """
    import json
    import time

    from clickhouse_connect.driver.exceptions import Error

    from audit.evidence import NoEvidenceError, read
    from audit.settings import StoreSettings
    from audit.show import evidence_text

    task_id, _, call_id = call.partition("/")
    settings = _settings(StoreSettings)
    try:
        found = read(
            settings.store().client(),
            now_us=time.time_ns() // 1000,
            spend_id=spend,
            decision_id=decision,
            task_id=task_id,
            call_id=call_id,
        )
    except (Error, NoEvidenceError, ValueError, OSError) as error:
        raise _fail(str(error)) from error
    typer.echo(json.dumps(found.to_dict(), indent=2) if as_json else evidence_text(found))


def _keyset(
    keys_dir: Path | None, root_key_file: Path | None, environment: str, signed: bytes | None = None
) -> Any:
    """Read the key set that the root signed; `signed`: from an export instead of the directory."""
    from licet.keyfile import KeyFileError, read_public, read_signed
    from licet.keys import read_keyset
    from licet.refusal import Refusal
    from licet.v1.statement_pb2 import Signed

    root = root_key_file or (keys_dir / "root.pub" if keys_dir else None)
    if root is None or (signed is None and keys_dir is None):
        raise _fail("name the keys: --keys-dir, or --root-key with --bundle")
    try:
        found = (
            Signed.FromString(signed)
            if signed is not None
            else read_signed(Path(str(keys_dir)) / "keyset.signed")
        )
        keys = read_keyset(found, read_public(root), environment=environment)
    except (KeyFileError, ValueError) as error:
        raise _fail(str(error)) from error
    if isinstance(keys, Refusal):
        raise _fail(f"the key set does not hold: {keys.detail}")
    return keys


KeysDir = Annotated[
    Path | None, typer.Option(envvar="LICET_KEYS_DIR", help="Has keyset.signed and root.pub.")
]
RootKey = Annotated[Path | None, typer.Option(envvar="LICET_ROOT_KEY_FILE", help="Root public key.")]
EnvironmentName = Annotated[str, typer.Option(envvar="LICET_ENVIRONMENT", help="The environment.")]
TrustDomain = Annotated[str, typer.Option(envvar="LICET_TRUST_DOMAIN", help="SPIFFE trust domain.")]


@app.command()
def verify(
    *,
    bundle: Annotated[Path | None, typer.Option(help="Verify an export instead of the store.")] = None,
    anchors: Annotated[list[Path] | None, typer.Option(help="Export kept elsewhere; may repeat.")] = None,
    revoked: Annotated[list[str] | None, typer.Option(help="KEY=UNIX_MS: a key, and when it ended.")] = None,
    keys_dir: KeysDir = None,
    root_key: RootKey = None,
    environment: EnvironmentName = "dev",
    trust_domain: TrustDomain = "licet.local",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Prove that the audit is what its sources wrote, or name what is not.

    Exit status: 0 sound, 3 something is wrong, 1 could not verify.
    """
    import json
    import time

    from clickhouse_connect.driver.exceptions import Error

    from audit import export
    from audit.chain import Trust
    from audit.row import House
    from audit.settings import StoreSettings
    from audit.verify import Scope, verify_rows
    from audit.witness import verify_store

    try:
        ended = {name: int(at) * 1000 for name, _, at in (text.partition("=") for text in revoked or [])}
        kept = tuple(anchor for path in anchors or [] for anchor in export.read_anchors(path))
        read = export.read(bundle) if bundle is not None else None
        keys = _keyset(keys_dir, root_key, environment, read.keyset if read else None)
        scope = Scope(
            House(environment, trust_domain, keys),
            Trust(keys, ended),
            time.time_ns() // 1000,
            kept,
            whole=read is None,
        )
        if read is not None:
            report = verify_rows(read.rows, scope)
        else:
            client = _settings(StoreSettings).store().client()
            report = verify_store(client, scope, _progress)
    except (Error, export.ExportError, ValueError, OSError) as error:
        raise _fail(str(error)) from error
    problems = [
        {"kind": str(one.kind), "where": one.where, "event_id": one.event_id, "detail": one.detail}
        for one in report.problems
    ]
    if as_json:
        summary = {"sound": report.sound, "rows": report.rows, "runs": report.runs, "found": report.found}
        typer.echo(json.dumps({**summary, "problems": problems, "notes": report.notes}, indent=2))
    else:
        for note in report.notes:
            typer.echo(f"note: {note}", err=True)
        for problem in report.problems:
            typer.echo(str(problem))
        state = "sound" if report.sound else f"{report.found} problems"
        typer.echo(f"{state}: {report.rows} rows in {report.runs} runs", err=True)
    if not report.sound:
        raise typer.Exit(3)


def _progress(done: int, total: int) -> None:
    typer.echo(f"verified {done} of {total} rows", err=True)


@app.command(name="export")
def export_(
    *,
    out: Annotated[Path, typer.Option(help="File to write; must not exist.")],
    task: Annotated[str, typer.Option(help="Events of this task.")] = "",
    since: Annotated[str, typer.Option(help="Events stored since, such as 2026-11-29T20:00:00.")] = "",
    only_anchors: Annotated[
        bool, typer.Option("--anchors", help="Only the last checkpoint of each run.")
    ] = False,
    keys_dir: KeysDir = None,
    environment: EnvironmentName = "dev",
) -> None:
    """Write events, their chains and the keys into one file that verifies offline.

    Keep one elsewhere: its checkpoints are the anchors that show a rewriting by whoever holds every key here.
    """
    import time

    from clickhouse_connect.driver.exceptions import Error

    from audit import export
    from audit.settings import StoreSettings

    if keys_dir is None or (bool(task) + bool(since) + only_anchors) != 1:
        raise _fail("name --keys-dir, and one of --task, --since, --anchors")
    condition, given = (
        ("task_id = {task:String}", {"task": task})
        if task
        else ("js_time >= {since:DateTime64(6)}", {"since": since})
    )
    try:
        client = _settings(StoreSettings).store().client()
        rows = [] if only_anchors else export.scope_rows(client, condition, given)
        if not rows and not only_anchors:
            raise _fail("the store has no events of this scope")
        head = {
            "environment": environment,
            "exported_at_us": time.time_ns() // 1000,
            "task": task,
            "since": since,
        }
        with out.open("x", encoding="utf-8") as file:
            count = export.write(
                file, head, (keys_dir / "keyset.signed").read_bytes(), export.anchors(client), rows
            )
    except (Error, ValueError, OSError) as error:
        raise _fail(str(error)) from error
    typer.echo(f"wrote {count} rows to {out}", err=True)


@app.command()
def ask(
    *,
    name: Annotated[str, typer.Argument(help="The question.")] = "",
    param: Annotated[list[str] | None, typer.Option("--param", "-p", help="NAME=VALUE; may repeat.")] = None,
    style: Annotated[str, typer.Option("--format", help="table, csv or json.")] = "table",
    as_json: Annotated[bool, typer.Option("--json", help="Same as --format json.")] = False,
    list_all: Annotated[bool, typer.Option("--list", help="List the questions and what they take.")] = False,
) -> None:
    """Ask one of the canned questions.

    Example: licet audit ask refusals-over-time -p since=2026-11-29T20:00:00
    """
    from clickhouse_connect.driver.exceptions import Error

    from audit import ask as asking
    from audit.settings import StoreSettings

    if list_all or not name:
        typer.echo(asking.catalogue(tuple(asking.questions().values())))
        return
    given = {}
    for text in param or []:
        key, separator, value = text.partition("=")
        if not separator:
            raise typer.BadParameter(f"`{text}` is no NAME=VALUE")
        given[key] = value
    try:
        answer = asking.ask(_settings(StoreSettings).store().client(), name, given)
    except (Error, asking.QuestionError, OSError) as error:
        raise _fail(str(error)) from error
    typer.echo(answer.text("json" if as_json else style))
