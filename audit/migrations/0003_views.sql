-- What could not be read, with its bytes and the reason; nothing is dropped.
CREATE VIEW IF NOT EXISTS quarantine ${on_cluster} AS
SELECT js_time, js_stream, js_subject, js_seq, reason, detail, event
FROM events WHERE kind = 'quarantined';

-- Where each stream stands, and what is missing of it: below `first` retention, between first and last a gap.
CREATE VIEW IF NOT EXISTS stream_offsets ${on_cluster} AS
SELECT
    js_stream,
    min(js_seq) AS first,
    max(js_seq) AS last,
    count() AS rows,
    last - first + 1 - rows AS missing,
    fromUnixTimestamp64Micro(max(js_time_us), 'UTC') AS last_time
FROM events GROUP BY js_stream;

-- Refusals by the minute, answered from a projection.
CREATE VIEW IF NOT EXISTS refusals ${on_cluster} AS
SELECT toStartOfMinute(time) AS minute, environment, tenant, tool, reason, count() AS refusals
FROM events WHERE kind = 'door.refused'
GROUP BY toStartOfMinute(time), environment, tenant, tool, reason;

-- Hourly rollup of every kind.
CREATE VIEW IF NOT EXISTS hours ${on_cluster} AS
SELECT toStartOfHour(toStartOfMinute(time)) AS hour, environment, tenant, kind, tool, decision, reason, finding,
    count() AS events
FROM events
GROUP BY hour, environment, tenant, kind, tool, decision, reason, finding;
