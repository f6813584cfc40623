-- Which bundle was in force at a moment? By its activation, and by the last decision made before.
-- param at DateTime64(6): the moment
-- param days UInt32 = 1: how far back to look
SELECT environment, argMaxIf(bundle_version, time_us, kind = 'bundle.activated') AS activated,
    argMaxIf(bundle_version, time_us, startsWith(kind, 'decision.')) AS last_used,
    maxIf(time, startsWith(kind, 'decision.')) AS last_used_at
FROM events
WHERE bundle_version > 0 AND (kind = 'bundle.activated' OR startsWith(kind, 'decision.'))
  AND time BETWEEN {at:DateTime64(6)} - toIntervalDay({days:UInt32}) AND {at:DateTime64(6)}
  AND toStartOfHour(time) BETWEEN toStartOfHour({at:DateTime64(6)} - toIntervalDay({days:UInt32}))
    AND toStartOfHour({at:DateTime64(6)})
GROUP BY environment
