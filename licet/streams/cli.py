"""`licet streams`: makes the streams of an environment what they must be, and says what is not."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final, TypeVar

import typer

from licet.streams.connection import Connection, NatsSettings, connect
from licet.streams.errors import StreamsError
from licet.streams.reconcile import Applied, apply_streams, check_streams
from licet.streams.settings import DAY_S, MIB, StreamSizes

T = TypeVar("T")

DEFAULTS: Final = StreamSizes()

app: Final = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    help="The JetStream streams of an environment.",
)

Url = Annotated[
    str, typer.Option("--nats-url", envvar="LICET_NATS_URL", help="nats://host:port, several by commas.")
]
User = Annotated[
    str, typer.Option("--nats-user", envvar="LICET_NATS_USER", help="A user that may change streams.")
]
Password = Annotated[
    Path | None, typer.Option("--nats-password-file", envvar="LICET_NATS_PASSWORD_FILE", help="Its password.")
]
Authority = Annotated[
    Path | None, typer.Option("--nats-ca-file", envvar="LICET_NATS_CA_FILE", help="For TLS.")
]
Environment = Annotated[
    str, typer.Option("--environment", envvar="LICET_ENVIRONMENT", help="The environment.")
]
Replicas = Annotated[int, typer.Option(min=1, max=5, help="Copies of each stream: 3 in production.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def apply(
    *,
    environment: Environment,
    nats_url: Url,
    nats_user: User = "setup",
    nats_password_file: Password = None,
    nats_ca_file: Authority = None,
    replicas: Replicas = 1,
    spend_mib: Annotated[int, typer.Option(min=1, help="Room for spends.")] = DEFAULTS.spend_bytes // MIB,
    spend_log_mib: Annotated[
        int, typer.Option(min=1, help="Room for the spend log.")
    ] = DEFAULTS.spend_log_bytes // MIB,
    audit_mib: Annotated[int, typer.Option(min=1, help="Room for events.")] = DEFAULTS.audit_bytes // MIB,
    ledger_mib: Annotated[int, typer.Option(min=1, help="Room for ledger changes.")] = DEFAULTS.ledger_bytes
    // MIB,
    payload_mib: Annotated[
        int, typer.Option(min=1, help="Room for sealed payloads.")
    ] = DEFAULTS.payload_bytes // MIB,
    config_mib: Annotated[int, typer.Option(min=1, help="Room for configuration.")] = DEFAULTS.config_bytes
    // MIB,
    budget_mib: Annotated[int, typer.Option(min=1, help="Room for budgets.")] = DEFAULTS.budget_bytes // MIB,
    kept_days: Annotated[int, typer.Option(min=1, help="Days until copied messages go.")] = DEFAULTS.kept_s
    // DAY_S,
    as_json: AsJson = False,
) -> None:
    """Create what is missing and repair what is unsafe; a second run changes nothing.

    Nothing stored is ever deleted by it: a change that would lose messages is refused.
    """
    sizes = StreamSizes(
        spend_bytes=spend_mib * MIB,
        spend_log_bytes=spend_log_mib * MIB,
        audit_bytes=audit_mib * MIB,
        ledger_bytes=ledger_mib * MIB,
        config_bytes=config_mib * MIB,
        payload_bytes=payload_mib * MIB,
        budget_bytes=budget_mib * MIB,
        kept_s=kept_days * DAY_S,
    )
    settings = NatsSettings(nats_url, nats_user, nats_password_file, nats_ca_file)
    done = _run(settings, lambda nc: apply_streams(nc, environment, replicas=replicas, sizes=sizes))
    if as_json:
        typer.echo(json.dumps([asdict(one) for one in done], indent=2))
        return
    for one in done:
        typer.echo(f"{one.action:9}  {one.stream}")
        for problem in one.repaired:
            typer.echo(
                f"           was unsafe: {problem.setting} was `{problem.found}`, is `{problem.wanted}`"
            )
    if _spends_were_unsafe(done):
        typer.echo("the spend stream was unsafe: bump the generation, spends may have gone", err=True)


@app.command()
def check(
    *,
    environment: Environment,
    nats_url: Url,
    nats_user: User = "setup",
    nats_password_file: Password = None,
    nats_ca_file: Authority = None,
    replicas: Replicas = 1,
    as_json: AsJson = False,
) -> None:
    """Name every unsafe setting; exit status 1 when there is one."""
    settings = NatsSettings(nats_url, nats_user, nats_password_file, nats_ca_file)
    found = _run(settings, lambda nc: check_streams(nc, environment, replicas=replicas))
    if as_json:
        typer.echo(json.dumps([asdict(problem) for problem in found], indent=2))
    else:
        typer.echo("\n".join(str(problem) for problem in found) or f"the streams of `{environment}` are safe")
    if found:
        raise typer.Exit(1)


@app.command()
def accounts(
    *,
    environment: Environment,
    tool: Annotated[list[str], typer.Option(help="A tool's name; may be given several times.")],
    passwords: Annotated[Path, typer.Option(help="Directory of password files; missing ones are made.")],
    out: Annotated[
        Path, typer.Option(help="File to write, for an `include` in nats-server's configuration.")
    ],
) -> None:
    """Write the accounts of an environment: the hub's, and one for each tool.

    The file holds passwords: its mode is 0600. Add a tool by running it again and reloading the server.
    """
    from licet.embedded.nats_accounts import accounts as block
    from licet.embedded.nats_accounts import users
    from licet.embedded.nats_server import make_password, write_private

    try:
        passwords.mkdir(parents=True, exist_ok=True, mode=0o700)
        secrets = {}
        for user in users(tool):
            file = passwords / f"{user}.password"
            make_password(file)
            secrets[user] = file.read_text("utf-8").strip()
        write_private(out, json.dumps({"accounts": block(environment, tool, secrets)}, indent=2))
    except (OSError, ValueError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error
    typer.echo(f"{len(secrets)} users in {len(tool) + 1} accounts written to {out}", err=True)


def _spends_were_unsafe(done: tuple[Applied, ...]) -> bool:
    return any(one.repaired and one.stream.startswith("LICET_SPEND_") for one in done)


def _run(settings: NatsSettings, work: Callable[[Connection], Awaitable[tuple[T, ...]]]) -> tuple[T, ...]:
    async def connected() -> tuple[T, ...]:
        nc = await connect(settings, "licet-streams", forever=False)
        try:
            return await work(nc)
        finally:
            await nc.close()

    try:
        return asyncio.run(connected())
    except (StreamsError, OSError, ValueError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error
