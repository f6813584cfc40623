"""`licet decider` and `licet tasks`, with `licet policy` and `licet catalog` beside them.

Data goes to stdout, talk to stderr. Exit status: 0 done, 1 not done, 2 wrong usage or settings. Secrets are
named by file, never given as a value.
"""

import asyncio
import logging
import signal
from typing import Any, Final

import typer
from pydantic import ValidationError

from decider.candidate_cli import policy_app  # `licet policy`, with all its commands
from decider.catalog_cli import catalog_app
from decider.tasks_cli import tasks_app
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
