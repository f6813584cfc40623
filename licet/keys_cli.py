"""`licet keys`: makes keys, takes the next in the place of one, shows and checks them; prints no secret."""

import json
import time
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from licet.clock import wall_ms
from licet.identity import TRUST_DOMAIN_DEV
from licet.keyfile import SUFFIX, KeyFileError, read_public, read_signed, read_signing_key
from licet.keys import KeySet, PublicKey, read_keyset
from licet.refusal import Refusal
from licet.streams.settings import DAY_S

KEYSET: Final = "keyset.signed"
OVERLAP_H: Final = 48
SOON_MS: Final = 30 * DAY_S * 1_000
"""A key that ends within 30 days is named."""

app: Final = typer.Typer(no_args_is_help=True, pretty_exceptions_show_locals=False, help="Keys and key sets.")

Directory = Annotated[
    Path, typer.Option("--keys-dir", envvar="LICET_KEYS_DIR", help="Where the key files are.")
]
Environment = Annotated[
    str, typer.Option("--environment", envvar="LICET_ENVIRONMENT", help="The environment.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def dev(
    *,
    keys_dir: Directory,
    environment: Environment = "dev",
    tool: Annotated[list[str] | None, typer.Option(help="A tool's name; may be given several times.")] = None,
    agent: Annotated[list[str] | None, typer.Option(help="An agent's name; as above.")] = None,
    tenant: Annotated[
        list[str] | None, typer.Option(help="A tenant's name, for its payload key; as above.")
    ] = None,
    trust_domain: Annotated[str, typer.Option(envvar="LICET_TRUST_DOMAIN")] = TRUST_DOMAIN_DEV,
) -> None:
    """Make every key of an environment for development; what is there already stays.

    The root key lies beside all others: never use this directory for anything real.
    """
    from licet.embedded.dev_keys import make_dev_keys

    try:
        keys = make_dev_keys(
            keys_dir, environment, tool or (), agent or (), trust_domain, tenants=tenant or ()
        )
    except (KeyFileError, ValueError, OSError) as error:
        raise _failed(error) from error
    typer.echo(f"key set {keys.version} of `{environment}` with {len(keys.keys)} keys in {keys_dir}")
    typer.echo("development only: the root key lies beside all others", err=True)


@app.command("user-token")
def user_token(
    principal: Annotated[str, typer.Argument(help="Whom the token is for, as tasks name them.")],
    keys_dir: Directory,
    hours: Annotated[int, typer.Option(min=1, max=24, help="How long it lives.")] = 1,
) -> None:
    """Print a user token of the development issuer whose key is in the directory."""
    from licet.embedded.dev_issuer import dev_token

    try:
        typer.echo(dev_token(keys_dir, principal, hours=hours))
    except KeyFileError as error:
        raise _failed(error) from error


@app.command()
def rotate(
    name: Annotated[str, typer.Argument(help="The key file's name without `.key`, such as decider.")],
    keys_dir: Directory,
    environment: Environment,
    overlap_hours: Annotated[
        int, typer.Option(min=0, max=8_760, help="How long the current key stays good beside the next.")
    ] = OVERLAP_H,
) -> None:
    """Make the next key in the place of a current one, and a key set with both. Needs root.key.

    Example:
        licet keys rotate decider --keys-dir keys --environment prod
    """
    from licet.embedded.rotation import rotate as next_key

    try:
        old, new, keys = next_key(keys_dir, environment, name, overlap_h=overlap_hours)
    except (KeyFileError, ValueError, OSError) as error:
        raise _failed(error) from error
    typer.echo(f"key set {keys.version}: `{old}` until {_day(keys.keys[old].not_after_ms)}, then `{new}`")
    typer.echo(
        "next: `licet policy keyset` puts the set in force; then give the process its new file", err=True
    )


@app.command()
def generation(
    number: Annotated[int, typer.Argument(min=1, help="The generation that the keys are for.")],
    keys_dir: Directory,
    environment: Environment,
    tool: Annotated[list[str], typer.Option(help="A tool's name; may be given several times.")],
    trust_domain: Annotated[str, typer.Option(envvar="LICET_TRUST_DOMAIN")] = TRUST_DOMAIN_DEV,
) -> None:
    """Write the tools' digest keys of a generation of the stores. Needs master.key.

    Example:
        licet keys generation 2 --keys-dir keys --environment prod --tool finance --trust-domain example.org
    """
    from licet.embedded.rotation import derive_tool_keys

    try:
        written = derive_tool_keys(keys_dir, environment, tool, trust_domain, number)
    except (KeyFileError, ValueError, OSError) as error:
        raise _failed(error) from error
    for path in written:
        typer.echo(f"{path}: generation {number}")
    typer.echo("next: replace each tool's Secret, and set `generation` in its chart", err=True)


@app.command()
def show(keys_dir: Directory, environment: Environment = "dev", as_json: AsJson = False) -> None:
    """List the public keys of the key set in the directory."""
    keys = _keyset(keys_dir, environment)
    listed = [_row(keys.keys[key_id]) for key_id in sorted(keys.keys)]
    if as_json:
        shown = {"environment": keys.environment, "version": keys.version, "keys": listed}
        typer.echo(json.dumps(shown, indent=2))
        return
    typer.echo(f"key set {keys.version} of `{keys.environment}`")
    for row in listed:
        typer.echo(f"{row['key_id']:32.32} {row['role']:10} until {row['until']}  {row['owner']}")


@app.command()
def check(keys_dir: Directory, environment: Environment = "dev", as_json: AsJson = False) -> None:
    """Check that the key set is the root's, and that every key file fits it; exit status 1 if not."""
    found = _problems(keys_dir, _keyset(keys_dir, environment))
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    else:
        typer.echo("\n".join(found) or f"every key file in {keys_dir} fits the key set")
    if found:
        raise typer.Exit(1)


def _problems(directory: Path, keys: KeySet) -> list[str]:
    found, now = [], wall_ms()
    for path in sorted(directory.glob(f"*{SUFFIX}")):
        try:
            held = read_signing_key(path)
            key = keys.keys.get(held.key_id)
            if key is not None and held.public_key != key.public_key:
                found.append(f"`{path}` is not the private half of key `{key.key_id}`")
        except KeyFileError as error:
            found.append(str(error))
    for key in keys.keys.values():
        if _followed(key, keys, now):
            continue  # it was rotated
        if not key.not_before_ms <= now < key.not_after_ms:
            found.append(f"key `{key.key_id}` is outside its validity")
        elif key.not_after_ms - now < SOON_MS:
            found.append(f"key `{key.key_id}` ends {_day(key.not_after_ms)}")
    return found


def _followed(key: PublicKey, keys: KeySet, now_ms: int) -> bool:
    """Whether another key that is good now does the same and lasts longer."""
    return any(
        (one.role, one.owner, one.audience) == (key.role, key.owner, key.audience)
        and one.not_before_ms <= now_ms
        and one.not_after_ms - now_ms >= SOON_MS
        for one in keys.keys.values()
        if one.key_id != key.key_id
    )


def _keyset(directory: Path, environment: str) -> KeySet:
    try:
        signed, root = read_signed(directory / KEYSET), read_public(directory / "root.pub")
    except KeyFileError as error:
        raise _failed(error) from error
    keys = read_keyset(signed, root, environment=environment)
    if isinstance(keys, Refusal):
        raise _failed(f"`{directory / KEYSET}`: {keys.detail}")
    return keys


def _row(key: PublicKey) -> dict[str, Any]:
    return {
        "key_id": key.key_id,
        "role": str(key.role),
        "owner": key.owner,
        "audience": key.audience,
        "approver_roles": list(key.approver_roles),
        "public_key": key.public_key.hex(),
        "until": _day(key.not_after_ms),
    }


def _day(ms: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(ms / 1_000))


def _failed(error: object) -> typer.Exit:
    typer.echo(f"error: {error}", err=True)
    return typer.Exit(1)
