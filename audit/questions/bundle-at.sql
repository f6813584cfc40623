-- Which bundle was in force at a moment? By its activation, and by the last decision made before.
-- param at DateTime64(6): the moment
SELECT environment, argMaxIf(bundle_version, time_us, kind = 'bundle.activated') AS activated,
    argMaxIf(bundle_version, time_us, startsWith(kind, 'decision.')) AS last_used,
    maxIf(time, startsWith(kind, 'decision.')) AS last_used_at
FROM events
WHERE bundle_version > 0 AND (kind = 'bundle.activated' OR startsWith(kind, 'decision.'))
  AND time <= {at:DateTime64(6)}
GROUP BY environment
