-- Terms of the writers' leases. A term is put once: a second insert with its token is dropped.
CREATE TABLE IF NOT EXISTS leases ${on_cluster}
(
    js_stream LowCardinality(String),
    term UInt64,
    holder String,
    at DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC')
)
ENGINE = ${merge_tree}
ORDER BY (js_stream, term)
TTL toDateTime(at) + INTERVAL 7 DAY
SETTINGS ${deduplication_window} = 10000;
