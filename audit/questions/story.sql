-- The story of a step, permit, task or trace: everything on record, in the order it happened.
-- param id String: spend id, decision id, task id or trace id
SELECT time, kind, source, decision, reason, outcome, resource, amount_minor, currency, finding, decision_id, spend_id
FROM events
WHERE spend_id = {id:String} OR decision_id = {id:String} OR task_id = {id:String} OR trace_id = {id:String}
ORDER BY time_us, js_stream, js_seq
LIMIT 10000
