"""`licet audit evidence`, `ask` and `ocsf`: what the store has, for people and for machines."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from audit.cli_settings import fail, read_settings
from licet.clock import wall_us


def evidence(
    spend: Annotated[str, typer.Option(help="Spend id of the step.")] = "",
    decision: Annotated[str, typer.Option(help="Decision id.")] = "",
    call: Annotated[str, typer.Option(help="TASK/CALL: task id and call id.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the three evidences of a step, and the finding they lead to.

    Exit status: 0, 1 nothing found or no store, 3 the store has more rows of the step than were read.

    Example: licet audit evidence --call task_789/call_1
    """
    import json

    from clickhouse_connect.driver.exceptions import Error

    from audit.asking.show import evidence_text
    from audit.judging.evidence import NoEvidenceError, read
    from audit.settings import StoreSettings

    task_id, _, call_id = call.partition("/")
    settings = read_settings(StoreSettings)
    try:
        found = read(
            settings.store().client(),
            now_us=wall_us(),
            spend_id=spend,
            decision_id=decision,
            task_id=task_id,
            call_id=call_id,
        )
    except (Error, NoEvidenceError, ValueError, OSError) as error:
        raise fail(str(error)) from error
    typer.echo(json.dumps(found.to_dict(), indent=2) if as_json else evidence_text(found))
    _say_cut(found.cut)


def _say_cut(cut: Sequence[str]) -> None:
    """Say what was not read, and end with 3, so that nobody takes a part for all."""
    if cut:
        typer.echo(f"CUT: the store has more rows than were read of {', '.join(cut)}", err=True)
        raise typer.Exit(3)


def ask(
    *,
    name: Annotated[str, typer.Argument(help="The question.")] = "",
    param: Annotated[list[str] | None, typer.Option("--param", "-p", help="NAME=VALUE; may repeat.")] = None,
    trace: Annotated[bool, typer.Option("--trace", help="With `story`: its traces' spans, too.")] = False,
    style: Annotated[str, typer.Option("--format", help="table, csv or json.")] = "table",
    as_json: Annotated[bool, typer.Option("--json", help="Same as --format json.")] = False,
    list_all: Annotated[bool, typer.Option("--list", help="List the questions and what they take.")] = False,
) -> None:
    """Ask one of the canned questions.

    Example: licet audit ask refusals-over-time -p since=2026-11-29T20:00:00
    """
    from clickhouse_connect.driver.exceptions import Error

    from audit.asking import ask as asking
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
    if style not in asking.STYLES:
        raise typer.BadParameter(f"`{style}` is none of {', '.join(asking.STYLES)}", param_hint="--format")
    try:
        name = asking.traced(name) if trace else name
        answer = asking.ask(read_settings(StoreSettings).store().client(), name, given)
    except (Error, asking.QuestionError, OSError) as error:
        missing = name.endswith(asking.TRACE) and "UNKNOWN_TABLE" in str(error)
        raise fail(asking.TRACES_MISSING if missing else str(error)) from error
    typer.echo(answer.text("json" if as_json else style))
    _say_cut((f"the answer ({asking.MAX_ROWS} rows)",) if len(answer.rows) >= asking.MAX_ROWS else ())


def ocsf(
    since: Annotated[str, typer.Option(help="Events stored since, such as 2026-11-29T20:00:00.")],
) -> None:
    """Print decisions and refusals as OCSF API Activity, one JSON object a line."""
    import json

    from clickhouse_connect.driver.exceptions import Error

    from audit.asking import ocsf as schema
    from audit.proof.witness import rows
    from audit.settings import StoreSettings

    condition = "js_time >= {since:DateTime64(6)} AND kind IN {kinds:Array(String)}"
    try:
        client = read_settings(StoreSettings).store().client()
        for row in rows(client, condition, {"since": since, "kinds": list(schema.KINDS)}):
            typer.echo(json.dumps(schema.record(row), separators=(",", ":")))
    except (Error, OSError) as error:
        raise fail(str(error)) from error


def timeline(
    *,
    task: Annotated[str, typer.Option(help="The task.")],
    out: Annotated[Path, typer.Option(help="HTML file to write; must not exist.")],
) -> None:
    """Write the story of a task as one HTML page that opens offline in any browser."""
    from clickhouse_connect.driver.exceptions import Error

    from audit.asking.timeline import page
    from audit.judging.evidence import task_rows
    from audit.judging.story import cut_of
    from audit.settings import StoreSettings
    from audit.whole_file import new_file

    try:
        rows = task_rows(read_settings(StoreSettings).store().client(), task)
        if not rows:
            raise fail(f"the store has nothing of task `{task}`")
        with new_file(out) as file:
            file.write(page(f"task {task}", rows, cut_of(rows)))
    except (Error, OSError) as error:
        raise fail(str(error)) from error
    typer.echo(f"wrote {len(rows)} events to {out}", err=True)
    _say_cut(cut_of(rows))


def score(
    *,
    task: Annotated[str, typer.Option(help="The task whose findings count.")],
    part: Annotated[list[str], typer.Option(help="NAME=VALUE: retrieval, enforcement, parameters, outcome.")],
    weights: Annotated[Path | None, typer.Option(help="Weights file; default: the one licet ships.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Score a task: the weighted mean of four parts, capped where a change was made without authority.

    This is project scoring, not a standard.

    Example: licet audit score --task T --part retrieval=1 --part enforcement=0 --part parameters=1 …
    """
    import json
    from fractions import Fraction
    from importlib.resources import files

    from clickhouse_connect.driver.exceptions import Error

    from audit.judging.evidence import task_rows
    from audit.judging.findings import FindingClass
    from audit.judging.score import read_weights
    from audit.judging.score import score as compute
    from audit.judging.story import cut_of
    from audit.settings import StoreSettings

    try:
        source = weights.read_text() if weights else files("audit").joinpath("weights.json").read_text()
        parts = {name: Fraction(value) for name, _, value in (text.partition("=") for text in part)}
        rows = task_rows(read_settings(StoreSettings).store().client(), task)
        raised = [FindingClass(str(row["finding"])) for row in rows if row["kind"] == "finding.raised"]
        found = compute(parts, raised, read_weights(source))
    except (Error, OSError, ValueError, ZeroDivisionError) as error:
        raise fail(str(error)) from error
    shown = {
        "cut": list(cut_of(rows)),
        "raw": str(found.raw),
        "final": str(found.final),
        "caps": list(found.caps),
        "findings": sorted(set(raised)),
    }
    text = f"{found.final} (raw {found.raw}{', capped: ' + ', '.join(found.caps) if found.caps else ''})"
    typer.echo(json.dumps(shown) if as_json else text)
    _say_cut(cut_of(rows))
