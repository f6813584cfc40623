-- Budget burn: what was allowed and what really moved, by hour, tenant and agent.
-- param since DateTime64(6): from, by full hours
-- panel timeseries
SELECT hour, tenant, agent, currency,
    sumIf(amount, kind IN ('decision.allowed', 'decision.modified')) AS announced_minor,
    sumIf(amount, kind = 'finding.raised' AND finding = 'ALLOWED_EXECUTED') AS executed_minor,
    sumIf(events, kind IN ('decision.allowed', 'decision.modified')) AS allowed,
    sumIf(events, kind = 'decision.denied') AS denied
FROM (
    SELECT toStartOfHour(time) AS hour, tenant, agent, kind, finding, currency, sum(toInt128(amount_minor)) AS amount,
        count() AS events
    FROM events
    WHERE currency != '' AND toStartOfHour(time) >= {since:DateTime64(6)}
      AND kind IN ('decision.allowed', 'decision.modified', 'decision.denied', 'finding.raised')
    GROUP BY toStartOfHour(time), tenant, agent, kind, finding, currency
)
GROUP BY hour, tenant, agent, currency
ORDER BY hour, announced_minor DESC
LIMIT 10000
