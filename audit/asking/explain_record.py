"""Explains a recorded call by the record of its decision: what `licet explain CALL` asks of the audit."""

import re
from collections.abc import Mapping
from typing import Any, Final

from audit.cli_settings import read_settings
from licet.explain import Explanation, explain
from licet.explain_cli import ExplainError

LAST: Final = "last"
FACTS_AGENT: Final = "decider"
"""The agent of permits that the decider reads facts by; they are no calls of anybody's."""

_DECISION_ID: Final = re.compile(r"[0-9a-f]{32}\Z")
_SELECT: Final = (
    "SELECT * EXCEPT (event) FROM events WHERE startsWith(kind, 'decision.') AND agent != {facts:String} "
)
_NEWEST: Final = " ORDER BY time DESC, seq DESC LIMIT 1"


def explain_recorded(call: str, *, denied: bool = False) -> Explanation:
    """Return the answers about a call, a decision or the last one. Raises `ExplainError`."""
    from clickhouse_connect.driver.exceptions import Error

    from audit.settings import StoreSettings

    condition, values = _condition(call, denied=denied)
    try:
        client = read_settings(StoreSettings).store().client()
        result = client.query(_SELECT + condition + _NEWEST, parameters={"facts": FACTS_AGENT, **values})
    except (Error, OSError) as error:
        raise ExplainError(str(error)) from None
    rows = list(result.named_results())
    if not rows:
        raise ExplainError(
            f"no decision of `{call}` is in the store; name a call file, TASK/CALL, a decision id or `{LAST}`"
        )
    return explain(rows[0])


def _condition(call: str, *, denied: bool) -> tuple[str, Mapping[str, Any]]:
    if call == LAST:
        return ("AND decision IN ('deny', 'hold', 'failed')" if denied else "", {})
    if denied:
        raise ExplainError(f"--denied goes with `{LAST}`")
    if _DECISION_ID.match(call):
        return "AND decision_id = {decision:String}", {"decision": call}
    task, slash, step = call.partition("/")
    if not slash or not task or not step:
        raise ExplainError(f"`{call}` is no file, no TASK/CALL, no decision id and not `{LAST}`")
    return "AND task_id = {task:String} AND call_id = {call:String}", {"task": task, "call": step}
