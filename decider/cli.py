"""`licet decider` and `licet tasks`, with `licet policy` and `licet catalog` beside them.

Data goes to stdout, talk to stderr. Exit status: 0 done, 1 not done, 2 wrong usage or settings. Secrets are
named by file, never given as a value.
"""

import asyncio
import json
import logging
import signal
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from pydantic import ValidationError

from decider.catalog_cli import AsJson, Environment, TrustDomain, catalog_app, fail
from decider.change_cli import policy_app  # `licet policy`, with all its commands
from licet.log import configure_logging

__all__ = ["app", "catalog_app", "policy_app", "tasks_app"]

app: Final = typer.Typer(no_args_is_help=True, help="Make decisions.", pretty_exceptions_show_locals=False)
tasks_app: Final = typer.Typer(
    no_args_is_help=True, help="Show registered tasks.", pretty_exceptions_show_locals=False
)


def complaints(error: ValidationError) -> list[str]:
    """Return one line for each bad setting, by its variable; values are not repeated, they may be secrets."""
    lines = []
    for problem in error.errors():
        name = "".join(f"LICET_{part}".upper() for part in problem["loc"] if isinstance(part, str))
        what = "is required" if problem["type"] == "missing" else problem["msg"].removeprefix("Value error, ")
        lines.append(f"{name or 'settings'}: {what}")
    return lines


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
    configure_logging("decider", settings.log_level)
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


def _shown(task: Any) -> dict[str, Any]:
    """Return a task as JSON types; sets become sorted lists."""

    def plain(value: Any) -> Any:
        if isinstance(value, frozenset):
            return sorted(value)
        if isinstance(value, Mapping):
            return {name: plain(part) for name, part in value.items()}
        if is_dataclass(value):
            return {part.name: plain(getattr(value, part.name)) for part in fields(value)}
        return value

    shown: dict[str, Any] = plain(task)
    return shown


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
    from decider.process import wall_ms
    from decider.source import SourceError
    from decider.tasks import read_tasks

    try:
        tasks = read_tasks(file, trust_domain=trust_domain, environment=environment, now_ms=wall_ms())
    except SourceError as error:
        fail(error)
    if as_json:
        typer.echo(json.dumps([_shown(task) for task in tasks.values()], indent=2))
        return
    for task in tasks.values():
        typer.echo(f"{task.task_id:<20} {task.agent:<20} {task.tenant:<12} {task.principal}")
