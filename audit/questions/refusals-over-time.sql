-- Refusals by reason over time: at the door and by decision, by the minute.
-- param since DateTime64(6): from
-- panel timeseries
SELECT toStartOfMinute(time) AS minute, kind, reason, tool, count() AS refusals
FROM events
WHERE kind IN ('door.refused', 'decision.denied', 'decision.failed') AND toStartOfMinute(time) >= {since:DateTime64(6)}
GROUP BY toStartOfMinute(time), kind, reason, tool
ORDER BY minute, refusals DESC
LIMIT 10000
