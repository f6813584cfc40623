"""`licet policy revoke`, `revocations`, `keyset`, `generation`: changes of what is in force without a bundle.

Data goes to stdout, talk to stderr. Exit status: 0 done, 1 not done, 2 wrong usage. Keys are named by file.
"""

import asyncio
import json
from collections.abc import Coroutine
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from decider.catalog.cli import AsJson, Environment, TrustDomain, fail, write
from decider.policy.cli import NatsAuthority, NatsPassword, NatsUrl, NatsUser, policy_app

RootKey = Annotated[Path, typer.Option(envvar="LICET_ROOT_KEY_FILE", help="public root key")]
KeysDir = Annotated[Path, typer.Option(envvar="LICET_KEYS_DIR", help="directory with decider.key")]

__all__ = ["policy_app"]


class Kind(StrEnum):
    """What can be revoked."""

    KEY = "key"
    DECISION = "decision"
    TASK = "task"
    AGENT = "agent"
    PRINCIPAL = "principal"
    DELEGATION = "delegation"
    TOOL = "tool"
    ENVIRONMENT = "environment"


Lifted = Annotated[
    list[str] | None,
    typer.Option("--lift", help="KIND:ID that is revoked no more; may be given several times"),
]
SIGNING: Final = "decider.key"


def place_of(environment: str, root: Path, nats: tuple[str, str, Path | None, Path | None]) -> Any:
    from decider.in_force.change import Place
    from licet.streams import NatsSettings

    return Place(environment, root, NatsSettings(*nats))


def run(work: Coroutine[Any, Any, Any]) -> Any:
    from decider.in_force.activate import ActivationError
    from licet.streams import StreamsError

    try:
        return asyncio.run(work)
    except (ActivationError, StreamsError) as error:
        fail(error)


def _key(directory: Path) -> Any:
    from licet.keyfile import KeyFileError, read_signing_key

    try:
        return read_signing_key(directory / SIGNING)
    except KeyFileError as error:
        fail(error)


def _name(kind: Kind, name: str, environment: str, trust_domain: str) -> tuple[Any, str]:
    """Return what the list calls a thing: a tool by its audience, the environment by its own name."""
    from licet.identity import audience_of
    from licet.revocation import RevocationKind

    if kind is Kind.TOOL:
        try:
            name = audience_of(trust_domain, environment, name)
        except ValueError as error:
            fail(error)
    if kind is Kind.ENVIRONMENT and name != environment:
        fail(f"this is environment `{environment}`, not `{name}`")
    if not name:
        fail("name what is to be revoked")
    return RevocationKind(kind.value.upper()), name


@policy_app.command("revoke")
def revoke(
    kind: Annotated[Kind, typer.Argument(help="what kind of thing")],
    names: Annotated[list[str], typer.Argument(help="its id; a tool's or the environment's name")],
    *,
    keys_dir: KeysDir,
    root_key_file: RootKey,
    environment: Environment,
    nats_url: NatsUrl,
    nats_user: NatsUser = "",
    nats_password_file: NatsPassword = None,
    nats_ca_file: NatsAuthority = None,
    trust_domain: TrustDomain = "licet.local",
    keep: Annotated[Path | None, typer.Option(help="write the signed list here too")] = None,
) -> None:
    """Revoke a key, decision, task, agent, principal, delegation or tool, or stop the environment.

    Doors refuse what rests on it from the next beacon on, permits in hand too. Nothing is taken back within a
    generation; `licet policy generation --lift` ends a revocation.

    Examples:
        licet policy revoke agent refund-bot
        licet policy revoke environment prod
    """
    from decider.in_force import change

    place = place_of(environment, root_key_file, (nats_url, nats_user, nats_password_file, nats_ca_file))
    revoked = [_name(kind, name, environment, trust_domain) for name in names]
    said, signed = run(change.revoke(place, revoked, _key(keys_dir)))
    if keep is not None and signed is not None:
        from licet.statement import canonical

        write(keep, canonical(signed))
    typer.echo(said, err=True)


@policy_app.command("revocations")
def revocations(
    *,
    root_key_file: RootKey,
    environment: Environment,
    nats_url: NatsUrl,
    nats_user: NatsUser = "",
    nats_password_file: NatsPassword = None,
    nats_ca_file: NatsAuthority = None,
    as_json: AsJson = False,
) -> None:
    """Show what is revoked."""
    from decider.in_force import change
    from licet.v1.keys_pb2 import RevocationKind

    place = place_of(environment, root_key_file, (nats_url, nats_user, nats_password_file, nats_ca_file))
    listed = run(change.revoked_now(place))
    rows = [
        {
            "kind": RevocationKind.Name(entry.kind).removeprefix("REVOCATION_KIND_").lower(),
            "id": entry.id,
            "revoked_at_ms": entry.revoked_at_ms,
        }
        for entry in listed.revocations
    ]
    if as_json:
        typer.echo(json.dumps({"revocations_seq": listed.revocations_seq, "revocations": rows}, indent=2))
        return
    if not rows:
        typer.echo(f"nothing is revoked in `{environment}`", err=True)
    for row in rows:
        typer.echo(f"{row['kind']:<12} {row['id']}")


@policy_app.command("keyset")
def keyset(
    *,
    keys_dir: Annotated[Path, typer.Option(envvar="LICET_KEYS_DIR", help="directory with keyset.signed")],
    root_key_file: RootKey,
    environment: Environment,
    nats_url: NatsUrl,
    nats_user: NatsUser = "",
    nats_password_file: NatsPassword = None,
    nats_ca_file: NatsAuthority = None,
) -> None:
    """Put a new key set in force, as `licet keys rotate` writes it; the bundle stays."""
    from decider.in_force import change

    place = place_of(environment, root_key_file, (nats_url, nats_user, nats_password_file, nats_ca_file))
    typer.echo(run(change.put_keyset(place, keys_dir / "keyset.signed")), err=True)


@policy_app.command("generation")
def generation(
    *,
    keys_dir: KeysDir,
    root_key_file: RootKey,
    environment: Environment,
    nats_url: NatsUrl,
    nats_user: NatsUser = "",
    nats_password_file: NatsPassword = None,
    nats_ca_file: NatsAuthority = None,
    trust_domain: TrustDomain = "licet.local",
    number: Annotated[
        int | None, typer.Option("--to", min=2, help="the generation; default: the next")
    ] = None,
    lift: Lifted = None,
    kept: Annotated[
        Path | None,
        typer.Option("--revocations", help="list that `revoke --keep` wrote; its entries are taken in"),
    ] = None,
) -> None:
    """Begin a new generation of the stores, after NATS was restored or to lift a revocation.

    Every permit, hold and approval of the last generation is void. Tools need digest keys of the new one:
    `licet keys generation`.
    """
    from decider.in_force import change

    place = place_of(environment, root_key_file, (nats_url, nats_user, nats_password_file, nats_ca_file))
    lifted = []
    for text in lift or ():
        name, colon, rest = text.partition(":")
        if name not in {one.value for one in Kind} or not colon:
            raise typer.BadParameter(f"`{text}` is not KIND:ID", param_hint="--lift")
        lifted.append(_name(Kind(name), rest, environment, trust_domain))
    work = change.begin_generation(place, number, _key(keys_dir), lifted=lifted, kept=kept)
    typer.echo(run(work), err=True)
