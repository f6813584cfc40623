"""`licet delegations`: hand authority down, narrow it, take it back, show who has what from whom.

Works on the registry in JetStream that all deciders read. Data goes to stdout, talk to stderr. Exit status:
0 done, 1 not done, 2 wrong usage. Keys are named by file.
"""

import json
import re
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer

from decider.catalog.cli import AsJson, Environment, fail
from decider.delegation.delegations import Registry, SignedChain, parent_of, put_link, put_revoked
from decider.identifiers import misleads, printable
from decider.policy.cli import NatsAuthority, NatsPassword, NatsUrl, NatsUser
from decider.task.contract import AUTONOMY
from licet.delegation import MAX_DEPTH, Delegation, payload_of, read_chain
from licet.refusal import Refusal
from licet.statement import PayloadType
from licet.v1.statement_pb2 import Signed

HOUR_MS: Final = 3_600_000
MAX_AMOUNT: Final = (1 << 63) - 1
_AMOUNT: Final = re.compile(r"[0-9]{1,20}")

app: Final = typer.Typer(
    no_args_is_help=True, help="Hand authority down and take it back.", pretty_exceptions_show_locals=False
)

KeysDir = Annotated[
    Path, typer.Option(envvar="LICET_KEYS_DIR", help="directory with keyset.signed and root.pub")
]
Key = Annotated[Path, typer.Option(help="the delegator's key, or the issuer's for a first link")]
Many = list[str] | None
T = TypeVar("T")
Nats = tuple[str, str, Path | None, Path | None]


def _now_ms() -> int:
    from licet.clock import wall_ms

    return wall_ms()


def _at_registry(nats: Nats, environment: str, work: Callable[[Registry, Any], Awaitable[T]]) -> T:
    """Do `work` with the registry and a publisher; ends where NATS does not answer or says no."""
    from decider.in_force.change_cli import run
    from licet.streams import NatsSettings, Publisher, connect

    async def done() -> T:
        nc = await connect(NatsSettings(*nats), "licet-delegations")
        try:
            return await work(Registry(nc, environment), await Publisher.open(nc))
        finally:
            await nc.close()

    found: T = run(done())
    return found


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
        if not colon or not _AMOUNT.fullmatch(amount) or not currency:
            fail(f"`{limit}` must be CURRENCY:MINOR_UNITS, such as `USD:10000`")
        if int(amount) > MAX_AMOUNT:
            fail(f"`{limit}`: at most {MAX_AMOUNT} minor units")
        found[currency] = int(amount)
    return found


def _names(link: Delegation) -> tuple[str, ...]:
    """Return every name that a person will read in the tree, or a decider compare."""
    scopes = link.methods, link.operations, link.resources, link.denied_resources, link.max_cost
    return link.tenant, link.delegator, link.delegatee, *(name for scope in scopes for name in sorted(scope))


def _signed(link: Delegation, key: Path, keys: Any, above: tuple[Signed, ...]) -> Signed:
    """Sign a link whose names are each one person's to read, and check the whole chain as a decider will."""
    from licet.keyfile import KeyFileError, read_signing_key

    for name in _names(link):
        if misleads(name):
            fail(f"not granted: {name!a}: {misleads(name)}")
    try:
        signed = read_signing_key(key).sign(PayloadType.DELEGATION, payload_of(link))
    except KeyFileError as error:
        fail(error)
    made = read_chain((*above, signed), keys, now_ms=_now_ms())
    if isinstance(made, Refusal):
        fail(f"not granted: {made.detail}")
    return signed


def _store(link: Delegation, signed: Signed, nats: Nats, environment: str) -> None:
    async def put(_registry: Registry, publisher: Any) -> bool:
        return await put_link(publisher, environment, link.delegation_id, signed)

    if not _at_registry(nats, environment, put):
        fail(f"a delegation `{link.delegation_id}` is there already")
    typer.echo(link.delegation_id)


@app.command()
def grant(
    *,
    keys_dir: KeysDir,
    key: Key,
    environment: Environment,
    tenant: Annotated[str, typer.Option(help="the tenant")],
    delegator: Annotated[str, typer.Option("--from", help="the principal")],
    delegatee: Annotated[str, typer.Option("--to", help="the agent that receives")],
    nats_url: NatsUrl,
    nats_user: NatsUser = "",
    nats_password_file: NatsPassword = None,
    nats_ca_file: NatsAuthority = None,
    method: Annotated[Many, typer.Option(help="full method path, or `*`")] = None,
    operation: Annotated[Many, typer.Option(help="operation, or `*`")] = None,
    resource: Annotated[Many, typer.Option(help="resource with all below it, or `*`")] = None,
    deny_resource: Annotated[Many, typer.Option(help="resource it is not for")] = None,
    max_cost: Annotated[Many, typer.Option(help="CURRENCY:MINOR_UNITS")] = None,
    max_tier: Annotated[int, typer.Option(min=0, max=5)] = 1,
    autonomy: Annotated[str, typer.Option(help=", ".join(AUTONOMY))] = "observe",
    max_calls: Annotated[int, typer.Option(min=1, max=MAX_AMOUNT)] = 100,
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
    signed = _signed(link, key, _keys(keys_dir, environment), ())
    _store(link, signed, (nats_url, nats_user, nats_password_file, nats_ca_file), environment)


@app.command()
def narrow(
    parent: Annotated[str, typer.Argument(help="id of the link it hangs on")],
    *,
    keys_dir: KeysDir,
    key: Key,
    environment: Environment,
    delegatee: Annotated[str, typer.Option("--to", help="the agent that receives")],
    nats_url: NatsUrl,
    nats_user: NatsUser = "",
    nats_password_file: NatsPassword = None,
    nats_ca_file: NatsAuthority = None,
    method: Annotated[Many, typer.Option(help="fewer methods; left out: the parent's")] = None,
    operation: Annotated[Many, typer.Option(help="fewer operations")] = None,
    resource: Annotated[Many, typer.Option(help="fewer resources")] = None,
    deny_resource: Annotated[Many, typer.Option(help="more resources it is not for")] = None,
    max_cost: Annotated[Many, typer.Option(help="CURRENCY:MINOR_UNITS, less")] = None,
    max_tier: Annotated[int | None, typer.Option(min=0, max=5)] = None,
    max_calls: Annotated[int | None, typer.Option(min=1, max=MAX_AMOUNT)] = None,
    hours: Annotated[int | None, typer.Option(min=1, max=720)] = None,
) -> None:
    """Sign a link below another: never wider. Prints its id; what is left out is the parent's."""
    keys = _keys(keys_dir, environment)
    nats = nats_url, nats_user, nats_password_file, nats_ca_file

    async def read(registry: Registry, _publisher: Any) -> SignedChain:
        return await registry.chain(parent)

    signed = _at_registry(nats, environment, read)
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
    assert not isinstance(signed, Refusal)
    _store(child, _signed(child, key, keys, signed), nats, environment)


@app.command()
def revoke(
    delegation: Annotated[str, typer.Argument(help="id of the link")],
    *,
    environment: Environment,
    nats_url: NatsUrl,
    nats_user: NatsUser = "",
    nats_password_file: NatsPassword = None,
    nats_ca_file: NatsAuthority = None,
    permits: Annotated[bool, typer.Option("--permits", help="permits that are out, too")] = False,
    keys_dir: Annotated[
        Path | None, typer.Option(envvar="LICET_KEYS_DIR", help="with --permits: decider.key and root.pub")
    ] = None,
) -> None:
    """Take a link back, with everything below it, for good. Prints its id.

    Every decider stops at once. Permits that are out live a minute at most, those of reads five; --permits
    puts the id on the revocation list, so that doors refuse them from the next beacon on. It needs a decider
    key.
    """
    nats = nats_url, nats_user, nats_password_file, nats_ca_file

    async def take_back(registry: Registry, publisher: Any) -> bool:
        if await registry.link(delegation) is None:
            return False
        await put_revoked(publisher, environment, delegation, f"revoked at {_now_ms()}")
        return True

    if not _at_registry(nats, environment, take_back):
        fail(f"delegation `{delegation}` is not in the registry")
    typer.echo(delegation)
    if permits:
        _tell_doors(delegation, nats, environment, keys_dir)


def _tell_doors(delegation: str, nats: Nats, environment: str, keys_dir: Path | None) -> None:
    from decider.in_force import change
    from decider.in_force.change_cli import place_of, run
    from licet.keyfile import KeyFileError, read_signing_key
    from licet.revocation import RevocationKind

    if keys_dir is None:
        fail("deciders refuse it; for --permits name --keys-dir")
    try:
        key = read_signing_key(keys_dir / "decider.key")
    except KeyFileError as error:
        fail(f"deciders refuse it, permits that are out were not revoked: {error}")
    place = place_of(environment, keys_dir / "root.pub", nats)
    said, _ = run(change.revoke(place, [(RevocationKind.DELEGATION, delegation)], key))
    typer.echo(said, err=True)


@app.command()
def show(
    *,
    keys_dir: KeysDir,
    environment: Environment,
    nats_url: NatsUrl,
    nats_user: NatsUser = "",
    nats_password_file: NatsPassword = None,
    nats_ca_file: NatsAuthority = None,
    as_json: AsJson = False,
) -> None:
    """Show the tree: who has what from whom, and which links do not hold."""
    keys = _keys(keys_dir, environment)
    nats = nats_url, nats_user, nats_password_file, nats_ca_file
    links, revoked, faults = _at_registry(nats, environment, _everything)
    rows = [_row(name, links, revoked, keys) for name in _in_order(links)]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    else:
        for row in rows:
            indent = "  " * (row["depth"] - 1)
            state = row["refused"] or f"tier ≤ {row['max_tier']}, {', '.join(row['operations'])}"
            typer.echo(printable(f"{indent}{row['id']}  {row['from']} → {row['to']}  {state}"))
    if not links and not faults:
        typer.echo(f"nobody has handed authority down in `{environment}`", err=True)
    for name in faults:
        typer.echo(f"`{name}` is no delegation of that id", err=True)


async def _everything(
    registry: Registry, _publisher: Any
) -> tuple[dict[str, Signed], frozenset[str], tuple[str, ...]]:
    """Return the links by id, which of them are revoked, and the ids under which no link lies."""
    links, revoked, faults = dict[str, Signed](), set[str](), list[str]()
    for name in await registry.names():
        link = await registry.link(name)
        if link is None:
            faults.append(name)
            continue
        links[name] = link
        if await registry.revoked(name):
            revoked.add(name)
    return links, frozenset(revoked), tuple(faults)


def _in_order(links: Mapping[str, Signed]) -> Iterator[str]:
    """Yield each id after its parent, depth first; what hangs on nothing that is there comes first of all."""
    parents = {name: parent_of(link) for name, link in links.items()}
    waiting = sorted((name for name, parent in parents.items() if parent not in parents), reverse=True)
    while waiting:
        name = waiting.pop()
        yield name
        waiting.extend(sorted((child for child, parent in parents.items() if parent == name), reverse=True))


def _refused(name: str, links: Mapping[str, Signed], revoked: frozenset[str], keys: Any) -> str:
    """Return why a link does not hold, empty where it does."""
    chain: list[Signed] = []
    above = name
    while above in links and len(chain) <= MAX_DEPTH:
        if above in revoked:
            return "revoked" if above == name else f"`{above}` is revoked"
        chain.insert(0, links[above])
        above = parent_of(links[above])
    if above:
        return f"`{above}` is not in the registry"
    made = read_chain(chain, keys, now_ms=_now_ms())
    if isinstance(made, Refusal):
        return made.detail
    return "it is over" if made.links[-1].delegation.not_after_ms <= _now_ms() else ""


def _row(name: str, links: Mapping[str, Signed], revoked: frozenset[str], keys: Any) -> dict[str, Any]:
    from licet.v1 import delegation_pb2

    link = delegation_pb2.Delegation.FromString(links[name].payload)
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
        "max_calls": link.max_calls,
        "max_cost": {limit.currency: limit.max_minor for limit in link.max_cost},
        "not_after_ms": link.not_after_ms,
        "refused": _refused(name, links, revoked, keys),
    }
