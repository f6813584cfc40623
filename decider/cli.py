"""`licet decider`, `licet policy`, `licet catalog`, `licet tasks`: the decider and the sources it decides by.

Data goes to stdout, talk to stderr. Exit status: 0 done, 1 not done, 2 wrong usage or settings. Secrets are
named by file, never given as a value.
"""

import asyncio
import json
import logging
import signal
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer
from pydantic import ValidationError

from licet.log import configure_logging

CATALOG_FILES: Final = ("tools.yaml", "descriptors.binpb")

app: Final = typer.Typer(no_args_is_help=True, help="Make decisions.", pretty_exceptions_show_locals=False)
policy_app: Final = typer.Typer(
    no_args_is_help=True,
    help="Build, check and activate bundles of rules.",
    pretty_exceptions_show_locals=False,
)
catalog_app: Final = typer.Typer(
    no_args_is_help=True, help="Build, check and show catalogs of tools.", pretty_exceptions_show_locals=False
)
tasks_app: Final = typer.Typer(
    no_args_is_help=True, help="Show registered tasks.", pretty_exceptions_show_locals=False
)

Environment = Annotated[str, typer.Option(envvar="LICET_ENVIRONMENT", help="the environment")]
TrustDomain = Annotated[str, typer.Option(envvar="LICET_TRUST_DOMAIN", help="SPIFFE trust domain")]
PolicyDirectory = Annotated[
    Path, typer.Argument(help="directory with bundle.yaml, rules.cedar, schema.cedarschema")
]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]

NatsUrl = Annotated[str, typer.Option(envvar="LICET_NATS_URL", help="NATS servers")]
NatsUser = Annotated[str, typer.Option(envvar="LICET_NATS_USER", help="NATS user")]
NatsPassword = Annotated[
    Path | None, typer.Option(envvar="LICET_NATS_PASSWORD_FILE", help="its password's file")
]


def _fail(message: object) -> NoReturn:
    typer.echo(str(message), err=True)
    raise typer.Exit(1)


def complaints(error: ValidationError) -> list[str]:
    """Return one line for each bad setting, by its variable; values are not repeated, they may be secrets."""
    lines = []
    for problem in error.errors():
        name = "".join(f"LICET_{part}".upper() for part in problem["loc"] if isinstance(part, str))
        what = "is required" if problem["type"] == "missing" else problem["msg"].removeprefix("Value error, ")
        lines.append(f"{name or 'settings'}: {what}")
    return lines


# --- decider


@app.callback()
def _decider() -> None:
    """Make decisions."""


@app.command()
def serve() -> None:
    """Run a decider. Settings come from `LICET_…` variables; every bad value is reported at once.

    Example:
        LICET_ENVIRONMENT=dev LICET_KEYS_DIR=keys … licet decider serve
    """
    from decider.settings import DeciderSettings

    configure_logging("decider")
    try:
        settings = DeciderSettings()
    except ValidationError as error:
        for line in complaints(error):
            typer.echo(line, err=True)
        raise typer.Exit(2) from None
    import uvloop

    raise typer.Exit(uvloop.run(_serve(settings)))


async def _serve(settings: Any) -> int:
    from decider.process import DeciderProcess, StartError

    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    process = DeciderProcess(settings)
    try:
        await process.start()
    except StartError as error:
        typer.echo(str(error), err=True)
        return 1
    await ended.wait()
    acked = await process.stop()
    logging.shutdown()
    return 0 if acked else 1


# --- catalog


def _tool_source(policy: Path) -> Any:
    from decider.catalog.descriptors import Descriptors, DescriptorsError
    from decider.catalog.tools import read_tools
    from decider.source import SourceError, read_bytes

    path = policy / CATALOG_FILES[1]
    try:
        return read_tools(policy / CATALOG_FILES[0]), Descriptors(read_bytes(path))
    except DescriptorsError as error:
        _fail(f"{path}: {error}")
    except SourceError as error:
        _fail(error)


def _lint_catalog(source: Any, descriptors: Any) -> bool:
    from decider.catalog.lint import Level, lint_catalog

    found = lint_catalog(source, descriptors)
    for finding in found:
        typer.echo(str(finding), err=True)
    return all(finding.level is not Level.ERROR for finding in found)


@catalog_app.command("build")
def catalog_build(
    policy: Annotated[Path, typer.Option(help="directory with tools.yaml and descriptors.binpb")],
    key: Annotated[Path, typer.Option(help="file of the catalog key")],
    out: Annotated[Path, typer.Option(help="where the signed catalog goes")],
    environment: Environment,
    trust_domain: TrustDomain = "licet.local",
) -> None:
    """Check tools.yaml against the descriptors and write the signed catalog.

    Example:
        licet catalog build --policy policy --key keys/catalog.key --out finance.catalog --environment dev
    """
    from decider.catalog.build import build_catalog
    from decider.source import SourceError
    from licet.keyfile import KeyFileError, read_signing_key
    from licet.statement import PayloadType, canonical

    source, descriptors = _tool_source(policy)
    clean = _lint_catalog(source, descriptors)
    try:
        payload = build_catalog(source, descriptors, environment=environment, trust_domain=trust_domain)
        signed = read_signing_key(key).sign(PayloadType.CATALOG, payload)
    except (SourceError, KeyFileError, ValueError) as error:
        _fail(error)
    if not clean:
        _fail("nothing was written: correct the errors above, or waive them in tools.yaml")
    _write(out, canonical(signed))
    typer.echo(f"{out}: {len(source.methods)} methods of `{source.tool}`, version {source.version}", err=True)


def _write(path: Path, content: bytes) -> None:
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        _fail(f"cannot write `{path}`: {error.strerror}")


@catalog_app.command("lint")
def catalog_lint(
    policy: Annotated[Path, typer.Argument(help="directory with tools.yaml and descriptors.binpb")],
) -> None:
    """Say what is wrong or unwise in tools.yaml; exit status 1 on an error."""
    from decider.catalog.build import build_catalog
    from decider.source import SourceError

    source, descriptors = _tool_source(policy)
    clean = _lint_catalog(source, descriptors)
    try:
        build_catalog(source, descriptors, environment="lint", trust_domain="licet.local")
    except SourceError as error:
        _fail(error)
    raise typer.Exit(0 if clean else 1)


@catalog_app.command("show")
def catalog_show(
    file: Annotated[Path, typer.Argument(help="signed catalog")], as_json: AsJson = False
) -> None:
    """Show the methods of a signed catalog. Verifies nothing: whoever uses it does."""
    from google.protobuf.message import DecodeError

    from decider.catalog.build import entries_of
    from licet.catalog import method_digest
    from licet.keyfile import KeyFileError, read_signed
    from licet.statement import canonical

    try:
        methods = list(entries_of(read_signed(file).payload))
    except (KeyFileError, DecodeError) as error:
        _fail(error)
    rows = [
        {
            "method": method.path,
            "tier": method.tier,
            "operation": method.operation,
            "resource": method.resource,
            "facts": method.facts.method,
            "guarded": method.guarded,
            "digest": method_digest(canonical(method)).hex(),
        }
        for method in methods
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    for row in rows:
        typer.echo(f"{row['tier']}  {row['operation']:<24} {row['method']:<44} {str(row['digest'])[:16]}")


# --- policy


@policy_app.command("lint")
def policy_lint(directory: PolicyDirectory, environment: Environment = "lint") -> None:
    """Say what is wrong or unwise in a bundle; exit status 1 on an error."""
    from decider.bundle import lint_bundle, read_bundle_source
    from decider.source import SourceError

    try:
        payload = read_bundle_source(directory, environment=environment)
    except SourceError as error:
        _fail(error)
    for warning in lint_bundle(payload):
        typer.echo(f"{directory}: warning: {warning}", err=True)


@policy_app.command("build")
def policy_build(
    directory: PolicyDirectory,
    key: Annotated[Path, typer.Option(help="file of the bundle key")],
    out: Annotated[Path, typer.Option(help="where the signed bundle goes")],
    environment: Environment,
) -> None:
    """Check rules, schema and notes strictly and write the signed bundle."""
    from licet.statement import canonical

    _write(out, canonical(_signed_bundle(directory, key, environment)))
    typer.echo(f"{out}: written", err=True)


def _signed_bundle(directory: Path, key: Path, environment: str) -> Any:
    from decider.bundle import lint_bundle, read_bundle_source
    from decider.source import SourceError
    from licet.keyfile import KeyFileError, read_signing_key
    from licet.statement import PayloadType

    try:
        payload = read_bundle_source(directory, environment=environment)
        signing = read_signing_key(key)
    except (SourceError, KeyFileError) as error:
        _fail(error)
    for warning in lint_bundle(payload):
        typer.echo(f"{directory}: warning: {warning}", err=True)
    return signing.sign(PayloadType.BUNDLE, payload)


@policy_app.command("activate")
def policy_activate(
    directory: PolicyDirectory,
    *,
    key: Annotated[Path, typer.Option(help="file of the bundle key")],
    keys_dir: Annotated[Path, typer.Option(envvar="LICET_KEYS_DIR", help="directory with keyset.signed")],
    root_key_file: Annotated[Path, typer.Option(envvar="LICET_ROOT_KEY_FILE", help="public root key")],
    environment: Environment,
    nats_url: NatsUrl,
    nats_user: NatsUser = "",
    nats_password_file: NatsPassword = None,
    if_newer: Annotated[
        bool, typer.Option("--if-newer", help="do nothing when it is active already")
    ] = False,
) -> None:
    """Check and sign a bundle, store it, and make it the one in force, by compare-and-set.

    The version must be greater than the active one's; a rollback is an older text with a new version. A
    bundle that fails a check changes nothing.
    """
    from decider.activate import Activation, ActivationError, activate
    from licet.streams import NatsSettings, StreamsError

    signed = _signed_bundle(directory, key, environment)
    wanted = Activation(signed, keys_dir / "keyset.signed", root_key_file, environment, if_newer=if_newer)
    try:
        typer.echo(
            asyncio.run(activate(wanted, NatsSettings(nats_url, nats_user, nats_password_file))), err=True
        )
    except (ActivationError, StreamsError) as error:
        _fail(error)


@policy_app.command("status")
def policy_status(
    environment: Environment,
    nats_url: NatsUrl,
    nats_user: NatsUser = "",
    nats_password_file: NatsPassword = None,
    as_json: AsJson = False,
) -> None:
    """Show which bundle, key set and revocations are in force; exit status 1 when none is."""
    from decider.activate import status
    from licet.streams import NatsSettings, StreamsError

    try:
        row = asyncio.run(status(environment, NatsSettings(nats_url, nats_user, nats_password_file)))
    except StreamsError as error:
        _fail(error)
    if row is None:
        _fail(f"nothing is in force in environment `{environment}`: run `licet policy activate`")
    if as_json:
        typer.echo(json.dumps(row, indent=2))
        return
    for name, value in row.items():
        typer.echo(f"{name:<20} {value}")


# --- tasks


@tasks_app.callback()
def _tasks() -> None:
    """Show registered tasks."""


@tasks_app.command("list")
def tasks_list(
    file: Annotated[Path, typer.Argument(help="tasks.yaml")],
    environment: Environment,
    trust_domain: TrustDomain = "licet.local",
    as_json: AsJson = False,
) -> None:
    """Check a task file and show its tasks."""
    from dataclasses import asdict

    from decider.process import wall_ms
    from decider.source import SourceError
    from decider.tasks import read_tasks

    try:
        tasks = read_tasks(file, trust_domain=trust_domain, environment=environment, now_ms=wall_ms())
    except SourceError as error:
        _fail(error)
    if as_json:
        typer.echo(json.dumps([asdict(task) for task in tasks.values()], indent=2))
        return
    for task in tasks.values():
        typer.echo(f"{task.task_id:<20} {task.agent:<20} {task.tenant:<12} {task.principal}")
