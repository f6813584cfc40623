"""`licet tasks`: register work, end it, look at it; and check a tasks file.

Registering is for the application that authenticated the user, never for the agent: it speaks under its own
identity, from the three `LICET_TLS_*_FILE` or, in development, `LICET_IDENTITY`. Data goes to stdout, talk to
stderr. Exit status: 0 done, 1 not done, 2 wrong usage.
"""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from decider.catalog.cli import AsJson, Environment, TrustDomain, fail

TIMEOUT_S: Final = 10.0

tasks_app: Final = typer.Typer(
    no_args_is_help=True, help="Register work, end it, look at it.", pretty_exceptions_show_locals=False
)

Decider = Annotated[str, typer.Option(envvar="LICET_DECIDER", help="address of the decider, host:port")]
Identity = Annotated[str, typer.Option(envvar="LICET_IDENTITY", help="development identity, a SPIFFE id")]
Certificate = Annotated[
    Path | None, typer.Option(envvar="LICET_TLS_CERTIFICATE_FILE", help="certificate chain, PEM")
]
KeyFile = Annotated[Path | None, typer.Option(envvar="LICET_TLS_KEY_FILE", help="its private key, PEM")]
Authority = Annotated[
    Path | None, typer.Option(envvar="LICET_TLS_CA_FILE", help="whom the decider's certificate comes from")
]
TaskId = Annotated[str, typer.Argument(help="the task's id")]


@tasks_app.callback()
def _tasks() -> None:
    """Register work, end it, look at it."""


def _ask(method: str, request: Any, decider: str, identity: str, files: tuple[Path | None, ...]) -> Any:
    """Call one method of the TaskService; ends where it refuses."""
    import grpc

    from licet.metadata import DEV_IDENTITY
    from licet.v1 import task_pb2_grpc

    certificate, key, authority = files
    try:
        if certificate is not None and key is not None and authority is not None:
            credentials = grpc.ssl_channel_credentials(
                authority.read_bytes(), key.read_bytes(), certificate.read_bytes()
            )
            channel = grpc.secure_channel(decider, credentials)
        else:
            channel = grpc.insecure_channel(decider)
    except OSError as error:
        fail(f"cannot read `{error.filename}`: {error.strerror}")
    metadata = ((DEV_IDENTITY, identity),) if identity else ()
    with channel:
        stub = task_pb2_grpc.TaskServiceStub(channel)
        try:
            return getattr(stub, method)(request, timeout=TIMEOUT_S, metadata=metadata)
        except grpc.RpcError as error:
            code: Any = getattr(error, "code", lambda: None)()
            said = getattr(error, "details", lambda: "")() or "no answer"
            fail(f"licet: {said} ({code.name if code else 'UNKNOWN'}); the decider's log says why")


def _values(given: list[str]) -> list[Any]:
    """Read `refund.order_id=O1,O2`: operation, path of the argument, values."""
    from licet.v1 import task_pb2

    bound = []
    for text in given:
        name, equals, values = text.partition("=")
        operation, dot, path = name.partition(".")
        if not equals or not dot or not path or not values:
            fail(f"`{text}` must be operation.argument=value,value")
        bound.append(task_pb2.BoundValue(operation=operation, path=path, values=values.split(",")))
    return bound


def _row(task: Any) -> dict[str, Any]:
    def when(ms: int) -> str:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds") if ms else ""

    contract = task.contract
    return {
        "task_id": task.task_id,
        "state": "closed" if task.closed_at_ms else "open",
        "template": task.template,
        "agent": task.agent,
        "caller": task.caller,
        "principal": task.principal,
        "tenant": task.tenant,
        "intent": task.intent,
        "allowed": list(contract.allowed),
        "forbidden": list(contract.forbidden),
        "needs_approval": list(contract.needs_approval),
        "addresses": list(contract.addresses) if contract.bounds_addresses else None,
        "values": [
            {"operation": one.operation, "path": one.path, "values": list(one.values)}
            for one in contract.values
        ],
        "budgets": [
            {"name": one.name, "limits": {limit.currency or "": limit.limit for limit in one.limits}}
            for one in task.budgets
        ],
        "delegation": task.delegation,
        "registered_by": task.registered_by,
        "registered_at": when(task.registered_at_ms),
        "ends_at": when(task.not_after_ms),
        "closed_at": when(task.closed_at_ms),
        "closed_by": task.closed_by,
    }


def _print(task: Any, as_json: bool) -> None:
    row = _row(task)
    if as_json:
        typer.echo(json.dumps(row, indent=2))
        return
    for name, value in row.items():
        if value not in ("", [], None):
            typer.echo(f"{name:<15} {value if isinstance(value, str) else json.dumps(value)}")


@tasks_app.command()
def register(
    task_id: TaskId,
    *,
    template: Annotated[str, typer.Option(help="a template of the bundle in force")],
    caller: Annotated[str, typer.Option(help="SPIFFE id of the workload that may work on it")],
    agent: Annotated[str, typer.Option(help="the agent's name")],
    principal: Annotated[str, typer.Option(help="the user it is for")],
    tenant: Annotated[str, typer.Option(help="the tenant")],
    decider: Decider,
    identity: Identity = "",
    certificate: Certificate = None,
    key: KeyFile = None,
    ca: Authority = None,
    intent: Annotated[str, typer.Option(help="what the work is; recorded")] = "",
    minutes: Annotated[
        int, typer.Option(min=0, max=24 * 60, help="how long; 0: as long as the template allows")
    ] = 0,
    delegation: Annotated[str, typer.Option(help="last link of the delegation it rests on")] = "",
    address: Annotated[list[str] | None, typer.Option(help="the only addresses its calls may hold")] = None,
    value: Annotated[list[str] | None, typer.Option(help="operation.argument=value,value")] = None,
    as_json: AsJson = False,
) -> None:
    """Register a task. The same registration again changes nothing.

    Example:
        licet tasks register task_901 --template answer-refund-request --agent refund-bot
            --caller spiffe://licet.local/dev/agent/refund-bot --principal ana@t1.example.com --tenant t1
    """
    from licet.v1 import task_pb2

    request = task_pb2.RegisterTaskRequest(
        template=template,
        task_id=task_id,
        caller=caller,
        agent=agent,
        principal=principal,
        tenant=tenant,
        intent=intent,
        life_s=minutes * 60,
        delegation=delegation,
        addresses=address or (),
        bounds_addresses=address is not None,
        values=_values(value or []),
    )
    _print(_ask("RegisterTask", request, decider, identity, (certificate, key, ca)).task, as_json)


@tasks_app.command()
def close(
    task_id: TaskId,
    *,
    decider: Decider,
    identity: Identity = "",
    certificate: Certificate = None,
    key: KeyFile = None,
    ca: Authority = None,
    as_json: AsJson = False,
) -> None:
    """End a task: its calls are denied from now on. Permits that are out end within a minute."""
    from licet.v1 import task_pb2

    request = task_pb2.CloseTaskRequest(task_id=task_id)
    _print(_ask("CloseTask", request, decider, identity, (certificate, key, ca)).task, as_json)


@tasks_app.command()
def show(
    task_id: TaskId,
    *,
    decider: Decider,
    identity: Identity = "",
    certificate: Certificate = None,
    key: KeyFile = None,
    ca: Authority = None,
    as_json: AsJson = False,
) -> None:
    """Show a registered task."""
    from licet.v1 import task_pb2

    request = task_pb2.GetTaskRequest(task_id=task_id)
    _print(_ask("GetTask", request, decider, identity, (certificate, key, ca)).task, as_json)


def _shown(task: Any) -> dict[str, Any]:
    """Return a task as JSON types; sets become sorted lists."""

    def plain(value: Any) -> Any:
        if isinstance(value, frozenset):
            return sorted(value)
        if isinstance(value, tuple):
            return [plain(part) for part in value]
        if isinstance(value, Mapping):
            return {name: plain(part) for name, part in value.items()}
        if is_dataclass(value):
            return {part.name: plain(getattr(value, part.name)) for part in fields(value)}
        return value

    shown: dict[str, Any] = plain(task)
    return shown


@tasks_app.command("list")
def tasks_list(
    file: Annotated[Path, typer.Argument(help="tasks.yaml")],
    environment: Environment,
    trust_domain: TrustDomain = "licet.local",
    as_json: AsJson = False,
) -> None:
    """Check a tasks file and show its tasks."""
    from decider.source import SourceError
    from decider.task.tasks import read_tasks
    from licet.clock import wall_ms

    try:
        tasks = read_tasks(file, trust_domain=trust_domain, environment=environment, now_ms=wall_ms())
    except SourceError as error:
        fail(error)
    if as_json:
        typer.echo(json.dumps([_shown(task) for task in tasks.values()], indent=2))
        return
    for task in tasks.values():
        typer.echo(f"{task.task_id:<20} {task.agent:<20} {task.tenant:<12} {task.principal}")
