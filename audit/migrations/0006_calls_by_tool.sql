-- `calls`: what the door, the spend log and the ledger said counts only from the tool that the decision is for, and the
-- spend id only from the decider. Before, any sidecar could put its word, or a spend id, into any decision's row.
-- Every new state is a maximum or a set, so reading all events once more changes nothing that is right.
ALTER TABLE call_states ${on_cluster}
    ADD COLUMN IF NOT EXISTS step SimpleAggregateFunction(max, String),
    ADD COLUMN IF NOT EXISTS doors SimpleAggregateFunction(groupUniqArrayArray, Array(Tuple(tool String, said String))),
    ADD COLUMN IF NOT EXISTS spends SimpleAggregateFunction(groupUniqArrayArray,
        Array(Tuple(tool String, round UInt32, outcome String))),
    ADD COLUMN IF NOT EXISTS moved SimpleAggregateFunction(groupUniqArrayArray, Array(Tuple(tool String, change_id String,
        entry UInt32, account String, amount_minor Int64, currency String))),
    ADD COLUMN IF NOT EXISTS found SimpleAggregateFunction(max, Tuple(time_us Int64, js_seq UInt64, finding String));

ALTER TABLE calls_from_events ${on_cluster} MODIFY QUERY
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
    max(if(decided, events.spend_id, '')) AS step,
    groupUniqArrayArray(if(startsWith(kind, 'door.'),
        [(arrayElement(splitByString('/sidecar/', toString(source)), -1),
            if(kind = 'door.passed', 'passed', toString(events.reason)))], [])) AS doors,
    groupUniqArrayArray(if(startsWith(kind, 'spend.') AND signature = 'valid',
        [(toString(events.tool), events.round, toString(events.outcome))], [])) AS spends,
    groupUniqArrayArray(if(kind = 'ledger.changed',
        [(toString(events.tool), change_id, entry, toString(account), amount_minor, toString(events.currency))], []))
        AS moved,
    max(if(startsWith(kind, 'finding.'), (events.time_us, js_seq, toString(events.finding)),
        (toInt64(0), toUInt64(0), ''))) AS found
FROM (SELECT *, startsWith(kind, 'decision.') AND endsWith(source, '/decider') AS decided FROM events) AS events
WHERE decision_id != '' AND kind != 'quarantined'
GROUP BY decision_id;

CREATE OR REPLACE VIEW calls ${on_cluster} AS
SELECT
    decision_id,
    fromUnixTimestamp64Micro(least(greatest(at_us, 0), 4102444800000000), 'UTC') AS time,
    environment, tenant, principal, caller, agent, task_id, call_id,
    step AS spend_id,
    round, tool, method, operation, tier, resource, decision, reason, rule_ids, bundle_version, amount_minor, currency,
    summary, trace_id,
    arraySort(arrayMap(x -> x.2, arrayFilter(x -> x.1 = tool, doors))) AS door,
    toUInt8(arrayExists(x -> x.1 = tool AND x.3 = '', spends)) AS reserved,
    tupleElement(arrayElement(arraySort(x -> (x.2, x.3), arrayFilter(x -> x.1 = tool AND x.3 != '', spends)), -1), 3)
        AS outcome,
    CAST(arraySort(arrayMap(x -> (x.2, x.3, x.4, x.5, x.6), arrayFilter(x -> x.1 = tool, moved))),
        'Array(Tuple(change_id String, entry UInt32, account String, amount_minor Int64, currency String))') AS changes,
    found.3 AS finding
FROM (
    SELECT
        decision_id,
        max(call_states.time_us) AS at_us,
        max(call_states.environment) AS environment,
        max(call_states.tenant) AS tenant,
        max(call_states.principal) AS principal,
        max(call_states.caller) AS caller,
        max(call_states.agent) AS agent,
        max(call_states.task_id) AS task_id,
        max(call_states.call_id) AS call_id,
        max(call_states.step) AS step,
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
        groupUniqArrayArray(call_states.doors) AS doors,
        groupUniqArrayArray(call_states.spends) AS spends,
        groupUniqArrayArray(call_states.moved) AS moved,
        max(call_states.found) AS found
    FROM call_states
    GROUP BY decision_id
);

ALTER TABLE call_states ${on_cluster}
    DROP COLUMN IF EXISTS spend_id,
    DROP COLUMN IF EXISTS door,
    DROP COLUMN IF EXISTS reserved,
    DROP COLUMN IF EXISTS outcome,
    DROP COLUMN IF EXISTS changes,
    DROP COLUMN IF EXISTS finding;

INSERT INTO call_states
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
    max(if(decided, events.spend_id, '')) AS step,
    groupUniqArrayArray(if(startsWith(kind, 'door.'),
        [(arrayElement(splitByString('/sidecar/', toString(source)), -1),
            if(kind = 'door.passed', 'passed', toString(events.reason)))], [])) AS doors,
    groupUniqArrayArray(if(startsWith(kind, 'spend.') AND signature = 'valid',
        [(toString(events.tool), events.round, toString(events.outcome))], [])) AS spends,
    groupUniqArrayArray(if(kind = 'ledger.changed',
        [(toString(events.tool), change_id, entry, toString(account), amount_minor, toString(events.currency))], []))
        AS moved,
    max(if(startsWith(kind, 'finding.'), (events.time_us, js_seq, toString(events.finding)),
        (toInt64(0), toUInt64(0), ''))) AS found
FROM (SELECT *, startsWith(kind, 'decision.') AND endsWith(source, '/decider') AS decided FROM events) AS events
WHERE decision_id != '' AND kind != 'quarantined'
GROUP BY decision_id;
