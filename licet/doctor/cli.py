"""`licet doctor`: every check, one line each, and what to do about what is wrong."""

import asyncio
import json
from dataclasses import asdict
from typing import Annotated, Final

import typer
from pydantic import ValidationError

from licet.clock import wall_ms
from licet.doctor.another_way import check_another_way
from licet.doctor.certificates import check_certificates
from licet.doctor.files import check_keys, check_socket, check_spool
from licet.doctor.finding import Finding, State
from licet.doctor.servers import check_beacon, check_clickhouse, check_nats
from licet.doctor.settings import DoctorSettings

MARKS: Final = {State.OK: "ok     ", State.PROBLEM: "PROBLEM", State.SKIPPED: "-      "}


async def examine(settings: DoctorSettings, replicas: int) -> tuple[Finding, ...]:
    """Run every check; those over the network side by side."""
    nats, (beacon, clock), clickhouse = await asyncio.gather(
        check_nats(settings, replicas),
        check_beacon(settings),
        asyncio.to_thread(check_clickhouse, settings),
    )
    return (
        check_keys(settings, now_ms=wall_ms()),
        check_certificates(settings),
        clock,
        nats,
        beacon,
        clickhouse,
        check_socket(settings),
        check_another_way(settings),
        check_spool(settings),
    )


def doctor(
    replicas: Annotated[int, typer.Option(min=1, max=5, help="Copies that each stream should have.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Look at keys, certificates, clock, streams, beacon, ClickHouse, the tool's socket, and ways past it.

    Reads the `LICET_…` variables of the process in whose place it runs, and changes nothing. Exit status: 0
    nothing is wrong, 1 something is, 2 a variable cannot be read.

    Example:
        kubectl exec deploy/refund-example -c licet-sidecar -- licet doctor
    """
    try:
        settings = DoctorSettings()
    except ValidationError as error:
        for fault in error.errors():
            name = "_".join(str(part).upper() for part in fault["loc"])
            typer.echo(f"LICET_{name}: {fault['msg']}", err=True)
        raise typer.Exit(2) from None
    found = asyncio.run(examine(settings, replicas))
    if as_json:
        typer.echo(json.dumps([asdict(one) for one in found], indent=2))
    else:
        for one in found:
            typer.echo(f"{MARKS[one.state]}  {one.check:12}  {one.says}")
            if one.do:
                typer.echo(f"{'':23}{one.do}")
    if any(one.state is State.PROBLEM for one in found):
        raise typer.Exit(1)
