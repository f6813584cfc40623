-- The story of a step, permit, task or trace: everything on record, in the order it happened.
-- param id String: spend id, decision id, task id or trace id
-- param since DateTime64(6) = 1970-01-01 00:00:00: stored since; a late start makes it fast on a large store
SELECT time, kind, source, decision, reason, outcome, resource, amount_minor, currency, finding, decision_id,
    spend_id
FROM events
WHERE (spend_id = {id:String} OR decision_id = {id:String} OR task_id = {id:String} OR trace_id = {id:String})
  AND js_time >= {since:DateTime64(6)}
ORDER BY time_us, js_stream, js_seq
LIMIT 10000
