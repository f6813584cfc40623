"""`licet audit evidence`, `ask` and `ocsf`: what the store has, for people and for machines."""

from typing import Annotated

import typer

from audit.cli_settings import fail, read_settings


def evidence(
    spend: Annotated[str, typer.Option(help="Spend id of the step.")] = "",
    decision: Annotated[str, typer.Option(help="Decision id.")] = "",
    call: Annotated[str, typer.Option(help="TASK/CALL: task id and call id.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the three evidences of a step, and the finding they lead to.

    Example: licet audit evidence --call task_789/call_1
    """
    import json
    import time

    from clickhouse_connect.driver.exceptions import Error

    from audit.evidence import NoEvidenceError, read
    from audit.settings import StoreSettings
    from audit.show import evidence_text

    task_id, _, call_id = call.partition("/")
    settings = read_settings(StoreSettings)
    try:
        found = read(
            settings.store().client(),
            now_us=time.time_ns() // 1000,
            spend_id=spend,
            decision_id=decision,
            task_id=task_id,
            call_id=call_id,
        )
    except (Error, NoEvidenceError, ValueError, OSError) as error:
        raise fail(str(error)) from error
    typer.echo(json.dumps(found.to_dict(), indent=2) if as_json else evidence_text(found))


def ask(
    *,
    name: Annotated[str, typer.Argument(help="The question.")] = "",
    param: Annotated[list[str] | None, typer.Option("--param", "-p", help="NAME=VALUE; may repeat.")] = None,
    style: Annotated[str, typer.Option("--format", help="table, csv or json.")] = "table",
    as_json: Annotated[bool, typer.Option("--json", help="Same as --format json.")] = False,
    list_all: Annotated[bool, typer.Option("--list", help="List the questions and what they take.")] = False,
) -> None:
    """Ask one of the canned questions.

    Example: licet audit ask refusals-over-time -p since=2026-11-29T20:00:00
    """
    from clickhouse_connect.driver.exceptions import Error

    from audit import ask as asking
    from audit.settings import StoreSettings

    if list_all or not name:
        typer.echo(asking.catalogue(tuple(asking.questions().values())))
        return
    given = {}
    for text in param or []:
        key, separator, value = text.partition("=")
        if not separator:
            raise typer.BadParameter(f"`{text}` is no NAME=VALUE")
        given[key] = value
    try:
        answer = asking.ask(read_settings(StoreSettings).store().client(), name, given)
    except (Error, asking.QuestionError, OSError) as error:
        raise fail(str(error)) from error
    typer.echo(answer.text("json" if as_json else style))


def ocsf(
    since: Annotated[str, typer.Option(help="Events stored since, such as 2026-11-29T20:00:00.")],
) -> None:
    """Print decisions and refusals as OCSF API Activity, one JSON object a line."""
    import json

    from clickhouse_connect.driver.exceptions import Error

    from audit import ocsf as schema
    from audit.settings import StoreSettings
    from audit.witness import rows

    condition = "js_time >= {since:DateTime64(6)} AND kind IN {kinds:Array(String)}"
    try:
        client = read_settings(StoreSettings).store().client()
        for row in rows(client, condition, {"since": since, "kinds": list(schema.KINDS)}):
            typer.echo(json.dumps(schema.record(row), separators=(",", ":")))
    except (Error, OSError) as error:
        raise fail(str(error)) from error
