-- Money moved, by the version of the bundle that allowed it, as the reconciler found it. Version 0: nobody did.
-- param since DateTime64(6): from, by full hours
SELECT bundle_version, currency, finding, count() AS steps, sum(toInt128(amount_minor)) AS moved_minor
FROM events
WHERE kind = 'finding.raised' AND currency != '' AND toStartOfHour(time) >= {since:DateTime64(6)}
GROUP BY bundle_version, currency, finding
ORDER BY bundle_version, currency, finding
