-- Decisions that failed rather than denied: no usable answer was given, which is no correct denial.
-- param since DateTime64(6): from
-- panel timeseries
SELECT toStartOfHour(toStartOfMinute(time)) AS hour, tool, reason, count() AS failures
FROM events
WHERE kind = 'decision.failed' AND toStartOfMinute(time) >= {since:DateTime64(6)}
GROUP BY hour, tool, reason
ORDER BY hour, failures DESC
LIMIT 10000
