-- Events missing or late: holes in each stream, how old its newest row is; of the last hours, what was
-- quarantined, sent twice, or came more than 10 s after it happened.
-- param hours UInt32 = 24: how far back to look for these
SELECT js_stream, first, last, missing, last_time AS newest, dateDiff('second', last_time, now()) AS age_s,
    recent.quarantined, recent.repeated, recent.late
FROM stream_offsets
LEFT JOIN (
    SELECT js_stream, countIf(kind = 'quarantined') AS quarantined, countIf(kind = 'repeated') AS repeated,
        countIf(js_time_us - time_us > 10000000 AND kind != 'quarantined') AS late
    FROM events
    WHERE js_time >= now() - toIntervalHour({hours:UInt32})
    GROUP BY js_stream
) AS recent USING (js_stream)
ORDER BY js_stream
