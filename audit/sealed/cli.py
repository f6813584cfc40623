"""`licet audit open`, `inputs` and `shred`: sealed payloads, for whoever holds a tenant's private key."""

from pathlib import Path
from typing import Annotated, Any

import typer

from audit.cli_settings import fail, read_settings

PayloadKeys = Annotated[
    Path,
    typer.Option(
        "--payload-keys",
        envvar="LICET_PAYLOAD_KEYS_DIR",
        help="Directory of payload keys, <key id>.key each.",
    ),
]


def open_(
    event: Annotated[str, typer.Argument(help="Event id, or decision id.")],
    payload_keys: PayloadKeys,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Open the sealed payload of an event: what the decision rested on, arguments and facts in clear.

    Exit status: 0, 1 there is none or it cannot be opened.

    Example: licet audit open 0192f0c4a8d17d3e8f5a6b7c8d9e0f1a --payload-keys /media/t1
    """
    from clickhouse_connect.driver.exceptions import Error

    from audit.sealed.opened import input_json, input_text
    from audit.sealed.opener import PayloadError, carriers, open_payload, secrets_in
    from audit.settings import StoreSettings
    from licet.keyfile import KeyFileError

    try:
        client = read_settings(StoreSettings).store().client()
        condition = "(event_id = {id:String} OR decision_id = {id:String})"
        found = carriers(client, condition, {"id": event})
        if not found:
            raise fail(f"no event `{event}` carries a payload; its tenant may have no payload key")
        opened = open_payload(client, found[-1], secrets_in(payload_keys))
    except (Error, PayloadError, KeyFileError, OSError) as error:
        raise fail(str(error)) from error
    typer.echo(input_json(opened) if as_json else input_text(opened))


def inputs(
    *,
    out: Annotated[Path, typer.Option(help="File to write, mode 0600; must not exist.")],
    payload_keys: PayloadKeys,
    task: Annotated[str, typer.Option(help="Of this task.")] = "",
    tenant: Annotated[str, typer.Option(help="Of this tenant.")] = "",
    since: Annotated[str, typer.Option(help="Stored since, such as 2026-11-29T20:00:00.")] = "",
) -> None:
    """Write decision inputs in clear, one JSON object a line: what rules can be tried again on.

    Exit status: 0, 1 none could be opened, 3 some could not and are named.
    """
    from clickhouse_connect.driver.exceptions import Error

    from audit.sealed import opener
    from audit.sealed.opened import input_json
    from audit.settings import StoreSettings
    from audit.whole_file import new_file
    from licet.keyfile import SECRET_MODE, KeyFileError

    given: dict[str, Any] = {"task": task, "tenant": tenant, "since": since or "1970-01-01T00:00:00"}
    condition = (
        "({task:String} = '' OR task_id = {task:String})"
        " AND ({tenant:String} = '' OR tenant = {tenant:String}) AND js_time >= {since:DateTime64(6)}"
    )
    skipped: list[str] = []
    count = 0
    try:
        client = read_settings(StoreSettings).store().client()
        found = opener.carriers(client, condition, given)
        with new_file(out, SECRET_MODE) as file:
            for one in opener.inputs(client, found, opener.secrets_in(payload_keys), skipped):
                file.write(input_json(one) + "\n")
                count += 1
    except (Error, KeyFileError, OSError) as error:
        raise fail(str(error)) from error
    for line in skipped:
        typer.echo(line, err=True)
    typer.echo(
        f"wrote {count} decision inputs to {out}, in clear; {len(skipped)} could not be opened", err=True
    )
    if not count:
        raise typer.Exit(1)
    if skipped or len(found) >= opener.MAX_EVENTS:
        raise typer.Exit(3)


def shred(
    tenant: Annotated[str, typer.Argument(help="The tenant.")],
    payload_keys: PayloadKeys,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do it; without, only say what would be destroyed.")
    ] = False,
) -> None:
    """Destroy a tenant's payload keys, for ever: what was sealed under them opens for nobody, in backups too.

    The record stays whole and verifies. Settings come from LICET_ variables: those of `reconcile`, of which
    NATS_…, KEYS_DIR and CHECKPOINT_KEY_FILE are used. Revoke them afterwards (`licet policy revoke key`),
    or payloads go on being sealed under a key that nobody has.
    """
    import asyncio

    from audit.sealed.shred import ShredError, destroy, doomed
    from audit.settings import AuditSettings
    from licet.journal import SpoolError
    from licet.keyfile import KeyFileError
    from licet.streams import StreamsError

    settings = read_settings(AuditSettings)
    try:
        found = doomed(_keys_of(settings), payload_keys, tenant)
        names = ", ".join(f"`{path}`" for path in found.files)
        if not yes:
            typer.echo(f"would destroy {names}: what was sealed under them opens for nobody, ever", err=True)
            typer.echo("there is no way back; add --yes", err=True)
            return
        asyncio.run(_record(settings, found))
        destroy(found.files)
    except (ShredError, KeyFileError, StreamsError, SpoolError, OSError) as error:
        raise fail(str(error)) from error
    typer.echo(
        f"destroyed {names}; destroy every copy, and revoke the keys: licet policy revoke key", err=True
    )


def _keys_of(settings: Any) -> Any:
    from audit.run import keyring

    keys = keyring(settings)
    found = keys.current() if keys else None
    if found is None:
        raise fail("LICET_KEYS_DIR names no key set that the root signed")
    return found


async def _record(settings: Any, found: Any) -> None:
    from audit.run import nats_settings
    from audit.sealed.shred import record
    from licet.identity import reconciler_id
    from licet.keyfile import read_signing_key
    from licet.streams import connect

    if settings.checkpoint_key_file is None:
        raise fail("LICET_CHECKPOINT_KEY_FILE is missing: it signs the record")
    source = reconciler_id(settings.trust_domain, settings.environment)
    nc = await connect(nats_settings(settings), "audit-shred", forever=False)
    try:
        await record(nc, settings.environment, source, read_signing_key(settings.checkpoint_key_file), found)
    finally:
        await nc.close()
