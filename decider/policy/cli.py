"""`licet policy`: build, test, check and activate bundles of rules.

Data goes to stdout, talk to stderr. Exit status: 0 done, 1 not done, 2 wrong usage. Keys are named by file.
"""

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from decider.catalog.cli import AsJson, Environment, fail, has_catalog, tool_source, write

policy_app: Final = typer.Typer(
    no_args_is_help=True,
    help="Build, test, check and activate bundles of rules.",
    pretty_exceptions_show_locals=False,
)

PolicyDirectory = Annotated[
    Path, typer.Argument(help="directory with bundle.yaml, rules.cedar, schema.cedarschema")
]
NatsUrl = Annotated[str, typer.Option(envvar="LICET_NATS_URL", help="NATS servers")]
NatsUser = Annotated[str, typer.Option(envvar="LICET_NATS_USER", help="NATS user")]
NatsPassword = Annotated[
    Path | None, typer.Option(envvar="LICET_NATS_PASSWORD_FILE", help="its password's file")
]
NatsAuthority = Annotated[
    Path | None, typer.Option(envvar="LICET_NATS_CA_FILE", help="whom the servers' certificates come from")
]


@policy_app.command("lint")
def policy_lint(directory: PolicyDirectory, environment: Environment = "lint") -> None:
    """Say what is wrong or unwise in a bundle; exit status 1 on an error."""
    from decider.policy.bundle import lint_bundle, read_bundle_source
    from decider.source import SourceError

    try:
        payload = read_bundle_source(directory, environment=environment)
    except SourceError as error:
        fail(error)
    warnings = (*lint_bundle(payload), *_missed(directory))
    for warning in warnings:
        typer.echo(f"{directory}: warning: {warning}", err=True)
    _refuse_misfits(directory)
    if not warnings:
        typer.echo(f"{directory}: nothing to object to", err=True)


@policy_app.command("test")
def policy_test(directory: PolicyDirectory, as_json: AsJson = False) -> None:
    """Run tests.yaml against the rules; exit status 1 when one fails, or a rule would not be missed.

    Example:
        licet policy test examples/refund/policy
    """
    from decider.policy.policy_tests import untested

    rules, outcomes = _policy_tests(directory)
    missed = untested(rules, outcomes)
    failed = [outcome for outcome in outcomes if outcome.problem]
    if as_json:
        rows = [
            {
                "test": outcome.test.name,
                "decision": outcome.decision,
                "rules": outcome.rules,
                "problem": outcome.problem,
            }
            for outcome in outcomes
        ]
        typer.echo(json.dumps({"tests": rows, "untested": missed}, indent=2))
    else:
        for outcome in outcomes:
            mark = "FAIL" if outcome.problem else "ok  "
            typer.echo(f"{mark} {outcome.test.name} {outcome.problem}".rstrip())
        for sentence in missed:
            typer.echo(f"MISS {sentence}")
    typer.echo(f"{len(outcomes) - len(failed)} of {len(outcomes)} tests pass", err=True)
    raise typer.Exit(1 if failed or missed or not outcomes else 0)


def _policy_tests(directory: Path) -> Any:
    """Return rules and outcomes of the tests beside them."""
    from decider.policy.bundle import load_bundle, read_bundle_source
    from decider.policy.policy_tests import FILE, read_tests, run_tests
    from decider.source import SourceError

    try:
        rules = load_bundle(read_bundle_source(directory, environment="test")).rules
        return rules, run_tests(rules, read_tests(directory / FILE))
    except SourceError as error:
        fail(error)


def _missed(directory: Path) -> tuple[str, ...]:
    """Return a sentence for each rule that the tests beside the rules would not miss."""
    from decider.policy.policy_tests import FILE, untested

    if not (directory / FILE).exists():
        return (f"there is no {FILE}: nothing shows what the rules do",)
    return untested(*_policy_tests(directory))


def _refuse_misfits(directory: Path) -> None:
    """Refuse rules that the catalog beside them does not fit; a directory without one is none of this."""
    from decider.catalog.fit import misfits
    from decider.policy.bundle import load_bundle, read_bundle_source
    from decider.source import SourceError

    if not has_catalog(directory):
        return
    try:
        rules = load_bundle(read_bundle_source(directory, environment="test")).rules
    except SourceError as error:
        fail(error)
    source, descriptors = tool_source(directory)
    found = misfits(source, descriptors, rules)
    if found:
        fail("\n".join(found))


def _refuse_failing_tests(directory: Path) -> None:
    from decider.policy.policy_tests import FILE

    if (directory / FILE).exists():
        failed = [outcome for outcome in _policy_tests(directory)[1] if outcome.problem]
        if failed:
            fail("\n".join(f"{directory / FILE}: {one.test.name}: {one.problem}" for one in failed))


@policy_app.command("build")
def policy_build(
    directory: PolicyDirectory,
    key: Annotated[Path, typer.Option(help="file of the bundle key")],
    out: Annotated[Path, typer.Option(help="where the signed bundle goes")],
    environment: Environment,
) -> None:
    """Check rules, schema and notes strictly and write the signed bundle."""
    from licet.statement import canonical

    write(out, canonical(signed_bundle(directory, key, environment)))
    typer.echo(f"{out}: written", err=True)


def signed_bundle(directory: Path, key: Path, environment: str) -> Any:
    """Return the signed bundle of a directory; ends where it, its tests or its catalog are at fault."""
    from decider.policy.bundle import lint_bundle, read_bundle_source
    from decider.source import SourceError
    from licet.keyfile import KeyFileError, read_signing_key
    from licet.statement import PayloadType

    _refuse_misfits(directory)
    _refuse_failing_tests(directory)
    try:
        payload = read_bundle_source(directory, environment=environment)
        signing = read_signing_key(key)
    except (SourceError, KeyFileError) as error:
        fail(error)
    for warning in (*lint_bundle(payload), *_missed(directory)):
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
    nats_ca_file: NatsAuthority = None,
    if_newer: Annotated[
        bool, typer.Option("--if-newer", help="do nothing when it is active already")
    ] = False,
    generation: Annotated[
        int | None, typer.Option(min=1, help="of a store where nothing is in force yet; default: 1")
    ] = None,
    revocations: Annotated[
        Path | None, typer.Option(help="there too: the list that `licet policy revoke --keep` wrote")
    ] = None,
) -> None:
    """Check and sign a bundle, store it, and make it the one in force, by compare-and-set.

    The version must be greater than the active one's; a rollback is an older text with a new version. A
    bundle that fails a check changes nothing.
    """
    from decider.in_force.activate import Activation, ActivationError, activate
    from licet.keyfile import KeyFileError, read_signed
    from licet.streams import NatsSettings, StreamsError

    signed = signed_bundle(directory, key, environment)
    try:
        wanted = Activation(
            signed,
            keys_dir / "keyset.signed",
            root_key_file,
            environment,
            if_newer=if_newer,
            generation=generation,
            revocations=read_signed(revocations) if revocations is not None else None,
        )
        typer.echo(
            asyncio.run(
                activate(wanted, NatsSettings(nats_url, nats_user, nats_password_file, nats_ca_file))
            ),
            err=True,
        )
    except (ActivationError, StreamsError, KeyFileError) as error:
        fail(error)


@policy_app.command("status")
def policy_status(
    *,
    environment: Environment,
    nats_url: NatsUrl,
    nats_user: NatsUser = "",
    nats_password_file: NatsPassword = None,
    nats_ca_file: NatsAuthority = None,
    as_json: AsJson = False,
) -> None:
    """Show which bundle, key set and revocations are in force; exit status 1 when none is."""
    from decider.in_force.activate import status
    from licet.streams import NatsSettings, StreamsError

    try:
        row = asyncio.run(
            status(environment, NatsSettings(nats_url, nats_user, nats_password_file, nats_ca_file))
        )
    except StreamsError as error:
        fail(error)
    if row is None:
        fail(f"nothing is in force in environment `{environment}`: run `licet policy activate`")
    if as_json:
        typer.echo(json.dumps(row, indent=2))
        return
    for name, value in row.items():
        typer.echo(f"{name:<20} {value}")
