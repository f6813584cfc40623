-- Why was this call refused? Every decision and door event of the step, with what only operators may see.
-- param task String: the task
-- param call String: the call id
SELECT time, kind, decision, reason, rule_ids, bundle_version, detail, summary
FROM events
WHERE task_id = {task:String} AND call_id = {call:String}
  AND (startsWith(kind, 'decision.') OR startsWith(kind, 'door.'))
ORDER BY time_us, js_seq
LIMIT 1000
