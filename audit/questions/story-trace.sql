-- The story with what happened in between: its events and the spans of its traces, and of traces linked to those.
-- Spans are what a collector kept (ops/otel_traces.sql): a trace may miss some, and proves nothing; events do.
-- param id String: spend id, decision id, task id or trace id
-- param since DateTime64(6) = 1970-01-01 00:00:00: stored since; a late start makes it fast on a large store
-- param traces Identifier = otel_traces: the collector's table, in the audit store's database
WITH told AS (
    SELECT time, kind, source, decision, reason, outcome, resource, finding, trace_id, span_id
    FROM events
    WHERE (spend_id = {id:String} OR decision_id = {id:String} OR task_id = {id:String} OR trace_id = {id:String})
      AND js_time >= {since:DateTime64(6)}
    ORDER BY time_us, js_stream, js_seq
    LIMIT 1000 BY source, kind, reason
    LIMIT 10000
),
(SELECT (groupUniqArrayIf(trace_id, trace_id != ''), min(time), max(time)) FROM told) AS known,
linked AS (
    SELECT DISTINCT TraceId FROM {traces:Identifier}
    WHERE Timestamp >= known.2 - INTERVAL 1 HOUR AND Timestamp <= known.3 + INTERVAL 2 DAY
      AND hasAny(Links.TraceId, known.1)
)
SELECT time, what, name, part, ms, said, trace_id, span_id, parent_id, links
FROM (
    SELECT toDateTime64(time, 9, 'UTC') AS time, 'event' AS what, kind AS name, source AS part, 0. AS ms,
        arrayStringConcat(arrayFilter(x -> x != '', [decision, reason, outcome, finding, resource]), ' ') AS said,
        trace_id, span_id, '' AS parent_id, [] :: Array(String) AS links
    FROM told
    UNION ALL
    SELECT Timestamp, 'span', SpanName, ServiceName, Duration / 1e6,
        arrayStringConcat(arrayFilter(x -> x != '', [
            SpanAttributes['licet.decision'], SpanAttributes['licet.enforcement'], SpanAttributes['licet.reason'],
            SpanAttributes['licet.outcome'], SpanAttributes['licet.finding'], SpanAttributes['error.type']]), ' '),
        TraceId, SpanId, ParentSpanId, Links.SpanId
    FROM {traces:Identifier}
    WHERE TraceId IN (SELECT arrayJoin(known.1)) OR TraceId IN (SELECT TraceId FROM linked)
)
ORDER BY time, what DESC
LIMIT 10000
