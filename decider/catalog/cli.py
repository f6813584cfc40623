"""`licet catalog`: build, check and show catalogs of tools.

Data goes to stdout, talk to stderr. Exit status: 0 done, 1 not done, 2 wrong usage. Keys are named by file.
"""

import json
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer

from licet.identity import subject_token

CATALOG_FILES: Final = ("tools.yaml", "descriptors.binpb")
MCP_FILE: Final = "mcp_tools.json"
"""The answer of the tool's MCP server to `tools/list`, beside the descriptors or in their place."""

catalog_app: Final = typer.Typer(
    no_args_is_help=True, help="Build, check and show catalogs of tools.", pretty_exceptions_show_locals=False
)


def _environment(text: str) -> str:
    try:
        return subject_token(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


Environment = Annotated[
    str, typer.Option(envvar="LICET_ENVIRONMENT", help="the environment", callback=_environment)
]
TrustDomain = Annotated[str, typer.Option(envvar="LICET_TRUST_DOMAIN", help="SPIFFE trust domain")]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]


def fail(message: object) -> NoReturn:
    """End with exit status 1 and say why on stderr."""
    typer.echo(str(message), err=True)
    raise typer.Exit(1)


def has_catalog(policy: Path) -> bool:
    """Tell whether a policy directory says something of a tool."""
    served = (policy / CATALOG_FILES[1]).exists() or (policy / MCP_FILE).exists()
    return served and (policy / CATALOG_FILES[0]).exists()


def tool_source(policy: Path) -> Any:
    """Return the tool and the descriptors of a policy directory; ends where they cannot be read."""
    from decider.catalog.descriptors import Descriptors, DescriptorsError
    from decider.catalog.tools import read_tools
    from decider.source import SourceError, read_bytes

    path = policy / CATALOG_FILES[1]
    try:
        source = read_tools(policy / CATALOG_FILES[0])
        if (policy / MCP_FILE).exists() and not path.exists():  # a tool that speaks JSON alone
            return source, Descriptors(b"")
        return source, Descriptors(read_bytes(path))
    except DescriptorsError as error:
        fail(f"{path}: {error}")
    except SourceError as error:
        fail(error)


def mcp_tools(file: Path) -> Any:
    """Return what an MCP server lists; nothing where there is no such file; ends where it cannot be read."""
    from decider.catalog.mcp import McpTools, McpToolsError
    from decider.source import SourceError, read_bytes

    try:
        return McpTools(read_bytes(file)) if file.exists() else McpTools()
    except McpToolsError as error:
        fail(f"{file}: {error}")
    except SourceError as error:
        fail(error)


def _lint_catalog(source: Any, descriptors: Any, mcp: Any, *, as_json: bool = False) -> bool:
    from decider.catalog.lint import Level, lint_catalog

    found = lint_catalog(source, descriptors, mcp)
    if as_json:
        rows = [{name: getattr(one, name) for name in one.__slots__ if name != "file"} for one in found]
        typer.echo(json.dumps(rows, indent=2))
    for finding in () if as_json else found:
        typer.echo(str(finding), err=True)
    if not found:
        typer.echo(f"`{source.tool}`: nothing to object to in {len(source.methods)} methods", err=True)
    return all(finding.level is not Level.ERROR for finding in found)


@catalog_app.command("build")
def catalog_build(  # noqa: PLR0917 - the options of a command
    policy: Annotated[Path, typer.Option(help="directory with tools.yaml and descriptors.binpb")],
    key: Annotated[Path, typer.Option(help="file of the catalog key")],
    out: Annotated[Path, typer.Option(help="where the signed catalog goes")],
    environment: Environment,
    trust_domain: TrustDomain = "licet.local",
    beside: Annotated[
        Path | None, typer.Option("--next", help="signed catalog whose versions are taken too, for a rollout")
    ] = None,
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
    mcp = mcp_tools(policy / MCP_FILE)
    clean = _lint_catalog(source, descriptors, mcp)
    try:
        payload = build_catalog(
            source,
            descriptors,
            environment=environment,
            trust_domain=trust_domain,
            mcp=mcp,
            beside={entry.path: bytes(entry.current) for entry in signed_catalog(beside).entries}
            if beside
            else None,
        )
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
    as_json: AsJson = False,
) -> None:
    """Say what is wrong or unwise in tools.yaml; exit status 1 on an error.

    Example:
        licet catalog lint policy
    """
    from decider.catalog.build import build_catalog
    from decider.source import SourceError

    source, descriptors = tool_source(policy)
    mcp = mcp_tools(policy / MCP_FILE)
    clean = _lint_catalog(source, descriptors, mcp, as_json=as_json)
    places = {name for method in source.methods for name in method.environments} or {"lint"}
    try:
        for place in sorted(places):
            build_catalog(source, descriptors, environment=place, trust_domain="licet.local", mcp=mcp)
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
    descriptors: Annotated[
        Path,
        typer.Argument(help="FileDescriptorSet with imports, or the answer to MCP's tools/list as *.json"),
    ],
    tool: Annotated[str, typer.Option(help="the tool's name")],
    out: Annotated[Path | None, typer.Option(help="where it goes; none: to stdout")] = None,
) -> None:
    """Write a first tools.yaml from a descriptor set or a list of MCP tools, every guess marked.

    Example:
        protoc --include_imports --descriptor_set_out=descriptors.binpb finance.proto
        licet catalog draft descriptors.binpb --tool finance --out tools.yaml
        licet catalog draft mcp_tools.json --tool github --out tools.yaml
    """
    from decider.catalog.descriptors import Descriptors, DescriptorsError
    from decider.catalog.draft import draft
    from decider.catalog.draft_mcp import draft_mcp
    from decider.catalog.mcp import McpTools, McpToolsError
    from decider.catalog.tools import TOOL_NAME
    from decider.source import SourceError, read_bytes

    if not TOOL_NAME.match(tool):
        fail(f"`{tool}` is no tool's name: 1 to 64 of a-z, 0-9, `_`, `-`")
    if out is not None and out.exists():
        fail(f"`{out}` is there already: a draft would overwrite what its owner wrote")
    try:
        if descriptors.suffix == ".json":
            listed = McpTools(read_bytes(descriptors))
            text, found = draft_mcp(tool, listed), bool(listed.tools or listed.unusable)
        else:
            described = Descriptors(read_bytes(descriptors))
            text, found = draft(tool, described), any(described.methods())
    except (DescriptorsError, McpToolsError) as error:
        fail(f"{descriptors}: {error}")
    except SourceError as error:
        fail(error)
    if not found:
        fail(f"{descriptors}: there is no method in it to draft")
    if out is None:
        typer.echo(text, nl=False)
    else:
        write(out, text.encode())
        typer.echo(f"{out}: drafted; look at each guess, then: licet catalog lint {out.parent}", err=True)


def signed_catalog(file: Path) -> Any:
    """Return the parsed payload of a signed catalog; verifies nothing; ends where it is none."""
    from licet.keyfile import KeyFileError, read_signed
    from licet.refusal import Refusal
    from licet.statement import strict_parse
    from licet.v1 import catalog_pb2

    try:
        found = strict_parse(catalog_pb2.Catalog, read_signed(file).payload)
    except KeyFileError as error:
        fail(error)
    if isinstance(found, Refusal):
        fail(f"`{file}` is no signed catalog: {found.detail}")
    return found


@catalog_app.command("diff")
def catalog_diff(
    old: Annotated[Path, typer.Argument(help="signed catalog that is in force")],
    new: Annotated[Path, typer.Argument(help="signed catalog that shall be")],
    as_json: AsJson = False,
) -> None:
    """Show what differs between two signed catalogs; exit status 1 where the new one lets more through.

    Example:
        licet catalog diff finance.catalog new/finance.catalog
    """
    from decider.catalog.diff import Effect, differences

    found = differences(signed_catalog(old), signed_catalog(new))
    if as_json:
        rows = [{name: str(getattr(one, name)) for name in one.__slots__} for one in found]
        typer.echo(json.dumps(rows, indent=2))
    else:
        for one in found:
            typer.echo(str(one))
    if not found:
        typer.echo("no difference", err=True)
    raise typer.Exit(1 if any(one.effect is Effect.WIDENS for one in found) else 0)


@catalog_app.command("drift")
def catalog_drift(
    catalog: Annotated[Path, typer.Argument(help="signed catalog")],
    served: Annotated[
        Path, typer.Argument(help="what the tool serves: descriptors, or MCP's list as *.json")
    ],
    as_json: AsJson = False,
) -> None:
    """Say which methods are served otherwise than listed; exit status 1 where any is. Verifies no signature.

    Example:
        licet catalog drift github.catalog mcp_tools.json
    """
    from decider.catalog.drift import drifted, served_by
    from decider.source import SourceError
    from licet.call import CatalogError
    from licet.catalog import read_payload

    try:
        found = drifted(read_payload(signed_catalog(catalog)), **served_by(served))
    except (SourceError, CatalogError, ValueError) as error:
        fail(error)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    else:
        for path, how in found.items():
            typer.echo(f"{path.removeprefix('/')}: {how}")
    if not found:
        typer.echo("every listed method is served as it is listed", err=True)
    raise typer.Exit(1 if found else 0)
