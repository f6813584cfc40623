-- Every message of the audit, spend-log and ledger streams, one row each, in one table: so that one insert of a
-- batch is one part, all or nothing, and the next offset is max(js_seq) of a stream, whatever became of a message.
-- Rows the writer could not read have kind 'quarantined'; the view `quarantine` shows them.
-- time: the source's own clock, clamped to 1970..2100 (time_us is exact). js_time: JetStream's; partition and TTL.
CREATE TABLE IF NOT EXISTS events ${on_cluster}
(
    event_id String CODEC(ZSTD(1)),
    source LowCardinality(String),
    stream String CODEC(ZSTD(1)),
    seq UInt64 CODEC(Delta, ZSTD(1)),
    prev_hash_raw String EPHEMERAL '',
    event String CODEC(ZSTD(3)),
    prev_hash String DEFAULT lower(hex(prev_hash_raw)) CODEC(ZSTD(1)),
    time_us Int64 CODEC(Delta, ZSTD(1)),
    time DateTime64(6, 'UTC') DEFAULT fromUnixTimestamp64Micro(least(greatest(time_us, 0), 4102444800000000), 'UTC')
        CODEC(Delta, ZSTD(1)),
    kind LowCardinality(String),
    decision LowCardinality(String),
    reason LowCardinality(String),
    environment LowCardinality(String),
    tenant LowCardinality(String),
    principal String CODEC(ZSTD(1)),
    caller LowCardinality(String),
    agent LowCardinality(String),
    task_id String CODEC(ZSTD(1)),
    call_id String CODEC(ZSTD(1)),
    decision_id String CODEC(ZSTD(1)),
    spend_id String CODEC(ZSTD(1)),
    round UInt32,
    hold_id String CODEC(ZSTD(1)),
    delegations Array(String) CODEC(ZSTD(1)),
    tool LowCardinality(String),
    method LowCardinality(String),
    tool_version LowCardinality(String),
    operation LowCardinality(String),
    tier UInt32,
    resource String CODEC(ZSTD(1)),
    call_digest String CODEC(ZSTD(1)),
    bundle_version UInt64 CODEC(ZSTD(1)),
    rule_ids Array(LowCardinality(String)) CODEC(ZSTD(1)),
    amount_minor Int64 CODEC(ZSTD(1)),
    currency LowCardinality(String),
    entry UInt32,
    change_id String CODEC(ZSTD(1)),
    risk_flags Array(LowCardinality(String)) CODEC(ZSTD(1)),
    approvals Array(String) CODEC(ZSTD(1)),
    trace_id String CODEC(ZSTD(1)),
    span_id String CODEC(ZSTD(1)),
    summary String CODEC(ZSTD(1)),
    payload_ref String CODEC(ZSTD(1)),
    outcome LowCardinality(String),
    attempt String CODEC(ZSTD(1)),
    finding LowCardinality(String),
    detail String CODEC(ZSTD(1)),
    generation UInt64 CODEC(ZSTD(1)),
    config_seq UInt64 CODEC(ZSTD(1)),
    candidate_decision LowCardinality(String),
    shadow_decision LowCardinality(String),
    original_call_digest String CODEC(ZSTD(1)),
    not_after_ms Int64 CODEC(ZSTD(1)),
    previous_stream String CODEC(ZSTD(1)),
    account LowCardinality(String),
    issuer LowCardinality(String),
    -- What the writer adds. signature: of a spend record, 'valid' or the reason why not; '' where none is due.
    signature LowCardinality(String),
    js_stream LowCardinality(String),
    js_subject LowCardinality(String),
    js_seq UInt64 CODEC(Delta, ZSTD(1)),
    js_time_us Int64 CODEC(Delta, ZSTD(1)),
    js_time DateTime64(6, 'UTC') DEFAULT fromUnixTimestamp64Micro(js_time_us, 'UTC') CODEC(Delta, ZSTD(1)),
    batch UInt64 CODEC(ZSTD(1)),
    INDEX by_spend spend_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_decision decision_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_trace trace_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_task task_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_call call_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_agent agent TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_resource resource TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_event event_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_js_seq js_seq TYPE minmax GRANULARITY 1,
    PROJECTION offsets
    (
        SELECT js_stream, max(js_seq), min(js_seq), count(), sum(js_seq), max(js_time_us) GROUP BY js_stream
    ),
    PROJECTION minutes
    (
        SELECT toStartOfMinute(time), environment, tenant, kind, tool, decision, reason, finding, count()
        GROUP BY toStartOfMinute(time), environment, tenant, kind, tool, decision, reason, finding
    ),
    PROJECTION money
    (
        SELECT toStartOfHour(time), environment, tenant, kind, tool, bundle_version, currency, count(), sum(amount_minor)
        GROUP BY toStartOfHour(time), environment, tenant, kind, tool, bundle_version, currency
    )
)
ENGINE = ${merge_tree}
PARTITION BY toDate(js_time)
ORDER BY (toStartOfHour(time), tenant, kind, time, js_stream, js_seq)
TTL toDateTime(js_time) + INTERVAL ${retention_days} DAY
SETTINGS ttl_only_drop_parts = 1, ${deduplication_window} = 10000;
