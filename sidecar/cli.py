"""`licet sidecar`: runs the door of one tool, and asks a running one whether it is ready."""

import asyncio
import json
import signal
from typing import TYPE_CHECKING, Annotated, Final

import typer
from pydantic import ValidationError

from licet.journal import SpoolError
from licet.keyfile import KeyFileError
from licet.log import configure_logging

if TYPE_CHECKING:
    from sidecar.settings import SidecarSettings

app: Final = typer.Typer(no_args_is_help=True, help=__doc__, pretty_exceptions_show_locals=False)


@app.callback()
def _sidecar() -> None:
    """The door of one tool."""


@app.command()
def serve() -> None:
    """Run the door. Settings come from `LICET_…` variables; every bad value is reported at once.

    Example:
        LICET_ENVIRONMENT=dev LICET_TOOL=finance … licet sidecar serve
    """
    from sidecar.entrance.descriptors import bound_descriptors
    from sidecar.entrance.tls_floor import require_tls_13
    from sidecar.settings import SidecarSettings

    require_tls_13()
    bound_descriptors()
    configure_logging("sidecar")
    try:
        settings = SidecarSettings()
    except ValidationError as error:
        for line in _complaints(error):
            typer.echo(line, err=True)
        raise typer.Exit(2) from None
    configure_logging("sidecar", settings.log_level)
    import uvloop

    try:
        raise typer.Exit(uvloop.run(_serve(settings)))
    except (KeyFileError, SpoolError, OSError) as error:
        typer.echo(f"licet sidecar: {error}", err=True)
        raise typer.Exit(1) from None


@app.command()
def ready(
    address: Annotated[str, typer.Argument(help="health address, host:port")],
    timeout: Annotated[float, typer.Option(help="seconds to wait for an answer")] = 2.0,
) -> None:
    """Ask a running door whether it is ready; prints a reason per subsystem, exit status 1 when it is not."""
    import urllib.error  # a door that serves asks nobody over HTTP
    import urllib.request

    url = f"http://{address}/ready"
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:
            typer.echo(answer.read().decode())
    except urllib.error.HTTPError as error:
        typer.echo(error.read().decode())
        raise typer.Exit(1) from None
    except OSError as error:
        typer.echo(json.dumps({"ready": False, "error": f"no answer from `{address}`: {error}"}))
        raise typer.Exit(1) from None


async def _serve(settings: "SidecarSettings") -> int:
    if settings.workers > 1:
        from sidecar.workers import Workers

        return await Workers(settings).run()
    from sidecar.process import Sidecar

    loop = asyncio.get_running_loop()
    sidecar = Sidecar(settings)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, sidecar.ending.set)
    await sidecar.start()
    await sidecar.ending.wait()
    left = await sidecar.stop()
    return 1 if left or sidecar.broken else 0


def _complaints(error: ValidationError) -> list[str]:
    """Return one line for each bad setting, by its variable; values are not repeated, they may be secrets."""
    lines = []
    for problem in error.errors():
        name = "".join(f"LICET_{part}".upper() for part in problem["loc"] if isinstance(part, str))
        lines.append(f"{name or 'settings'}: {problem['msg'].removeprefix('Value error, ')}")
    return lines
