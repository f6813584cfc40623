"""Says what was found: events, metric, trace, alert; each verdict of a step once, until it changes.

Guarantees: a finding is in the journal before it is counted or alerted; a verdict that changes is cleared and
the new one raised; a new run does not repeat what the store has. Not guaranteed: that what was raised in the
last seconds before a kill, and is not in the store yet, is raised only once.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from audit.judging.finding_event import event_fields, linked
from audit.judging.findings import Finding, FindingClass
from audit.judging.story import Row
from licet import telemetry
from licet.event import EventKind
from licet.log import log
from licet.metrics import Metrics
from licet.tracing import Tracing

LOG: Final = logging.getLogger(__name__)
REMEMBERED: Final = 200_000
"""Verdicts kept in memory to see a change of verdict; an older step is raised again if it changes."""

EVIDENCES: Final = ("decision", "door", "spend", "ledger")
"""What rows of a step can be, by the first word of their kind."""

Alert = Callable[[Mapping[str, Any]], None]
"""Is told the fields of a finding that pages."""


def _last(rows: Sequence[Row]) -> FindingClass | None:
    """What the store says was raised last of a step."""
    raised = [row for row in rows if row["kind"] == EventKind.FINDING_RAISED]
    last = max(raised, key=lambda row: int(row["time_us"]), default=None)
    return None if last is None else FindingClass(str(last["finding"]))


class Recorder(Protocol):
    """Where findings go: a journal."""

    async def append(self, kind: EventKind, **fields: Any) -> str:
        """Record an event and return its id once it is durable."""


class Announcer:
    """One reconciler's voice, and its memory of what it said last of each step."""

    def __init__(
        self,
        recorder: Recorder,
        *,
        tracing: Tracing | None = None,
        metrics: Metrics | None = None,
        alert: Alert | None = None,
    ) -> None:
        self._recorder = recorder
        self._tracing = tracing or Tracing("licet-reconciler")
        counts = metrics or Metrics("licet-reconciler")
        self._found = counts.counter(telemetry.METRIC_FINDINGS)
        self._strange = counts.counter(telemetry.METRIC_NOT_COUNTED)
        self._unread = counts.counter(telemetry.METRIC_LEDGER_NOT_READ)
        for finding in FindingClass:
            self._found.begin(str(finding))
        for evidence in EVIDENCES:
            self._strange.begin(evidence)
        self._unread.begin()
        self._alert = alert
        self._verdicts: OrderedDict[str, FindingClass] = OrderedDict()

    async def raise_finding(self, step: str, rows: Sequence[Row], finding: Finding, said: str = "") -> int:
        """Raise the finding unless it was said last of this step; return how many were raised.

        What this run did not say may stand in the store, from a run before: in `rows`, or as `said`.
        """
        before = self._verdicts.get(step) or _last(rows) or (FindingClass(said) if said else None)
        if before == finding.finding:
            self._remember(step, before)
            return 0
        fields = event_fields(rows, finding)
        if before is not None:
            await self._recorder.append(EventKind.FINDING_CLEARED, **{**fields, "finding": str(before)})
        await self._recorder.append(EventKind.FINDING_RAISED, **fields)
        self._trace(rows, finding)
        self._remember(step, finding.finding)
        self.count(finding.finding)
        if finding.pages:
            self._page(step, fields)
        return 1

    def count(self, finding: FindingClass) -> None:
        """Count a finding in the metric, also one that could not be recorded."""
        self._found.add(1, str(finding))

    def not_counted(self, row: Row) -> None:
        """Say that a row names a step and is no evidence of it."""
        shown = {name: str(row[name])[:200] for name in ("kind", "source", "spend_id", "signature")}
        log(LOG, logging.ERROR, "evidence.not_counted", **shown)
        self._strange.add(1, str(row["kind"]).partition(".")[0])

    def ledger_not_read(self, tool: str, error: Exception) -> None:
        """Say that a tool's ledger could not be looked at past the tool."""
        log(LOG, logging.ERROR, "ledger_reader.failed", tool=tool, error=str(error)[:300])
        self._unread.add(1)

    def _remember(self, step: str, finding: FindingClass) -> None:
        self._verdicts[step] = finding
        self._verdicts.move_to_end(step)
        while len(self._verdicts) > REMEMBERED:
            self._verdicts.popitem(last=False)

    def _page(self, step: str, fields: Mapping[str, Any]) -> None:
        shown = {name: fields.get(name, "") for name in ("finding", "resource", "tool", "tenant", "detail")}
        log(LOG, logging.ERROR, "finding.pages", step=step, **shown)
        if self._alert is not None:
            self._alert(fields)

    def _trace(self, rows: Sequence[Row], finding: Finding) -> None:
        """Leave a trace of its own, linked to the spans at the door and in the ledger that it is about."""
        recording = self._tracing.record()
        span = recording.span(telemetry.SPAN_RECONCILE, links=linked(rows))
        span.set(telemetry.FINDING, str(finding.finding))
        if finding.decided is not None:
            span.set(telemetry.DECISION_ID, finding.decided.decision_id)
            span.set(telemetry.SPEND_ID, finding.decided.spend_id)
        recording.close()
