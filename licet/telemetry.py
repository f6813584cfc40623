"""Every name that leaves licet as telemetry: spans, attributes, metrics. One place, no logic.

Guarantees: nothing else in the code spells a span, attribute or metric name. Names from OpenTelemetry
follow `SCHEMA_URL`; ours stand under `licet.` and never reuse a namespace of OpenTelemetry. The GenAI
conventions are still in development, so a rename there is a change to this file alone.

Never recorded under any name: arguments, results, permits, signatures, tokens, digest keys, free text.
"""

from typing import Final

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.44.0"
SCOPE: Final = "licet"

# --- spans
SPAN_EXECUTE_TOOL: Final = "execute_tool"  # followed by a space and the tool's name
SPAN_DECIDE: Final = "licet.v1.DeciderService/Decide"
SPAN_FACTS: Final = "facts"  # followed by a space and the read method
SPAN_POLICY_EVALUATE: Final = "policy.evaluate"
SPAN_PERMIT_VERIFY: Final = "permit.verify"
SPAN_PERMIT_SPEND: Final = "permit.spend"
SPAN_LEDGER_COMMIT: Final = "ledger.commit"
SPAN_RECONCILE: Final = "reconcile"
SPAN_APPROVAL_WAIT: Final = "approval.wait"
SPAN_AUDIT_WRITE: Final = "audit.write"

# --- attributes of OpenTelemetry
ERROR_TYPE: Final = "error.type"
GEN_AI_OPERATION_NAME: Final = "gen_ai.operation.name"
GEN_AI_TOOL_NAME: Final = "gen_ai.tool.name"
GEN_AI_TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
GEN_AI_AGENT_ID: Final = "gen_ai.agent.id"
RPC_SYSTEM_NAME: Final = "rpc.system.name"
RPC_METHOD: Final = "rpc.method"
RPC_RESPONSE_STATUS_CODE: Final = "rpc.response.status_code"
SERVICE_NAME: Final = "service.name"
SERVICE_INSTANCE_ID: Final = "service.instance.id"
SERVICE_VERSION: Final = "service.version"

EXECUTE_TOOL: Final = "execute_tool"  # value of GEN_AI_OPERATION_NAME
GRPC: Final = "grpc"  # value of RPC_SYSTEM_NAME

# --- attributes of our own
DECISION: Final = "licet.decision"
DECISION_ID: Final = "licet.decision.id"
SHADOW_DECISION: Final = "licet.decision.shadow"
ENFORCEMENT: Final = "licet.enforcement"  # what the door did: passed or refused; not what was decided
REASON: Final = "licet.reason"
BUNDLE_VERSION: Final = "licet.bundle.version"
TIER: Final = "licet.tier"
SUMMARY: Final = "licet.summary"
RULE_IDS: Final = "licet.rule.ids"
SPEND_ID: Final = "licet.spend.id"
SPEND_ROUND: Final = "licet.spend.round"
TASK_ID: Final = "licet.task.id"
HOLD_ID: Final = "licet.hold.id"
BEACON_AGE_MS: Final = "licet.beacon.age"
OUTCOME: Final = "licet.outcome"
TOOL_REACHED: Final = "licet.tool.reached"
LEDGER_CHANGE_ID: Final = "licet.ledger.change_id"
FINDING: Final = "licet.finding"
RESOURCE: Final = "licet.resource"
OPERATION: Final = "licet.operation"

# --- W3C trace context in gRPC metadata
TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
MAX_TRACESTATE_BYTES: Final = (
    512  # W3C Trace Context 3.3.1.5: at least 512 must be passed on; more is cut here
)

# --- metrics: OTel names, unit apart; the Prometheus exporter adds its suffixes
METRIC_DECISIONS: Final = "licet.decisions"
METRIC_DECISION_FAILURES: Final = "licet.decision.failures"
METRIC_DOOR_CALLS: Final = "licet.door.calls"
METRIC_DOOR_DURATION: Final = "licet.door.duration"
METRIC_BEACON_AGE: Final = "licet.beacon.age"
METRIC_SPEND_DURATION: Final = "licet.spend.duration"
METRIC_UNKNOWN_OUTCOMES: Final = "licet.spend.unknown_outcomes"
METRIC_SPOOL_DEPTH: Final = "licet.spool.depth"
METRIC_STREAM_LAG: Final = "licet.audit.stream_lag"
METRIC_AUDIT_GAPS: Final = "licet.audit.gaps"
METRIC_FINDINGS: Final = "licet.findings"
METRIC_HOLDS_OPEN: Final = "licet.holds.open"
METRIC_HOLDS_AGE: Final = "licet.holds.oldest_age"
METRIC_BUDGET_USED: Final = "licet.budget.used_ratio"
