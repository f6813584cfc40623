"""The book of budgets and who ends bookings, put together for one decider."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping

from decider.budgets.book import BudgetBook
from decider.budgets.budget import RULE_PREFIX, Line
from decider.budgets.limit import BudgetLimit, Counted
from decider.budgets.records import budget_key
from decider.budgets.settle import Settler
from decider.decision.limits import Limits
from decider.in_force.configuration import Configuration
from decider.loop.loop_limit import LoopLimit
from licet import telemetry
from licet.metrics import Metrics
from licet.streams import Connection, Publisher

CANCEL_AGAIN_S = 0.2


def _counter(counts: Metrics) -> Counted:
    burn = counts.counter(telemetry.METRIC_BUDGET_BURN)
    refusals = counts.counter(telemetry.METRIC_BUDGET_REFUSALS)

    def counted(line: Line, booked: bool) -> None:
        labels = line.rule_id.removeprefix(RULE_PREFIX), line.unit
        if booked:
            burn.add(line.amount, *labels)
        else:
            refusals.add(1, *labels)

    return counted


@contextlib.asynccontextmanager
async def open_limits(
    publisher: Publisher,
    nc: Connection,
    configuration: Configuration,
    *,
    environment: str,
    instance: str,
    master: bytes,
    audiences: Mapping[str, str],
    counts: Metrics,
    wall_ms: Callable[[], int],
) -> AsyncIterator[Limits]:
    """Yield the limits of a decider; loops first, since they take nothing.

    Args:
        publisher: For the budget stream.
        nc: For leader reads.
        configuration: Whose keys verify outcomes.
        environment: The environment.
        instance: The decider's name in the records.
        master: The environment's digest master; the records' key comes from it.
        audiences: Audience by tool.
        counts: Metrics of the process.
        wall_ms: Unix ms.
    """
    book = BudgetBook(publisher, environment, budget_key(master), decider=instance, wall_ms=wall_ms)
    settler = Settler(book, nc, configuration, environment, audiences, wall_ms=wall_ms)
    working = [asyncio.create_task(loop) for loop in (book.run(), settler.run())]
    try:
        yield Limits((LoopLimit(), BudgetLimit(book, settler, _counter(counts))))
    finally:
        while not all(task.done() for task in working):
            for task in working:
                task.cancel()
            await asyncio.wait(working, timeout=CANCEL_AGAIN_S)
