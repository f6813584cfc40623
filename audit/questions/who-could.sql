-- Who could have done X at T? Agents that were allowed the operation on the resource around the moment, with the
-- bundle and the rules that allowed it. What nobody tried is not on record: replay the bundle for that.
-- param operation String: the operation
-- param resource String: the resource
-- param at DateTime64(6): the moment
-- param hours UInt32 = 24: how far around it
SELECT agent, principal, caller, bundle_version, rule_ids, count() AS times, min(time) AS first, max(time) AS last
FROM events
WHERE kind IN ('decision.allowed', 'decision.modified') AND operation = {operation:String}
  AND resource = {resource:String}
  AND time BETWEEN {at:DateTime64(6)} - toIntervalHour({hours:UInt32}) AND {at:DateTime64(6)} + toIntervalHour({hours:UInt32})
  AND toStartOfHour(time) BETWEEN toStartOfHour({at:DateTime64(6)} - toIntervalHour({hours:UInt32}))
    AND toStartOfHour({at:DateTime64(6)} + toIntervalHour({hours:UInt32}))
GROUP BY agent, principal, caller, bundle_version, rule_ids
ORDER BY times DESC
LIMIT 1000
