-- One row a decision, with its story's end. Every state is idempotent (max, min, a set): a block that reaches this
-- table twice changes nothing, so it needs no deduplication of its own. Decision fields are taken from the decider's events alone.
CREATE TABLE IF NOT EXISTS call_states ${on_cluster}
(
    decision_id String,
    day SimpleAggregateFunction(max, Date),
    time_us SimpleAggregateFunction(max, Int64),
    environment SimpleAggregateFunction(max, String),
    tenant SimpleAggregateFunction(max, String),
    principal SimpleAggregateFunction(max, String),
    caller SimpleAggregateFunction(max, String),
    agent SimpleAggregateFunction(max, String),
    task_id SimpleAggregateFunction(max, String),
    call_id SimpleAggregateFunction(max, String),
    spend_id SimpleAggregateFunction(max, String),
    round SimpleAggregateFunction(max, UInt32),
    tool SimpleAggregateFunction(max, String),
    method SimpleAggregateFunction(max, String),
    operation SimpleAggregateFunction(max, String),
    tier SimpleAggregateFunction(max, UInt32),
    resource SimpleAggregateFunction(max, String),
    decision SimpleAggregateFunction(max, String),
    reason SimpleAggregateFunction(max, String),
    rule_ids SimpleAggregateFunction(groupUniqArrayArray, Array(String)),
    bundle_version SimpleAggregateFunction(max, UInt64),
    amount AggregateFunction(argMax, Int64, UInt8),
    currency SimpleAggregateFunction(max, String),
    summary SimpleAggregateFunction(max, String),
    trace_id SimpleAggregateFunction(max, String),
    door SimpleAggregateFunction(groupUniqArrayArray, Array(String)),
    reserved SimpleAggregateFunction(max, UInt8),
    outcome SimpleAggregateFunction(max, String),
    changes SimpleAggregateFunction(groupUniqArrayArray,
        Array(Tuple(change_id String, entry UInt32, account String, amount_minor Int64, currency String))),
    finding AggregateFunction(argMax, String, Int64)
)
ENGINE = ${aggregating_merge_tree}
PARTITION BY toYYYYMM(day)
ORDER BY decision_id
TTL day + INTERVAL ${retention_days} DAY
SETTINGS allow_nullable_key = 0;

CREATE MATERIALIZED VIEW IF NOT EXISTS calls_from_events ${on_cluster} TO call_states AS
SELECT
    decision_id,
    max(toDate(js_time)) AS day,
    max(if(decided, time_us, 0)) AS time_us,
    max(events.environment) AS environment,
    max(if(decided, events.tenant, '')) AS tenant,
    max(if(decided, events.principal, '')) AS principal,
    max(if(decided, events.caller, '')) AS caller,
    max(if(decided, events.agent, '')) AS agent,
    max(if(decided, events.task_id, '')) AS task_id,
    max(if(decided, events.call_id, '')) AS call_id,
    max(events.spend_id) AS spend_id,
    max(if(decided, events.round, 0)) AS round,
    max(if(decided, events.tool, '')) AS tool,
    max(if(decided, events.method, '')) AS method,
    max(if(decided, events.operation, '')) AS operation,
    max(if(decided, events.tier, 0)) AS tier,
    max(if(decided, events.resource, '')) AS resource,
    max(if(decided, events.decision, '')) AS decision,
    max(if(decided, events.reason, '')) AS reason,
    groupUniqArrayArray(if(decided, CAST(events.rule_ids, 'Array(String)'), [])) AS rule_ids,
    max(if(decided, events.bundle_version, 0)) AS bundle_version,
    argMaxState(events.amount_minor, toUInt8(decided)) AS amount,
    max(if(decided, events.currency, '')) AS currency,
    max(if(decided, events.summary, '')) AS summary,
    max(if(decided, events.trace_id, '')) AS trace_id,
    groupUniqArrayArray(multiIf(kind = 'door.passed', ['passed'], kind = 'door.refused', [toString(events.reason)], []))
        AS door,
    max(toUInt8(kind = 'spend.reserved')) AS reserved,
    max(if(kind = 'spend.outcome', events.outcome, '')) AS outcome,
    groupUniqArrayArray(if(kind = 'ledger.changed',
        [(change_id, entry, toString(account), amount_minor, toString(events.currency))], [])) AS changes,
    argMaxState(toString(events.finding), if(kind LIKE 'finding.%', events.time_us, -1)) AS finding
FROM (SELECT *, startsWith(kind, 'decision.') AND endsWith(source, '/decider') AS decided FROM events) AS events
WHERE decision_id != '' AND kind != 'quarantined'
GROUP BY decision_id;

CREATE VIEW IF NOT EXISTS calls ${on_cluster} AS
SELECT
    decision_id,
    fromUnixTimestamp64Micro(least(greatest(max(call_states.time_us), 0), 4102444800000000), 'UTC') AS time,
    max(call_states.environment) AS environment,
    max(call_states.tenant) AS tenant,
    max(call_states.principal) AS principal,
    max(call_states.caller) AS caller,
    max(call_states.agent) AS agent,
    max(call_states.task_id) AS task_id,
    max(call_states.call_id) AS call_id,
    max(call_states.spend_id) AS spend_id,
    max(call_states.round) AS round,
    max(call_states.tool) AS tool,
    max(call_states.method) AS method,
    max(call_states.operation) AS operation,
    max(call_states.tier) AS tier,
    max(call_states.resource) AS resource,
    max(call_states.decision) AS decision,
    max(call_states.reason) AS reason,
    arraySort(groupUniqArrayArray(call_states.rule_ids)) AS rule_ids,
    max(call_states.bundle_version) AS bundle_version,
    argMaxMerge(call_states.amount) AS amount_minor,
    max(call_states.currency) AS currency,
    max(call_states.summary) AS summary,
    max(call_states.trace_id) AS trace_id,
    arraySort(groupUniqArrayArray(call_states.door)) AS door,
    max(call_states.reserved) AS reserved,
    max(call_states.outcome) AS outcome,
    arraySort(groupUniqArrayArray(call_states.changes)) AS changes,
    argMaxMerge(call_states.finding) AS finding
FROM call_states
GROUP BY decision_id;
