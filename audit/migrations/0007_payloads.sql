-- Sealed payloads of events, as JetStream has them: bytes that neither the writer nor this server can open. An event
-- names its payload by `payload_ref`, the SHA-256 of the bytes. Short-lived; a payload key that is destroyed ends them at once.
CREATE TABLE IF NOT EXISTS payloads ${on_cluster}
(
    payload_ref String CODEC(ZSTD(1)),
    sealed String CODEC(NONE),
    js_stream LowCardinality(String),
    js_subject LowCardinality(String),
    js_seq UInt64 CODEC(Delta, ZSTD(1)),
    js_time_us Int64 CODEC(Delta, ZSTD(1)),
    js_time DateTime64(6, 'UTC') DEFAULT fromUnixTimestamp64Micro(js_time_us, 'UTC') CODEC(Delta, ZSTD(1)),
    batch UInt64 CODEC(ZSTD(1)),
    PROJECTION offsets
    (
        SELECT js_stream, max(js_seq), min(js_seq), count(), sum(js_seq), max(js_time_us) GROUP BY js_stream
    )
)
ENGINE = ${merge_tree}
PARTITION BY toDate(js_time)
ORDER BY (payload_ref, js_seq)
TTL toDateTime(js_time) + INTERVAL ${payload_days} DAY
SETTINGS ttl_only_drop_parts = 1, ${deduplication_window} = 10000;
