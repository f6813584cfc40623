"""`licet catalog`: build, check and show catalogs of tools.

Data goes to stdout, talk to stderr. Exit status: 0 done, 1 not done, 2 wrong usage. Keys are named by file.
"""

import json
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer

CATALOG_FILES: Final = ("tools.yaml", "descriptors.binpb")

catalog_app: Final = typer.Typer(
    no_args_is_help=True, help="Build, check and show catalogs of tools.", pretty_exceptions_show_locals=False
)

Environment = Annotated[str, typer.Option(envvar="LICET_ENVIRONMENT", help="the environment")]
TrustDomain = Annotated[str, typer.Option(envvar="LICET_TRUST_DOMAIN", help="SPIFFE trust domain")]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]


def fail(message: object) -> NoReturn:
    """End with exit status 1 and say why on stderr."""
    typer.echo(str(message), err=True)
    raise typer.Exit(1)


def tool_source(policy: Path) -> Any:
    """Return the tool and the descriptors of a policy directory; ends where they cannot be read."""
    from decider.catalog.descriptors import Descriptors, DescriptorsError
    from decider.catalog.tools import read_tools
    from decider.source import SourceError, read_bytes

    path = policy / CATALOG_FILES[1]
    try:
        return read_tools(policy / CATALOG_FILES[0]), Descriptors(read_bytes(path))
    except DescriptorsError as error:
        fail(f"{path}: {error}")
    except SourceError as error:
        fail(error)


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

    source, descriptors = tool_source(policy)
    clean = _lint_catalog(source, descriptors)
    try:
        payload = build_catalog(source, descriptors, environment=environment, trust_domain=trust_domain)
        signed = read_signing_key(key).sign(PayloadType.CATALOG, payload)
    except (SourceError, KeyFileError, ValueError) as error:
        fail(error)
    if not clean:
        fail("nothing was written: correct the errors above, or waive them in tools.yaml")
    write(out, canonical(signed))
    typer.echo(f"{out}: {len(source.methods)} methods of `{source.tool}`, version {source.version}", err=True)


def write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; ends where it cannot be written."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        fail(f"cannot write `{path}`: {error.strerror}")


@catalog_app.command("lint")
def catalog_lint(
    policy: Annotated[Path, typer.Argument(help="directory with tools.yaml and descriptors.binpb")],
) -> None:
    """Say what is wrong or unwise in tools.yaml; exit status 1 on an error."""
    from decider.catalog.build import build_catalog
    from decider.source import SourceError

    source, descriptors = tool_source(policy)
    clean = _lint_catalog(source, descriptors)
    try:
        build_catalog(source, descriptors, environment="lint", trust_domain="licet.local")
    except SourceError as error:
        fail(error)
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
        fail(error)
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


@catalog_app.command("draft")
def catalog_draft(
    descriptors: Annotated[Path, typer.Argument(help="FileDescriptorSet with imports")],
    tool: Annotated[str, typer.Option(help="the tool's name")],
) -> None:
    """Print a first tools.yaml from a descriptor set, every guess marked.

    Example:
        protoc --include_imports --descriptor_set_out=descriptors.binpb finance.proto
        licet catalog draft descriptors.binpb --tool finance > tools.yaml
    """
    from decider.catalog.descriptors import Descriptors, DescriptorsError
    from decider.catalog.draft import draft
    from decider.source import SourceError, read_bytes

    try:
        typer.echo(draft(tool, Descriptors(read_bytes(descriptors))), nl=False)
    except (DescriptorsError, SourceError) as error:
        fail(error)
