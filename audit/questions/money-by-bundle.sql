-- Money moved, by the version of the bundle that allowed it. Amounts are of the entries that left an account.
-- param since DateTime64(6): from
SELECT decided.bundle_version AS bundle_version, changed.currency AS currency, count() AS changes,
    -sum(changed.amount_minor) AS moved_minor
FROM events AS changed
INNER JOIN (
    SELECT decision_id, max(bundle_version) AS bundle_version FROM events
    WHERE kind IN ('decision.allowed', 'decision.modified') AND time >= {since:DateTime64(6)} - INTERVAL 1 DAY
    GROUP BY decision_id
) AS decided ON decided.decision_id = changed.decision_id
WHERE changed.kind = 'ledger.changed' AND changed.amount_minor < 0 AND changed.time >= {since:DateTime64(6)}
GROUP BY bundle_version, currency
ORDER BY bundle_version, currency
