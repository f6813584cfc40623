"""The reconciler: joins the three evidences of every step, raises findings, fences what was left open.

Guarantees: every step with evidence in the store gets a finding once it is settled, and another one if a
later change turns it (a denial that was bypassed after all); findings that page are raised at the poll that
sees them; a round without outcome is fenced once its permit has ended, and the outcome is the guard's word.
It writes nothing but its own journal. A new run begins with what has no finding (audit.judging.beginning) and
where `ledger_cursors` says; it says nothing again that the store has. What was raised in the last seconds
before a kill may be raised a second time: the same class of the same step.

One step that cannot be judged stops no other: it is raised as NOT_JUDGED, which pages, and tried again.

Not guaranteed: that it sees more than the store has; the writer's lag is its lag.
"""

import asyncio
import logging
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from clickhouse_connect.driver.exceptions import OperationalError

from audit.judging.announce import REMEMBERED, Announcer, Recorder
from audit.judging.beginning import NEW_FIELDS, NEW_ROWS, begin, said_of_row
from audit.judging.evidence import beside_rows, rows_of_steps
from audit.judging.fence import FenceError, Fencer, Patience
from audit.judging.finding_event import decided_of, group, name_of, trace_of
from audit.judging.findings import (
    WINDOW_US,
    Change,
    Finding,
    FindingClass,
    Story,
    classify,
    fence_due,
)
from audit.judging.ledger_reader import LedgerReader, LedgerReaderError
from audit.judging.ledger_rows import LedgerRows
from audit.judging.story import Row, change, split, story_of
from licet.event import EventKind
from licet.journal.spool import SpoolError
from licet.log import log, of_trace
from licet.metrics import Metrics
from licet.streams import StreamsError
from licet.tracing import Tracing

LOG: Final = logging.getLogger(__name__)
CHUNK: Final = 200
"""Steps judged by one query."""
MAX_NEW: Final = 20_000
"""Rows looked at in one poll; the rest come with the next."""
READER_TIER: Final = 4
CLOCK_US: Final = 3_600_000_000
"""JetStream's clock may go back by so much when its leader changes."""
KEPT_US: Final = 26 * 3_600_000_000
"""A step's rows were stored within so much of one another, or it is no open step any more."""
STRAY_US: Final = 10_000_000
"""A ledger row whose spend id is on no other record after 10 s belongs to no step."""
FENCE_FAILURES: Final = 5
"""So many failed fences make an open round a person's matter."""


JUDGE_FAILURES: Final = 5
"""After so many failures a step is left to people, until something new is stored of it."""
AWAY: Final = (OperationalError, StreamsError, SpoolError, OSError)
"""The store, the streams or the journal are away: no step's own fault, the whole poll starts again."""

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
        self._announcer = Announcer(recorder, tracing=tracing, metrics=metrics, alert=alert)
        self._fencer = fencer
        self._readers = readers
        self._labels = labels
        self._cursors: dict[str, int] | None = None
        self._rows = LedgerRows(ledger_cursors)
        self._begun_us = 0
        self._before: set[str] = set()
        self._seen_us: dict[str, int] = {}
        self._open: dict[str, None] = {}
        self._strangers: OrderedDict[str, None] = OrderedDict()
        self._denied: dict[tuple[str, str, str], dict[str, int]] = defaultdict(dict)
        self._patience = Patience()
        self._judging = Patience()

    @property
    def ledger_cursors(self) -> dict[str, int]:
        """Where each tool's ledger is to be read from by the next run; keep it over restarts."""
        return self._rows.safe()

    @property
    def open_steps(self) -> int:
        """How many steps are not settled yet."""
        return len(self._open)

    async def poll(self, now_us: int) -> int:
        """Look at what is new and at what is open; return how many findings were raised.

        Raises what the client raises; the next poll goes on where this one stopped.
        """
        raised = await self._begin(now_us) if self._cursors is None else 0
        raised += await self._collect(now_us)
        waiting = [step for step in self._open if self._judging.ready(step, 0, now_us)]
        for start in range(0, len(waiting), CHUNK):
            raised += await self._judge(waiting[start : start + CHUNK], now_us)
        for tool, reader in self._readers.items():
            await self._read_ledger(tool, reader, now_us)
        self._rows.conclude(self._open)
        self._forget(now_us)
        return raised

    async def _begin(self, now_us: int) -> int:
        """Start with what has no finding yet."""
        found = await asyncio.to_thread(begin, self._client, now_us)
        self._open.update((step, None) for step in found.steps)
        self._begun_us, self._before = found.since_us, set(found.steps)
        orphans = [dict(zip(NEW_FIELDS, row, strict=True)) for row in found.orphans]
        raised = sum([await self._notice_safely(row, now_us) for row in orphans])
        self._cursors = found.last
        log(LOG, logging.INFO, "reconciler.begins", open=len(self._open), since_us=found.since_us)
        return raised

    async def _collect(self, now_us: int) -> int:
        """Note the steps that new rows are about, and denials whose resource a new row changed."""
        assert self._cursors is not None
        raised = 0
        for stream in self._streams:
            last, since = self._cursors.get(stream, 0), self._seen_us.get(stream, 0)
            given = {"stream": stream, "last": last, "limit": MAX_NEW, "since": max(since - CLOCK_US, 0)}
            for row in await self._query(NEW_ROWS, given):
                raised += await self._notice_safely(dict(zip(NEW_FIELDS, row, strict=True)), now_us)
                self._cursors[stream], self._seen_us[stream] = int(row[0]), int(row[-1])
        return raised

    async def _notice_safely(self, row: Row, now_us: int) -> int:
        try:
            return await self._notice(row, now_us)
        except AWAY:
            raise
        except Exception as error:  # noqa: BLE001 - this row's fault: the next ones are looked at
            return await self._not_judged(name_of(row), [], error)

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
        """Judge these steps; together where that works, else each by itself."""
        try:
            by_step, beside = await self._evidence(steps, now_us)
        except AWAY:
            raise
        except Exception as error:  # noqa: BLE001 - one step must not stop the others
            if len(steps) > 1:
                return sum([await self._judge([step], now_us) for step in steps])
            return await self._failed(steps[0], [], error, now_us)
        raised = 0
        for step in steps:
            rows = by_step.get(step, [])
            with of_trace(trace_of(rows)):
                try:
                    raised += await self._judge_step(step, rows, beside, now_us)
                except AWAY:
                    raise
                except Exception as error:  # noqa: BLE001 - one step must not stop the others
                    raised += await self._failed(step, rows, error, now_us)
                else:
                    self._judging.done(step, 0)
        return raised

    async def _evidence(
        self, steps: Sequence[str], now_us: int
    ) -> tuple[Mapping[str, list[Row]], Sequence[Row]]:
        since = now_us - KEPT_US
        if not self._before.isdisjoint(steps):  # from before this run, however long nothing ran
            since = min(since, self._begun_us - KEPT_US)
        rows = await asyncio.to_thread(rows_of_steps, self._client, steps, steps, since_us=since)
        beside = await asyncio.to_thread(beside_rows, self._client, rows) if rows else []
        return group(rows, steps), beside

    async def _judge_step(self, step: str, found: Sequence[Row], beside: Iterable[Row], now_us: int) -> int:
        if not found:
            return await self._stray(step, now_us)
        own = next((str(row["spend_id"]) for row in found if row["spend_id"]), step)
        if own != step:  # named by a decision, but it has a spend id: judged under that one
            self._open.pop(step, None)
            self._open[own] = None
            return 0
        raised = 0
        fitting, strangers = split(found)
        for row in strangers:
            raised += await self._stranger(row, now_us)
        if not fitting:
            self._open.pop(step, None)
            return raised
        story = await self._story(found, beside)
        finding = classify(story, now_us=now_us)
        await self._fence(step, fitting, story, now_us)
        return raised + await self._conclude(step, fitting, finding, now_us)

    async def _stranger(self, row: Row, now_us: int) -> int:
        """A row that names another tool's step, or is badly signed; a change is its own tool's."""
        key = f"{row['source']} {row['event_id']}"
        if key in self._strangers:
            return 0
        self._strangers[key] = None
        while len(self._strangers) > REMEMBERED:
            self._strangers.popitem(last=False)
        self._announcer.not_counted(row)
        if row["kind"] != EventKind.LEDGER_CHANGED:
            return 0
        return await self._orphan(replace(change(row), decision_id="", spend_id=""), now_us)

    async def _failed(self, step: str, rows: Sequence[Row], error: Exception, now_us: int) -> int:
        """A step that cannot be judged: page, wait longer and longer, and leave it to people in the end."""
        if self._judging.failed(step, 0, now_us) >= JUDGE_FAILURES:
            self._open.pop(step, None)
            self._judging.done(step, 0)
        return await self._not_judged(step, rows, error)

    async def _not_judged(self, step: str, rows: Sequence[Row], error: Exception) -> int:
        detail = f"step {step[:100]}: {type(error).__name__}: {error}"[:400]
        log(LOG, logging.ERROR, "step.not_judged", step=step[:200], error=detail)
        try:
            return await self._announcer.raise_finding(
                step, rows, Finding(FindingClass.NOT_JUDGED, detail, True)
            )
        except AWAY:
            raise
        except Exception as second:  # noqa: BLE001 - not even that can be written: the log pages
            shown = {"finding": FindingClass.NOT_JUDGED, "detail": repr(second)}
            log(LOG, logging.ERROR, "finding.pages", step=step[:200], **shown)
            self._announcer.count(FindingClass.NOT_JUDGED)
            return 0

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
            self._announcer.ledger_not_read(tool, error)
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
        return await self._announcer.raise_finding(step, rows, finding)

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
                    open_round = Finding(FindingClass.UNKNOWN_OUTCOME, detail, True, decided_of(story))
                    await self._announcer.raise_finding(step, rows, open_round)
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
            rows = await asyncio.to_thread(reader.after, self._rows.cursor(tool))
        except LedgerReaderError as error:
            self._announcer.ledger_not_read(tool, error)
            return 0
        for cursor, found in rows:
            try:
                await self._read_row(found, cursor, now_us)
            except AWAY:
                raise
            except Exception as error:  # noqa: BLE001 - one step must not stop the others
                await self._not_judged(f"ledger:{tool}:row {cursor}", [], error)
            self._rows.passed(tool, cursor)
        return len(rows)

    async def _read_row(self, found: Change | LedgerReaderError, cursor: int, now_us: int) -> None:
        if isinstance(found, LedgerReaderError):
            raise found
        if not found.spend_id:
            await self._orphan(replace(found, time_us=now_us), now_us)
        else:
            self._rows.wait(found.spend_id, replace(found, time_us=now_us), cursor)
            self._open[found.spend_id] = None

    async def _stray(self, step: str, now_us: int) -> int:
        """Judge a step that only the ledger knows: wait until its evidence had time to come."""
        seen = self._rows.of(step)
        if seen is not None and now_us - seen.time_us < STRAY_US:
            return 0
        if seen is not None and step not in self._before:  # its evidence may be older than is looked for
            rows = await asyncio.to_thread(rows_of_steps, self._client, [step], [step])
            if rows:
                self._before.add(step)
                self._begun_us = min(self._begun_us or now_us, *(int(row["js_time_us"]) for row in rows))
                return 0
        self._open.pop(step, None)
        return 0 if seen is None else await self._orphan(seen, now_us)

    async def _orphan(self, seen: Change, now_us: int) -> int:
        """Judge a change that belongs to no step."""
        place: Row = {"resource": seen.resource, "time_us": seen.time_us, "js_time_us": seen.time_us}
        beside = await asyncio.to_thread(beside_rows, self._client, [place])
        others = story_of((), beside).other_decisions
        finding = classify(Story(changes=(seen,), other_decisions=others), now_us=now_us)
        if not finding.changes:
            return 0  # a back-office issuer's row
        said = await asyncio.to_thread(said_of_row, self._client, seen.tool, seen.change_id)
        return await self._announcer.raise_finding(f"ledger:{seen.tool}:{seen.change_id}", [], finding, said)

    def _forget(self, now_us: int) -> None:
        for key in list(self._denied):
            fresh = {step: at for step, at in self._denied[key].items() if now_us - at <= WINDOW_US}
            if fresh:
                self._denied[key] = fresh
            else:
                del self._denied[key]

    async def _query(self, sql: str, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        result = await asyncio.to_thread(self._client.query, sql, parameters=dict(parameters))
        rows: Sequence[Sequence[Any]] = result.result_rows
        return rows
