-- The story of a step, permit, task or trace: everything on record, in the order it happened.
-- Of what one source said with one reason, the first 1,000; `times` is how often it said so.
-- param id String: spend id, decision id, task id or trace id
-- param since DateTime64(6) = 1970-01-01 00:00:00: stored since; a late start makes it fast on a large store
SELECT time, kind, source, decision, reason, outcome, resource, amount_minor, currency, finding, decision_id,
    spend_id, count() OVER (PARTITION BY source, kind, reason) AS times
FROM events
WHERE (spend_id = {id:String} OR decision_id = {id:String} OR task_id = {id:String} OR trace_id = {id:String})
  AND js_time >= {since:DateTime64(6)}
ORDER BY time_us, js_stream, js_seq
LIMIT 1000 BY source, kind, reason
LIMIT 10000
