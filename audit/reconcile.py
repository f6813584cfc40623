"""The reconciler: joins the three evidences of every step, raises findings, fences what was left open.

Guarantees: every step with evidence in the store gets a finding once it is settled, and another one if a
later change turns it (a denial that was bypassed after all); findings that page are raised at the poll that
sees them; a round without outcome is fenced once its permit has ended, and the outcome is the guard's word.
It writes nothing but its own journal. After a crash a finding may be raised a second time, the same one.

Not guaranteed: that it sees more than the store has; the writer's lag is its lag.
"""

import asyncio
import logging
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, Protocol

from audit.evidence import Row, beside_rows, change, rows_of_steps, story_of
from audit.fence import FenceError, Fencer, Patience
from audit.findings import WINDOW_US, Change, Decided, Finding, FindingClass, Story, classify, fence_due
from audit.ledger_reader import LedgerReader, LedgerReaderError
from licet import telemetry
from licet.event import EventKind
from licet.log import log
from licet.metrics import Metrics
from licet.tracing import TraceContext, Tracing

LOG: Final = logging.getLogger(__name__)
CHUNK: Final = 200
"""Steps judged by one query."""
NEW_FIELDS: Final = (
    "js_seq", "kind", "spend_id", "decision_id", "tenant", "tool", "resource", "entry", "change_id",
    "account", "amount_minor", "currency", "time_us", "issuer", "js_time_us",
)  # fmt: skip
MAX_NEW: Final = 20_000
"""Rows looked at in one poll; the rest come with the next."""
REMEMBERED: Final = 200_000
"""Verdicts kept in memory to see a change of verdict; an older step is raised again if it changes."""
LOOKBACK_H: Final = 24
READER_TIER: Final = 4
CLOCK_US: Final = 3_600_000_000
"""JetStream's clock may go back by so much when its leader changes."""
KEPT_US: Final = 26 * 3_600_000_000
"""A step's rows were stored within so much of one another, or it is no open step any more."""
STRAY_US: Final = 10_000_000
"""A ledger row whose spend id is on no other record after 10 s belongs to no step."""
FENCE_FAILURES: Final = 5
"""So many failed fences make an open round a person's matter."""


class Recorder(Protocol):
    """Where findings go: a journal."""

    async def append(self, kind: EventKind, **fields: Any) -> str:
        """Record an event and return its id once it is durable."""


UNJUDGED: Final = """
SELECT DISTINCT if(spend_id != '', spend_id, decision_id) AS step FROM events
WHERE js_time > now() - toIntervalHour({hours:UInt32}) AND step != ''
  AND (startsWith(kind, 'decision.') OR startsWith(kind, 'spend.') OR kind = 'ledger.changed')
  AND step NOT IN (
    SELECT if(spend_id != '', spend_id, decision_id) FROM events
    WHERE kind = 'finding.raised' AND js_time > now() - toIntervalHour(2 * {hours:UInt32}))
"""
NEW_ROWS: Final = """
SELECT js_seq, kind, spend_id, decision_id, tenant, tool, resource, entry, change_id, account, amount_minor,
    currency, time_us, issuer, js_time_us
FROM events WHERE js_stream = {stream:String} AND js_seq > {last:UInt64}
  AND js_time >= fromUnixTimestamp64Micro({since:Int64})
ORDER BY js_seq LIMIT {limit:UInt32}
"""

Labels = Mapping[tuple[str, str], tuple[str, ...]]
"""Rule ids that should decide, by (task id, call id)."""


class Reconciler:
    """One reconciler over one store. `poll` does one round; call it again and again."""

    def __init__(
        self,
        client: Any,
        recorder: Recorder,
        fencer: Fencer,
        readers: Mapping[str, LedgerReader],
        *,
        streams: Sequence[str],
        labels: Labels = MappingProxyType({}),
        ledger_cursors: Mapping[str, int] = MappingProxyType({}),
        tracing: Tracing | None = None,
        metrics: Metrics | None = None,
        alert: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        self._client = client
        self._streams = tuple(streams)
        self._recorder = recorder
        self._fencer = fencer
        self._readers = readers
        self._labels = labels
        self._alert = alert
        self._tracing = tracing or Tracing("licet-reconciler")
        self._found = (metrics or Metrics("licet-reconciler")).counter(telemetry.METRIC_FINDINGS)
        self._cursors: dict[str, int] | None = None
        self._cursors_of_ledgers = defaultdict(int, ledger_cursors)
        self._seen_us: dict[str, int] = {}
        self._strays: dict[str, Change] = {}
        self._open: dict[str, None] = {}
        self._verdicts: OrderedDict[str, FindingClass] = OrderedDict()
        self._denied: dict[tuple[str, str, str], dict[str, int]] = defaultdict(dict)
        self._patience = Patience()

    @property
    def ledger_cursors(self) -> dict[str, int]:
        """How far each tool's ledger was read; keep it over restarts."""
        return dict(self._cursors_of_ledgers)

    @property
    def open_steps(self) -> int:
        """How many steps are not settled yet."""
        return len(self._open)

    async def poll(self, now_us: int) -> int:
        """Look at what is new and at what is open; return how many findings were raised.

        Raises what the client raises; the next poll goes on where this one stopped.
        """
        if self._cursors is None:
            await self._begin()
        raised = await self._collect(now_us)
        waiting = list(self._open)
        for start in range(0, len(waiting), CHUNK):
            raised += await self._judge(waiting[start : start + CHUNK], now_us)
        for tool, reader in self._readers.items():
            await self._read_ledger(tool, reader, now_us)
        self._forget(now_us)
        return raised

    async def _begin(self) -> None:
        """Start with the steps of the last day that have no finding yet."""
        offsets = await self._query("SELECT js_stream, last FROM stream_offsets", {})
        rows = await self._query(UNJUDGED, {"hours": LOOKBACK_H})
        self._open.update((str(step), None) for (step,) in rows)
        self._cursors = {str(stream): int(last) for stream, last in offsets}
        log(LOG, logging.INFO, "reconciler.begins", open=len(self._open))

    async def _collect(self, now_us: int) -> int:
        """Note the steps that new rows are about, and denials whose resource a new row changed."""
        assert self._cursors is not None
        raised = 0
        for stream in self._streams:
            last, since = self._cursors.get(stream, 0), self._seen_us.get(stream, 0)
            given = {"stream": stream, "last": last, "limit": MAX_NEW, "since": max(since - CLOCK_US, 0)}
            for row in await self._query(NEW_ROWS, given):
                raised += await self._notice(dict(zip(NEW_FIELDS, row, strict=True)), now_us)
                self._cursors[stream], self._seen_us[stream] = int(row[0]), int(row[-1])
        return raised

    async def _notice(self, row: Row, now_us: int) -> int:
        kind, step = str(row["kind"]), str(row["spend_id"] or row["decision_id"])
        if step and kind.startswith(("decision.", "spend.", "door.", "ledger.")):
            self._open[step] = None
        if kind != EventKind.LEDGER_CHANGED:
            return 0
        resource = (str(row["tenant"]), str(row["tool"]), str(row["resource"]))
        self._open.update((denied, None) for denied in self._denied.get(resource, ()))
        if step:
            return 0
        return await self._orphan(change({**row, "call_digest": ""}), now_us)

    async def _judge(self, steps: Sequence[str], now_us: int) -> int:
        rows = await asyncio.to_thread(rows_of_steps, self._client, steps, steps, since_us=now_us - KEPT_US)
        by_step = group(rows, steps)
        beside = await asyncio.to_thread(beside_rows, self._client, rows) if rows else []
        raised = 0
        for step in steps:
            found = by_step.get(step)
            if not found:
                raised += await self._stray(step, now_us)
                continue
            own = next((str(row["spend_id"]) for row in found if row["spend_id"]), step)
            if own != step:  # named by a decision, but it has a spend id: judged under that one
                self._open.pop(step, None)
                self._open[own] = None
                continue
            story = await self._story(found, beside)
            finding = classify(story, now_us=now_us)
            await self._fence(step, found, story, now_us)
            raised += await self._conclude(step, found, finding, now_us)
        return raised

    async def _story(self, rows: Sequence[Row], beside: Iterable[Row]) -> Story:
        resources = {row["resource"] for row in rows if row["resource"]}
        near = [row for row in beside if row["resource"] in resources]
        label = next(
            (found for row in rows if (found := self._labels.get((row["task_id"], row["call_id"])))), None
        )
        story = story_of(rows, near, label=label)
        tool = next((one.tool for one in story.decisions if one.tier >= READER_TIER), "")
        reader = self._readers.get(tool)
        spend_id = next((str(row["spend_id"]) for row in rows if row["spend_id"]), "")
        if reader is None or not spend_id:
            return story
        try:
            ledger_rows = await asyncio.to_thread(reader.of_step, spend_id)
        except LedgerReaderError as error:
            log(LOG, logging.ERROR, "ledger_reader.failed", tool=tool, error=str(error)[:300])
            return story
        return story_of(rows, near, label=label, ledger_rows=ledger_rows)

    async def _conclude(self, step: str, rows: Sequence[Row], finding: Finding, now_us: int) -> int:
        """Raise the finding if it is settled and new; keep what must be watched."""
        decided = finding.decided
        if decided is not None and not decided.usable and decided.resource:
            key = (decided.tenant, decided.tool, decided.resource)
            if now_us - decided.time_us <= WINDOW_US:
                self._denied[key][step] = decided.time_us
        if not finding.settled:
            return 0
        self._open.pop(step, None)
        return await self._raise(step, rows, finding)

    async def _raise(self, step: str, rows: Sequence[Row], finding: Finding) -> int:
        before = self._verdicts.get(step)
        if before == finding.finding:
            return 0
        fields = event_fields(rows, finding)
        if before is not None:
            await self._recorder.append(EventKind.FINDING_CLEARED, **{**fields, "finding": str(before)})
        await self._recorder.append(EventKind.FINDING_RAISED, **fields)
        self._trace(rows, finding)
        self._verdicts[step] = finding.finding
        self._verdicts.move_to_end(step)
        self._found.add(1, str(finding.finding))
        if finding.pages:
            shown = {
                name: fields.get(name, "") for name in ("finding", "resource", "tool", "tenant", "detail")
            }
            log(LOG, logging.ERROR, "finding.pages", step=step, **shown)
            if self._alert is not None:
                self._alert(fields)
        return 1

    def _trace(self, rows: Sequence[Row], finding: Finding) -> None:
        """Leave a trace of its own, linked to the spans at the door and in the ledger that it is about."""
        recording = self._tracing.record()
        span = recording.span(telemetry.SPAN_RECONCILE, links=linked(rows))
        span.set(telemetry.FINDING, str(finding.finding))
        if finding.decided is not None:
            span.set(telemetry.DECISION_ID, finding.decided.decision_id)
            span.set(telemetry.SPEND_ID, finding.decided.spend_id)
        recording.close()

    async def _fence(self, step: str, rows: Sequence[Row], story: Story, now_us: int) -> None:
        for reserve in fence_due(story, now_us=now_us):
            row = next(
                row
                for row in rows
                if row["kind"] == EventKind.SPEND_RESERVED and row["round"] == reserve.round
            )
            spend_id = str(row["spend_id"])
            if not self._patience.ready(spend_id, reserve.round, now_us):
                continue
            try:
                await self._fencer.fence(str(row["tool"]), await self._record_of(row))
            except FenceError as error:
                failures = self._patience.failed(spend_id, reserve.round, now_us)
                log(LOG, logging.WARNING, "fence.failed", spend_id=spend_id, error=str(error)[:300])
                if failures == FENCE_FAILURES:
                    detail = f"not fenced after {failures} tries: {error}"
                    open_round = Finding(FindingClass.UNKNOWN_OUTCOME, detail, True, _decided(story))
                    await self._raise(step, rows, open_round)
            else:
                self._patience.done(spend_id, reserve.round)
                log(LOG, logging.INFO, "fence.closed", spend_id=spend_id, round=reserve.round)

    async def _record_of(self, row: Row) -> bytes:
        """Return the signed reserve record, as the sidecar stored it."""
        result = await asyncio.to_thread(
            self._client.query,
            "SELECT event FROM events WHERE kind = 'spend.reserved' AND event_id = {id:String} LIMIT 1",
            parameters={"id": row["event_id"]},
            column_formats={"event": "bytes"},
        )
        return bytes(result.result_rows[0][0])

    async def _read_ledger(self, tool: str, reader: LedgerReader, now_us: int) -> int:
        """Look at ledger rows that are new, whoever wrote them; return how many."""
        try:
            rows = await asyncio.to_thread(reader.after, self._cursors_of_ledgers[tool])
        except LedgerReaderError as error:
            log(LOG, logging.ERROR, "ledger_reader.failed", tool=tool, error=str(error)[:300])
            return 0
        for cursor, found in rows:
            self._cursors_of_ledgers[tool] = cursor
            if not found.spend_id:
                await self._orphan(replace(found, time_us=now_us), now_us)
            else:
                self._strays[found.spend_id] = replace(found, time_us=now_us)
                self._open[found.spend_id] = None
        return len(rows)

    async def _stray(self, step: str, now_us: int) -> int:
        """Judge a step that only the ledger knows: wait until its evidence had time to come."""
        seen = self._strays.get(step)
        if seen is not None and now_us - seen.time_us < STRAY_US:
            return 0
        self._open.pop(step, None)
        self._strays.pop(step, None)
        return 0 if seen is None else await self._orphan(seen, now_us)

    async def _orphan(self, seen: Change, now_us: int) -> int:
        """Judge a change that belongs to no step."""
        place: Row = {"resource": seen.resource, "time_us": seen.time_us}
        beside = await asyncio.to_thread(beside_rows, self._client, [place])
        others = story_of((), beside).other_decisions
        finding = classify(Story(changes=(seen,), other_decisions=others), now_us=now_us)
        if not finding.changes:
            return 0  # a back-office issuer's row
        return await self._raise(f"ledger:{seen.tool}:{seen.change_id}", [], finding)

    def _forget(self, now_us: int) -> None:
        for key in list(self._denied):
            fresh = {step: at for step, at in self._denied[key].items() if now_us - at <= WINDOW_US}
            if fresh:
                self._denied[key] = fresh
            else:
                del self._denied[key]
        while len(self._verdicts) > REMEMBERED:
            self._verdicts.popitem(last=False)

    async def _query(self, sql: str, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        result = await asyncio.to_thread(self._client.query, sql, parameters=dict(parameters))
        rows: Sequence[Sequence[Any]] = result.result_rows
        return rows


def linked(rows: Iterable[Row]) -> tuple[TraceContext, ...]:
    """Return the spans that a finding is about: of the door, else of the decision, and of the ledger."""
    rows = [row for row in rows if row["trace_id"] and row["span_id"]]
    kinds = ("door.", "ledger.") if any(row["kind"].startswith("door.") for row in rows) else ("decision.",)
    found = [(row["trace_id"], row["span_id"]) for row in rows if row["kind"].startswith(kinds)]
    return tuple(TraceContext(str(trace), str(span)) for trace, span in dict.fromkeys(found))


def _decided(story: Story) -> Decided | None:
    return max(story.decisions, key=lambda decided: decided.time_us, default=None)


def group(rows: Iterable[Row], steps: Iterable[str]) -> dict[str, list[Row]]:
    """Return the rows of each step; a row that has only a decision id goes to that decision's step."""
    rows = list(rows)
    step_of = {
        str(row["decision_id"]): str(row["spend_id"] or row["decision_id"])
        for row in rows
        if row["decision_id"] and row["spend_id"]
    }
    wanted = set(steps)
    grouped: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        decision_id = str(row["decision_id"])
        own = {str(row["spend_id"]) or step_of.get(decision_id, decision_id), decision_id}
        for step in own & wanted:
            grouped[step].append(row)
    return grouped


def event_fields(rows: Sequence[Row], finding: Finding) -> dict[str, Any]:
    """Return the fields of the finding's event: the step's own ids, the money that moved, the verdict."""
    names = ("tenant", "principal", "agent", "task_id", "call_id", "spend_id", "tool", "method", "operation",
             "resource", "trace_id")  # fmt: skip
    fields: dict[str, Any] = {name: next((str(row[name]) for row in rows if row[name]), "") for name in names}
    first = finding.changes[0] if finding.changes else None
    fields["bundle_version"] = _bundle_version(rows, finding)
    fields["tier"] = max((int(row["tier"]) for row in rows), default=0)
    fields["decision_id"] = finding.decided.decision_id if finding.decided else ""
    if first is not None:
        fields["tenant"] = fields["tenant"] or first.tenant
        fields["tool"] = fields["tool"] or first.tool
        fields["resource"] = fields["resource"] or first.resource
        fields["currency"] = first.currency
        fields["change_id"] = first.change_id
        fields["amount_minor"] = max(
            sum(change.amount_minor for change in finding.changes if change.amount_minor > 0),
            -sum(change.amount_minor for change in finding.changes if change.amount_minor < 0),
        )
    return {**fields, "finding": str(finding.finding), "detail": finding.detail}


def _bundle_version(rows: Sequence[Row], finding: Finding) -> int:
    """The version that made the decision the finding is about; 0 where there is none."""
    wanted = finding.decided.decision_id if finding.decided else ""
    return next((int(row["bundle_version"]) for row in rows if wanted and row["decision_id"] == wanted), 0)
