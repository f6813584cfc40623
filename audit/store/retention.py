"""How long rows and sealed payloads stay, changed in a store that is in use.

Guarantees: a day goes as a whole, by JetStream's time, never by a client's clock; a decision's call goes with
its events; no payload outlives its event. What is gone is gone: JetStream has it for a week at most, then
only an export or a backup. Repeating it changes nothing.
"""

from typing import Any

from audit.store.migrate import Layout

_TTLS = (
    ("events", "toDateTime(js_time)"),
    ("call_states", "day"),
    ("payloads", "toDateTime(js_time)"),
)


def statements(layout: Layout) -> tuple[str, ...]:
    """Return the statements that keep rows for the layout's days."""
    days = {"payloads": min(layout.payload_days, layout.retention_days)}
    on_cluster = f" ON CLUSTER `{layout.cluster}`" if layout.cluster else ""
    return tuple(
        f"ALTER TABLE {table}{on_cluster} MODIFY TTL {begins}"
        f" + INTERVAL {days.get(table, layout.retention_days)} DAY"
        for table, begins in _TTLS
    )


def going(client: Any, layout: Layout) -> dict[str, int]:
    """Return how many rows of `events` and `payloads` are older than the layout's days now."""
    found = {}
    days = {"events": layout.retention_days, "payloads": min(layout.payload_days, layout.retention_days)}
    for table, kept in days.items():
        rows = client.query(
            f"SELECT count() FROM {table} WHERE js_time < now() - toIntervalDay({{days:UInt32}})",  # noqa: S608 - constants
            parameters={"days": kept},
        ).result_rows
        found[table] = int(rows[0][0])
    return found


def apply(client: Any, layout: Layout) -> None:
    """Bring the store to the layout's days."""
    for statement in statements(layout):
        client.command(statement)
