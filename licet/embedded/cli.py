"""`licet up`, `licet demo` and `licet trace`: the embedded house for people."""

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

import licet
from licet.embedded.layout import DataLayout
from licet.embedded.process import StartError
from licet.embedded.project import FILE, ProjectError, read_project
from licet.embedded.trace_store import StoredSpan, TraceStore
from licet.embedded.trace_tree import render
from licet.identity import TRUST_DOMAIN_DEV

EXAMPLE: Final = Path("examples") / "refund"
PACKS: Final = Path("examples") / "packs"
DATA: Final = Path(".licet")

trace: Final = typer.Typer(
    help="Traces that the local receiver kept.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    add_completion=False,
)

ProjectOption = Annotated[
    Path | None, typer.Option(help=f"Directory with a `{FILE}`. Default: here, else {EXAMPLE} of a checkout.")
]
TraceOption = Annotated[str, typer.Argument(help="Its hex digits, or the first of them, or `last`.")]
DataOption = Annotated[Path, typer.Option(help="Data directory; kept, and used again by the next start.")]


def up(
    project: ProjectOption = None,
    data: DataOption = DATA,
    replicas: Annotated[int, typer.Option(min=1, max=8, help="Sidecars beside each tool.")] = 1,
    otlp: Annotated[str | None, typer.Option(help="OTLP/gRPC endpoint; default: kept locally.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the addresses as JSON.")] = False,
) -> None:
    """Start everything on this machine, print addresses, run until Ctrl-C.

    Example: licet up --project examples/refund
    """
    from licet.embedded.stack import Stack

    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    started = time.monotonic()
    try:
        stack = Stack(
            data,
            read_project(find_project(project)),
            replicas=replicas,
            otlp_endpoint=otlp,
            progress=lambda text: typer.echo(f"starting: {text}", err=True),
        )
        stack.start()
    except (ProjectError, StartError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
    typer.echo(f"up after {time.monotonic() - started:.1f} s; data in {stack.layout.root}", err=True)
    addresses = json.loads(stack.layout.addresses.read_text())
    typer.echo(json.dumps(addresses, indent=2) if as_json else _how_to(addresses, stack.layout))
    dead = ""
    while not stopped.wait(0.5) and not dead:
        dead = next((name for name, one in stack.processes.items() if not one.alive), "")
    if dead:
        typer.echo(f"`{dead}` ended by itself\n{stack.processes[dead].log_tail()}", err=True)
    typer.echo("stopping", err=True)
    stack.close()
    raise typer.Exit(1 if dead else 0)


def demo(
    project: ProjectOption = None,
    pack: Annotated[
        str | None,
        typer.Option(
            help="Play the story of a pack of a checkout: support, sales-research, coding, finance."
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document instead of tables.")
    ] = False,
    keep: Annotated[Path | None, typer.Option(help="Keep the data in this directory.")] = None,
) -> None:
    """Play the failure ungated, then gated, then every case with its three evidences.

    With --pack: three lawful calls, three that are stopped, one that is held and then approved.
    Ends with status 1 when anything is not as expected.
    """
    try:
        found = read_project(find_project(project) if pack is None else find_pack(pack))
    except ProjectError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
    if not found.demo:
        typer.echo(f"`{found.directory / FILE}` names no demo", err=True)
        raise typer.Exit(1)
    words = [word.replace("{python}", sys.executable) for word in found.demo]
    options = [*(["--json"] if as_json else []), *(["--keep", str(keep.resolve())] if keep else [])]
    paths = os.pathsep.join(filter(None, (str(found.directory), os.environ.get("PYTHONPATH", ""))))
    status = subprocess.call([*words, *options], env={**os.environ, "PYTHONPATH": paths})  # noqa: S603 - the project's
    raise typer.Exit(status)


@trace.command()
def show(
    trace_id: TraceOption = "last",
    data: DataOption = DATA,
    width: Annotated[int, typer.Option(min=40, help="Columns.")] = 100,
) -> None:
    """Print a trace as a tree, the spans of other traces that link to it, and the three evidences.

    The evidences come from the audit store, where LICET_CLICKHOUSE_URL says where that is.
    """
    spans, linked = _kept(data, trace_id)
    typer.echo(render(spans, linked, width=width))
    if os.environ.get("LICET_CLICKHOUSE_URL"):
        _show_evidence(spans)


@trace.command()
def send(
    trace_id: TraceOption,
    to: Annotated[str, typer.Option(help="OTLP/gRPC endpoint, such as http://127.0.0.1:4317.")],
    data: DataOption = DATA,
) -> None:
    """Send a kept trace, and what links to it, on to a collector or a trace viewer.

    Example: licet trace send last --to http://127.0.0.1:4317
    """
    from licet.embedded.trace_send import send as send_spans

    spans, linked = _kept(data, trace_id)
    send_spans((*spans, *linked), to)
    typer.echo(f"sent {len(spans) + len(linked)} spans of trace {spans[0].trace_id}", err=True)


def _kept(data: Path, trace_id: str) -> tuple[tuple[StoredSpan, ...], tuple[StoredSpan, ...]]:
    """Return a trace and the spans that link to it; says why there is none."""
    path = DataLayout(data).traces
    if not path.exists():
        typer.echo(f"`{path}` is missing: no `licet up` kept traces there", err=True)
        raise typer.Exit(1)
    with TraceStore(path) as store:
        wanted = store.latest() if trace_id == "last" else store.whole_id(trace_id)
        spans = store.trace(wanted) if wanted else ()
        if not wanted or not spans:
            typer.echo(f"no spans of trace `{trace_id}`", err=True)
            raise typer.Exit(1)
        return spans, store.linked_to(wanted)


def _show_evidence(spans: Sequence[StoredSpan]) -> None:
    from clickhouse_connect.driver.exceptions import Error
    from pydantic import ValidationError

    from audit.settings import StoreSettings
    from licet.embedded.trace_evidence import evidence_of

    try:
        text = evidence_of(spans, StoreSettings().store().client())
    except (Error, OSError, ValidationError) as error:
        typer.echo(f"the evidences cannot be read: {error}", err=True)
        raise typer.Exit(1) from error
    typer.echo(f"\n{text or 'no span names a step'}")


def find_project(given: Path | None) -> Path:
    """Return the project directory: the given one, this one, or the example of a source checkout."""
    if given is not None:
        return given
    checkout = Path(licet.__file__).resolve().parent.parent
    candidates = (Path.cwd(), Path.cwd() / EXAMPLE, checkout / EXAMPLE)
    return next((one for one in candidates if (one / FILE).is_file()), Path.cwd())


def find_pack(name: str) -> Path:
    """Return the project directory of a pack, here or in a source checkout. Raises ProjectError."""
    checkout = Path(licet.__file__).resolve().parent.parent
    roots = (Path.cwd() / PACKS, checkout / PACKS)
    found = next((root / name for root in roots if (root / name / FILE).is_file()), None)
    if found is None or found.parent not in roots:
        names = sorted({one.parent.name for root in roots for one in root.glob(f"*/{FILE}")})
        known = (
            f"known: {', '.join(names)}" if names else f"`{PACKS}` is part of a source checkout: run there"
        )
        raise ProjectError(f"there is no pack `{name}` with a story; {known}")
    return found


def _how_to(addresses: dict[str, object], layout: DataLayout) -> str:
    sidecars = addresses["sidecars"]
    agent = f"spiffe://{TRUST_DOMAIN_DEV}/{addresses['environment']}/agent/NAME"
    tools = (
        ", ".join(f"{tool} {' '.join(them)}" for tool, them in sidecars.items())
        if isinstance(sidecars, dict)
        else ""
    )
    return f"""
  decider     {addresses["decider"]}
  sidecars    {tools}
  ClickHouse  {addresses["clickhouse"]}   user licet
  traces      {addresses["otlp"]}

To ask, in another terminal:
  . {shlex.quote(str(layout.shell))}
  licet audit ask                          lists what can be asked
  licet audit evidence --call TASK/CALL    the three evidences of a step
  licet trace show last --data {layout.root}

For an agent, whose `Client.from_env()` reads it, the same file and who it is:
  export LICET_IDENTITY={agent}

Ctrl-C stops it."""
