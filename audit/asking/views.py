"""The questions as SQL views, for whoever asks by SQL: made from the same files as `licet audit ask`.

Guarantees: one view for each question that a view can hold, its parameters in braces; `make` brings them to
this program's questions and can be repeated. Not guaranteed: that a view still says what it was made to say:
whoever may change the store may redefine it. `licet audit ask` sends its own text and uses none.

A question whose table is a parameter has no view: ClickHouse takes no identifier as a view's parameter.
"""

from collections.abc import Iterator
from typing import Any, Final

from audit.asking.ask import Question, questions
from audit.store.migrate import Layout

PREFIX: Final = "ask_"
_IDENTIFIER: Final = "Identifier"


def view_name(question: Question) -> str | None:
    """Return the name of a question's view; None where no view can hold it."""
    if any(parameter.type == _IDENTIFIER for parameter in question.parameters):
        return None
    return PREFIX + question.name.replace("-", "_")


def statements(layout: Layout) -> Iterator[str]:
    """Yield the statements that make the views, on one server or on a cluster."""
    on_cluster = f" ON CLUSTER `{layout.cluster}`" if layout.cluster else ""
    for question in questions().values():
        name = view_name(question)
        if name is not None:
            yield f"CREATE OR REPLACE VIEW {name}{on_cluster} AS\n{question.sql}"


def grants(layout: Layout, database: str) -> Iterator[str]:
    """Yield the statements that let SREs ask the views; what they may read beneath is in roles.sql."""
    on_cluster = f"ON CLUSTER `{layout.cluster}` " if layout.cluster else ""
    for question in questions().values():
        name = view_name(question)
        if name is not None:
            yield f"GRANT {on_cluster}SELECT ON {database}.{name} TO licet_sre"


def make(client: Any, layout: Layout) -> int:
    """Make or replace the views; return how many. Raises what the client raises."""
    made = 0
    for statement in statements(layout):
        client.command(statement)
        made += 1
    return made
