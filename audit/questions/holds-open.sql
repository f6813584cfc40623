-- Holds that are open, and their age in seconds.
SELECT hold_id, min(time) AS held_at, dateDiff('second', held_at, now()) AS age_s, any(agent) AS agent,
    any(operation) AS operation, any(resource) AS resource, any(rule_ids) AS rules
FROM events
WHERE hold_id != '' AND kind IN ('decision.held', 'approval.requested')
  AND hold_id NOT IN (
    SELECT hold_id FROM events
    WHERE hold_id != '' AND kind IN ('approval.expired', 'decision.allowed', 'decision.denied', 'decision.modified'))
GROUP BY hold_id
ORDER BY held_at
LIMIT 1000
