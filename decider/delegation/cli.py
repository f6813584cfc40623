"""`licet delegations`: hand authority down, narrow it, take it back, show who has what from whom.

Works on the directory that a decider reads (LICET_DELEGATIONS_DIR). Data goes to stdout, talk to stderr. Exit
status: 0 done, 1 not done, 2 wrong usage. Keys are named by file.
"""

import json
import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from decider.catalog.cli import AsJson, Environment, fail
from decider.delegation.delegations import SUFFIX, Links, read_links, signed_chain
from decider.task.contract import AUTONOMY
from licet.delegation import Delegation, descendants, payload_of, read_chain
from licet.refusal import Refusal
from licet.statement import PayloadType, canonical

HOUR_MS: Final = 3_600_000
TAKEN_BACK: Final = "revoked"

app: Final = typer.Typer(
    no_args_is_help=True, help="Hand authority down and take it back.", pretty_exceptions_show_locals=False
)

Directory = Annotated[
    Path, typer.Option("--dir", envvar="LICET_DELEGATIONS_DIR", help="directory of signed delegations")
]
KeysDir = Annotated[
    Path, typer.Option(envvar="LICET_KEYS_DIR", help="directory with keyset.signed and root.pub")
]
Key = Annotated[Path, typer.Option(help="the delegator's key, or the issuer's for a first link")]
Many = list[str] | None


def _now_ms() -> int:
    from decider.clock import wall_ms

    return wall_ms()


def _keys(directory: Path, environment: str) -> Any:
    from licet.keyfile import KeyFileError, read_public, read_signed
    from licet.keys import read_keyset

    try:
        keys = read_keyset(
            read_signed(directory / "keyset.signed"),
            read_public(directory / "root.pub"),
            environment=environment,
        )
    except KeyFileError as error:
        fail(error)
    if isinstance(keys, Refusal):
        fail(f"{keys.reason}: {keys.detail}")
    return keys


def _money(limits: Many) -> dict[str, int]:
    """Read `USD:10000`, minor units."""
    found = {}
    for limit in limits or ():
        currency, colon, amount = limit.partition(":")
        if not colon or not amount.isdecimal() or not currency:
            fail(f"`{limit}` must be CURRENCY:MINOR_UNITS, such as `USD:10000`")
        found[currency] = int(amount)
    return found


def _write(link: Delegation, directory: Path, key: Path, keys: Any, above: Links) -> None:
    """Sign a link, check the whole chain as a decider will, and only then write it."""
    from licet.keyfile import KeyFileError, read_signing_key, write_new

    try:
        signed = read_signing_key(key).sign(PayloadType.DELEGATION, payload_of(link))
    except KeyFileError as error:
        fail(error)
    chain = signed_chain({**above, link.delegation_id: signed}, link.delegation_id)
    made = chain if isinstance(chain, Refusal) else read_chain(chain, keys, now_ms=_now_ms())
    if isinstance(made, Refusal):
        fail(f"not granted: {made.detail}")
    directory.mkdir(parents=True, exist_ok=True)
    write_new(directory / f"{link.delegation_id}{SUFFIX}", canonical(signed), 0o644)
    typer.echo(link.delegation_id)


@app.command()
def grant(
    *,
    directory: Directory,
    keys_dir: KeysDir,
    key: Key,
    environment: Environment,
    tenant: Annotated[str, typer.Option(help="the tenant")],
    delegator: Annotated[str, typer.Option("--from", help="the principal")],
    delegatee: Annotated[str, typer.Option("--to", help="the agent that receives")],
    method: Annotated[Many, typer.Option(help="full method path, or `*`")] = None,
    operation: Annotated[Many, typer.Option(help="operation, or `*`")] = None,
    resource: Annotated[Many, typer.Option(help="resource with all below it, or `*`")] = None,
    deny_resource: Annotated[Many, typer.Option(help="resource it is not for")] = None,
    max_cost: Annotated[Many, typer.Option(help="CURRENCY:MINOR_UNITS")] = None,
    max_tier: Annotated[int, typer.Option(min=0, max=5)] = 1,
    autonomy: Annotated[str, typer.Option(help=", ".join(AUTONOMY))] = "observe",
    max_calls: Annotated[int, typer.Option(min=1)] = 100,
    hours: Annotated[int, typer.Option(min=1, max=720)] = 1,
) -> None:
    """Sign a first link: from a person to an agent. Prints its id.

    What is not named is not granted: by default nothing but reading, for one hour.
    """
    if autonomy not in AUTONOMY:
        fail(f"`{autonomy}` must be one of {', '.join(AUTONOMY)}")
    now_ms = _now_ms()
    link = Delegation(
        delegation_id=secrets.token_hex(16),
        parent_id="",
        parent_sha256=b"",
        depth=1,
        tenant=tenant,
        delegator=delegator,
        delegatee=delegatee,
        issued_at_ms=now_ms,
        not_after_ms=now_ms + hours * HOUR_MS,
        environments=frozenset({environment}),
        methods=frozenset(method or ()),
        operations=frozenset(operation or ()),
        resources=frozenset(resource or ()),
        max_tier=max_tier,
        autonomy_max=AUTONOMY[autonomy],
        max_calls=max_calls,
        max_cost=_money(max_cost),
        denied_resources=frozenset(deny_resource or ()),
    )
    _write(link, directory, key, _keys(keys_dir, environment), {})


@app.command()
def narrow(
    parent: Annotated[str, typer.Argument(help="id of the link it hangs on")],
    *,
    directory: Directory,
    keys_dir: KeysDir,
    key: Key,
    environment: Environment,
    delegatee: Annotated[str, typer.Option("--to", help="the agent that receives")],
    method: Annotated[Many, typer.Option(help="fewer methods; left out: the parent's")] = None,
    operation: Annotated[Many, typer.Option(help="fewer operations")] = None,
    resource: Annotated[Many, typer.Option(help="fewer resources")] = None,
    deny_resource: Annotated[Many, typer.Option(help="more resources it is not for")] = None,
    max_cost: Annotated[Many, typer.Option(help="CURRENCY:MINOR_UNITS, less")] = None,
    max_tier: Annotated[int | None, typer.Option(min=0, max=5)] = None,
    max_calls: Annotated[int | None, typer.Option(min=1)] = None,
    hours: Annotated[int | None, typer.Option(min=1, max=720)] = None,
) -> None:
    """Sign a link below another: never wider. Prints its id; what is left out is the parent's."""
    keys = _keys(keys_dir, environment)
    links, _ = read_links(directory)
    signed = signed_chain(links, parent)
    chain = signed if isinstance(signed, Refusal) else read_chain(signed, keys, now_ms=_now_ms())
    if isinstance(chain, Refusal):
        fail(f"the parent is no delegation that holds: {chain.detail}")
    last, now_ms = chain.links[-1], _now_ms()
    above = last.delegation
    child = replace(
        above,
        delegation_id=secrets.token_hex(16),
        parent_id=above.delegation_id,
        parent_sha256=last.sha256,
        depth=above.depth + 1,
        delegator=above.delegatee,
        delegatee=delegatee,
        issued_at_ms=now_ms,
        not_after_ms=above.not_after_ms if hours is None else now_ms + hours * HOUR_MS,
        methods=above.methods if method is None else frozenset(method),
        operations=above.operations if operation is None else frozenset(operation),
        resources=above.resources if resource is None else frozenset(resource),
        max_tier=above.max_tier if max_tier is None else max_tier,
        max_calls=above.max_calls if max_calls is None else max_calls,
        max_cost=above.max_cost if max_cost is None else _money(max_cost),
        denied_resources=above.denied_resources | frozenset(deny_resource or ()),
    )
    _write(child, directory, key, keys, links)


def _parents(links: Links) -> dict[str, str]:
    from licet.v1 import delegation_pb2

    return {
        name: delegation_pb2.Delegation.FromString(signed.payload).parent_id for name, signed in links.items()
    }


@app.command()
def revoke(
    delegation: Annotated[str, typer.Argument(help="id of the link")],
    directory: Directory,
) -> None:
    """Take a link and everything below it out of the registry; prints the ids.

    Deciders stop at once. For permits that are out already, at most a minute, put the ids on the revocation
    list too. The files are kept in `revoked/`.
    """
    links, _ = read_links(directory)
    if delegation not in links:
        fail(f"delegation `{delegation}` is not in `{directory}`")
    kept = directory / TAKEN_BACK
    kept.mkdir(exist_ok=True)
    for name in (delegation, *descendants(delegation, _parents(links))):
        (directory / f"{name}{SUFFIX}").rename(kept / f"{name}{SUFFIX}")
        typer.echo(name)


@app.command()
def show(directory: Directory, keys_dir: KeysDir, environment: Environment, as_json: AsJson = False) -> None:
    """Show the tree: who has what from whom, and which links do not hold."""
    keys = _keys(keys_dir, environment)
    links, faults = read_links(directory)
    rows = [_row(name, links, keys) for name in _in_order(_parents(links))]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    else:
        for row in rows:
            indent = "  " * (row["depth"] - 1)
            state = row["refused"] or f"tier ≤ {row['max_tier']}, {', '.join(row['operations'])}"
            typer.echo(f"{indent}{row['id']}  {row['from']} → {row['to']}  {state}")
    for fault in faults:
        typer.echo(fault, err=True)


def _in_order(parents: dict[str, str]) -> Iterator[str]:
    """Yield each id after its parent, depth first; what hangs on nothing that is there comes first of all."""
    waiting = sorted((name for name, parent in parents.items() if parent not in parents), reverse=True)
    while waiting:
        name = waiting.pop()
        yield name
        waiting.extend(sorted((child for child, parent in parents.items() if parent == name), reverse=True))


def _row(name: str, links: Links, keys: Any) -> dict[str, Any]:
    from licet.v1 import delegation_pb2

    link = delegation_pb2.Delegation.FromString(links[name].payload)
    signed = signed_chain(links, name)
    chain = signed if isinstance(signed, Refusal) else read_chain(signed, keys, now_ms=_now_ms())
    over = link.not_after_ms <= _now_ms()
    refused = chain.detail if isinstance(chain, Refusal) else ("it is over" if over else "")
    return {
        "id": name,
        "parent": link.parent_id,
        "depth": max(1, link.depth),
        "from": link.delegator,
        "to": link.delegatee,
        "tenant": link.tenant,
        "methods": list(link.methods),
        "operations": list(link.operations),
        "resources": list(link.resources),
        "max_tier": link.max_tier,
        "not_after_ms": link.not_after_ms,
        "refused": refused,
    }
