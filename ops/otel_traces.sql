-- Where a collector keeps traces in ClickHouse: the columns of the OpenTelemetry Collector's exporter, so that it, rotel
-- and Grafana's trace view find what they expect. Run once: clickhouse-client --database licet < ops/otel_traces.sql.
-- Joined to the audit store by TraceId = events.trace_id. Spans are kept for 30 days; audit does not rest on them.
CREATE TABLE IF NOT EXISTS otel_traces
(
    Timestamp DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)),
    TraceId String CODEC(ZSTD(1)),
    SpanId String CODEC(ZSTD(1)),
    ParentSpanId String CODEC(ZSTD(1)),
    TraceState String CODEC(ZSTD(1)),
    SpanName LowCardinality(String),
    SpanKind LowCardinality(String),
    ServiceName LowCardinality(String),
    ResourceAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    ScopeName LowCardinality(String),
    ScopeVersion LowCardinality(String),
    SpanAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    Duration Int64 CODEC(ZSTD(1)),
    StatusCode LowCardinality(String),
    StatusMessage String CODEC(ZSTD(1)),
    Events Nested (Timestamp DateTime64(9, 'UTC'), Name LowCardinality(String), Attributes Map(LowCardinality(String), String)),
    Links Nested (TraceId String, SpanId String, TraceState String, Attributes Map(LowCardinality(String), String)),
    INDEX by_trace TraceId TYPE bloom_filter(0.001) GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(Timestamp)
ORDER BY (ServiceName, SpanName, toDateTime(Timestamp), TraceId)
TTL toDateTime(Timestamp) + INTERVAL 30 DAY
SETTINGS ttl_only_drop_parts = 1
