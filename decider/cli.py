"""`licet decider` and `licet tasks`, with `licet policy` and `licet catalog` beside them.

Data goes to stdout, talk to stderr. Exit status: 0 done, 1 not done, 2 wrong usage or settings. Secrets are
named by file, never given as a value.
"""

import asyncio
import json
import logging
import signal
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from pydantic import ValidationError

from decider.catalog.cli import AsJson, Environment, catalog_app, fail
from decider.policy.candidate_cli import policy_app  # `licet policy`, with all its commands
from decider.task.cli import tasks_app
from licet.log import configure_logging

__all__ = ["app", "catalog_app", "policy_app", "tasks_app"]

app: Final = typer.Typer(no_args_is_help=True, help="Make decisions.", pretty_exceptions_show_locals=False)


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


@app.command()
def budgets(
    *,
    environment: Environment,
    master_key_file: Annotated[
        Path, typer.Option(envvar="LICET_MASTER_KEY_FILE", help="the environment's digest master key")
    ],
    nats_url: Annotated[str, typer.Option(envvar="LICET_NATS_URL", help="NATS servers")],
    nats_user: Annotated[str, typer.Option(envvar="LICET_NATS_USER", help="NATS user")] = "decider",
    nats_password_file: Annotated[
        Path | None, typer.Option(envvar="LICET_NATS_PASSWORD_FILE", help="its password")
    ] = None,
    nats_ca_file: Annotated[Path | None, typer.Option(envvar="LICET_NATS_CA_FILE", help="for TLS")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what is used of every budget; exit status 1 where a balance is not the sum of its bookings."""
    from licet.keyfile import KeyFileError, read_secret
    from licet.streams import NatsSettings, StreamsError

    settings = NatsSettings(nats_url, nats_user, nats_password_file, nats_ca_file)
    try:
        rows = asyncio.run(_budgets(settings, environment, read_secret(master_key_file)))
    except (KeyFileError, StreamsError, OSError) as error:
        fail(error)
    if as_json:
        typer.echo(json.dumps([row.shown() for row in rows], indent=2))
    else:
        for row in rows:
            wrong = "" if row.adds_up else f"  bookings hold {row.held}, not {row.booked}"
            typer.echo(f"{row.settled:>12} settled {row.booked:>12} booked  {row.account}{wrong}")
    if not rows:
        typer.echo(f"nothing of any budget has been used in `{environment}`", err=True)
    if not all(row.adds_up for row in rows):
        raise typer.Exit(1)


async def _budgets(settings: Any, environment: str, master: bytes) -> Any:
    from decider.budgets.book import BudgetBook
    from decider.budgets.records import budget_key
    from decider.budgets.report import rows_of
    from licet.clock import wall_ms
    from licet.streams import Publisher, connect

    nc = await connect(settings, "licet-budgets", forever=False)
    try:
        publisher = await Publisher.open(nc)
        key = budget_key(master)
        return await rows_of(BudgetBook(publisher, environment, key, decider="report", wall_ms=wall_ms))
    finally:
        await nc.close()


async def _opened(process: Any) -> None:
    """Start a decider, and return once it decides."""
    await process.start()
    await process.opened()


async def _serve(settings: Any) -> int:
    from decider.process import DeciderProcess, StartError

    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    process = DeciderProcess(settings)
    stopped = asyncio.ensure_future(ended.wait())
    opening = asyncio.ensure_future(_opened(process))
    await asyncio.wait({stopped, opening}, return_when=asyncio.FIRST_COMPLETED)
    if opening.done() and isinstance(opening.exception(), StartError):
        await process.stop()
        typer.echo(str(opening.exception()), err=True)
        return 1
    if opening.done():
        opening.result()
    await stopped
    opening.cancel()
    await asyncio.wait({opening})
    acked = await process.stop()
    logging.shutdown()
    return 0 if acked else 1
