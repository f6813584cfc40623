-- What did this agent do in this window?
-- param agent String: the agent
-- param since DateTime64(6): from
-- param until DateTime64(6) = 2100-01-01 00:00:00: to
SELECT time, task_id, operation, resource, decision, reason, amount_minor, currency, decision_id
FROM events
WHERE agent = {agent:String} AND startsWith(kind, 'decision.')
  AND time >= {since:DateTime64(6)} AND time < {until:DateTime64(6)}
  AND toStartOfHour(time) BETWEEN toStartOfHour({since:DateTime64(6)}) AND toStartOfHour({until:DateTime64(6)})
ORDER BY time
LIMIT 1000
