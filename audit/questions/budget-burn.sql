-- Budget burn: what was allowed and what really moved, by agent, tenant and hour.
-- param since DateTime64(6): from
SELECT toStartOfHour(time) AS hour, tenant, agent, currency,
    sumIf(amount_minor, kind IN ('decision.allowed', 'decision.modified')) AS announced_minor,
    sumIf(amount_minor, kind = 'finding.raised' AND finding = 'ALLOWED_EXECUTED') AS executed_minor,
    countIf(kind IN ('decision.allowed', 'decision.modified')) AS allowed,
    countIf(kind = 'decision.denied') AS denied
FROM events
WHERE currency != '' AND time >= {since:DateTime64(6)}
  AND (startsWith(kind, 'decision.') OR kind = 'finding.raised')
GROUP BY hour, tenant, agent, currency
ORDER BY hour, announced_minor DESC
LIMIT 10000
