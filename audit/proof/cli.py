"""`licet audit verify` and `licet audit export`: the audit proved, here or offline."""

from pathlib import Path
from typing import Annotated, Any

import typer

from audit.cli_settings import fail, read_settings
from licet.clock import wall_us


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
        raise fail("name the keys: --keys-dir, or --root-key with --bundle")
    try:
        found = (
            Signed.FromString(signed)
            if signed is not None
            else read_signed(Path(str(keys_dir)) / "keyset.signed")
        )
        keys = read_keyset(found, read_public(root), environment=environment)
    except (KeyFileError, ValueError) as error:
        raise fail(str(error)) from error
    if isinstance(keys, Refusal):
        raise fail(f"the key set does not hold: {keys.detail}")
    return keys


HOUR_US = 3_600_000_000
FOREVER = "2100-01-01T00:00:00"
UNSIGNED = (
    "nobody signs ledger rows, nor when events were stored: nothing proves either, for they were "
    "not compared with JetStream: name --nats and --nats-user"
)
UNTIMED = "nobody signs when events were stored: nothing in an export proves it"
KeysDir = Annotated[
    Path | None, typer.Option(envvar="LICET_KEYS_DIR", help="Has keyset.signed and root.pub.")
]
RootKey = Annotated[Path | None, typer.Option(envvar="LICET_ROOT_KEY_FILE", help="Root public key.")]
EnvironmentName = Annotated[str, typer.Option(envvar="LICET_ENVIRONMENT", help="The environment.")]
TrustDomain = Annotated[str, typer.Option(envvar="LICET_TRUST_DOMAIN", help="SPIFFE trust domain.")]

NatsAuthority = Annotated[
    Path | None, typer.Option(envvar="LICET_NATS_CA_FILE", help="Whom its certificate comes from.")
]

Compared = Annotated[str, typer.Option(envvar="LICET_NATS_URL", help="Compare with what JetStream holds.")]
Patience = Annotated[
    float, typer.Option(min=0, help="Seconds to wait for a JetStream that is away, since it last answered.")
]
Late = Annotated[int, typer.Option("--late-hours", min=1, help="How long an event may wait in a spool.")]


def verify(
    *,
    bundle: Annotated[Path | None, typer.Option(help="Verify an export instead of the store.")] = None,
    anchors: Annotated[list[Path] | None, typer.Option(help="Export kept elsewhere; may repeat.")] = None,
    revoked: Annotated[list[str] | None, typer.Option(help="KEY=UNIX_MS: a key, and when it ended.")] = None,
    keys_dir: KeysDir = None,
    root_key: RootKey = None,
    environment: EnvironmentName = "dev",
    trust_domain: TrustDomain = "licet.local",
    nats: Compared = "",
    nats_user: Annotated[str, typer.Option(envvar="LICET_NATS_USER", help="Such as audit-writer.")] = "",
    nats_password_file: Annotated[
        Path | None, typer.Option(envvar="LICET_NATS_PASSWORD_FILE", help="File with its password.")
    ] = None,
    nats_ca_file: NatsAuthority = None,
    patience: Patience = 60,
    late_h: Late = 24,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Prove that the audit is what its sources wrote, or name what is not.

    Nobody signs a ledger's rows: --nats compares them with JetStream, as far back as that goes. A JetStream
    that is away is waited for; what could not be read is never called sound.

    Exit status: 0 sound, 3 something is wrong, 1 could not verify.
    """
    import asyncio
    import os

    from clickhouse_connect.driver.exceptions import Error

    from audit.proof import export
    from audit.proof.chain import Trust
    from audit.proof.verify import Scope, UnreadError, verify_rows, with_revocations
    from audit.proof.witness import verify_store
    from audit.settings import StoreSettings
    from audit.store.stored import House
    from licet.streams import NatsSettings, StreamsError

    try:
        ended = {name: int(at) * 1000 for name, _, at in (text.partition("=") for text in revoked or [])}
        kept = tuple(anchor for path in anchors or [] for anchor in export.read_anchors(path))
        read = export.read(bundle) if bundle is not None else None
        keys = _keyset(keys_dir, root_key, environment, read.keyset if read else None)
        kept += read.anchors if read else ()
        whose, trust = House(environment, trust_domain, keys), Trust(keys, ended)
        late_us, now_us = late_h * HOUR_US, wall_us()
        scope = Scope(whose, trust, now_us, kept, whole=read is None, late_us=late_us)
        if read is not None:
            report = verify_rows(read.rows, with_revocations(scope, read.rows))
            report.notes.append(UNTIMED)
        else:
            client = read_settings(StoreSettings).store().client()
            report = verify_store(client, scope, _progress)
            if nats and (nats_user or nats != os.environ.get("LICET_NATS_URL")):
                login = NatsSettings(nats, nats_user, nats_password_file, nats_ca_file)
                asyncio.run(_compare(client, login, environment, report, patience))
            else:
                report.notes.append(UNSIGNED)
    except (Error, StreamsError, UnreadError, export.ExportError, ValueError, OSError) as error:
        raise fail(str(error)) from error
    _show(report, as_json=as_json)
    if not report.sound:
        raise typer.Exit(3)


def _show(report: Any, *, as_json: bool) -> None:
    import json

    problems = [
        {"kind": str(one.kind), "where": one.where, "event_id": one.event_id, "detail": one.detail}
        for one in report.problems
    ]
    if as_json:
        names = ("sound", "rows", "runs", "found", "unsigned")
        summary = {name: getattr(report, name) for name in names}
        typer.echo(json.dumps({**summary, "problems": problems, "notes": report.notes}, indent=2))
    else:
        for note in report.notes:
            typer.echo(f"note: {note}", err=True)
        for problem in report.problems:
            typer.echo(str(problem))
        state = "sound" if report.sound else f"{report.found} problems"
        unsigned = f", {report.unsigned} of them under no signature" if report.unsigned else ""
        typer.echo(f"{state}: {report.rows} rows in {report.runs} runs{unsigned}", err=True)


async def _compare(client: Any, where: Any, environment: str, report: Any, patience: float) -> None:
    from audit.proof.asking_again import AskingAgain
    from audit.proof.origin import origin_problems
    from audit.proof.witness import SETTINGS

    def tell(text: str) -> None:
        typer.echo(text, err=True)

    origin = AskingAgain(where, "audit-verify", tell=tell, patience_s=patience)
    try:
        async for problem in origin_problems(origin, client, environment, dict(SETTINGS), report.notes):
            report.add([problem])
    finally:
        await origin.close()


def _progress(done: int, total: int) -> None:
    typer.echo(f"verified {done} of {total} rows", err=True)


def export_(
    *,
    out: Annotated[Path, typer.Option(help="File to write; must not exist.")],
    task: Annotated[str, typer.Option(help="Events of this task.")] = "",
    since: Annotated[str, typer.Option(help="Events stored since, such as 2026-11-29T20:00:00.")] = "",
    until: Annotated[str, typer.Option(help="With --since: events stored before.")] = "",
    only_anchors: Annotated[
        bool, typer.Option("--anchors", help="Only the last checkpoint of each run.")
    ] = False,
    keys_dir: KeysDir = None,
    environment: EnvironmentName = "dev",
) -> None:
    """Write events, their chains and the keys into one file that verifies offline.

    Keep one elsewhere: its checkpoints are the anchors that show a rewriting by whoever holds every key here.
    """
    from clickhouse_connect.driver.exceptions import Error

    from audit.proof import export
    from audit.settings import StoreSettings
    from audit.whole_file import new_file

    if keys_dir is None or (bool(task) + bool(since) + only_anchors) != 1 or (until and not since):
        raise fail("name --keys-dir, and one of --task, --since (and --until), --anchors")
    condition, given = (
        ("task_id = {task:String}", {"task": task})
        if task
        else (
            "js_time >= {since:DateTime64(6)} AND js_time < {until:DateTime64(6)}",
            {"since": since, "until": until or FOREVER},
        )
    )
    try:
        client = read_settings(StoreSettings).store().client()
        rows = [] if only_anchors else export.scope_rows(client, condition, given)
        if not rows and not only_anchors:
            raise fail("the store has no events of this scope")
        head = {
            "environment": environment,
            "exported_at_us": wall_us(),
            "task": task,
            "since": since,
            "until": until,
        }
        with new_file(out) as file:
            count = export.write(
                file, head, (keys_dir / "keyset.signed").read_bytes(), export.anchors(client), rows
            )
    except (Error, ValueError, OSError) as error:
        raise fail(str(error)) from error
    typer.echo(f"wrote {count} rows to {out}", err=True)
