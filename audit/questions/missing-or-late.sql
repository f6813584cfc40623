-- Events missing or late: holes in each stream, how old its newest row is, what was quarantined or sent twice.
SELECT js_stream, min(js_seq) AS first, max(js_seq) AS last, last - first + 1 - count() AS missing,
    max(js_time) AS newest, dateDiff('second', newest, now()) AS age_s,
    countIf(kind = 'quarantined') AS quarantined, countIf(kind = 'repeated') AS repeated,
    countIf(js_time_us - time_us > 10000000 AND kind != 'quarantined') AS later_than_10_s
FROM events
GROUP BY js_stream
ORDER BY js_stream
