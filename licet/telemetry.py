"""Every name that leaves licet as telemetry: spans, attributes, metrics. One place, no logic.

Guarantees: nothing else in the code spells a span, attribute or metric name. Names from OpenTelemetry
follow `SCHEMA_URL`; ours stand under `licet.` and never reuse a namespace of OpenTelemetry. The GenAI
conventions are still in development, so a rename there is a change to this file alone.

The line under a name is its line in docs/telemetry.md, which scripts/telemetry.py writes from here.

Never recorded under any name: arguments, results, permits, signatures, tokens, digest keys, free text.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.44.0"
SCOPE: Final = "licet"

# --- spans
SPAN_EXECUTE_TOOL: Final = "execute_tool"
"""agent, INTERNAL: one step of an agent, decision and call; followed by a space and the tool's name"""
SPAN_DECIDE: Final = "licet.v1.DeciderService/Decide"
"""client, or sidecar for decide on call, and decider, CLIENT and SERVER: one request for a decision"""
SPAN_FACTS: Final = "facts"
"""decider, CLIENT: what the tool itself says of the resource; followed by a space and the read method"""
SPAN_POLICY_EVALUATE: Final = "policy.evaluate"
"""decider, INTERNAL: the rules' answer; the permit's `traceparent` names this span"""
SPAN_PERMIT_VERIFY: Final = "permit.verify"
"""sidecar, INTERNAL: checks 2 to 11; linked to `policy.evaluate`"""
SPAN_PERMIT_SPEND: Final = "permit.spend"
"""sidecar, CLIENT: the reserve in NATS, check 12"""
SPAN_LEDGER_COMMIT: Final = "ledger.commit"
"""tool, INTERNAL: the tool's transaction with spend row, preconditions and ledger change"""
SPAN_RECONCILE: Final = "reconcile"
"""reconciler, a trace of its own: one finding; linked to the door's and the ledger's spans"""
SPAN_APPROVAL_WAIT: Final = "approval.wait"
"""client, a trace of its own: a held call waits for people; linked to `policy.evaluate`"""
SPAN_AUDIT_WRITE: Final = "audit.write"
"""audit writer, a trace of its own: one batch from JetStream to ClickHouse"""

# --- attributes of OpenTelemetry
ERROR_TYPE: Final = "error.type"
"""why a part failed; absent for a refusal, which is no failure"""
GEN_AI_OPERATION_NAME: Final = "gen_ai.operation.name"
"""always `execute_tool`"""
GEN_AI_TOOL_NAME: Final = "gen_ai.tool.name"
"""the method's name, without package and service"""
GEN_AI_TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
"""the caller's call id, which names the step"""
GEN_AI_AGENT_ID: Final = "gen_ai.agent.id"
"""SPIFFE id of the agent"""
RPC_SYSTEM_NAME: Final = "rpc.system.name"
"""always `grpc`"""
RPC_METHOD: Final = "rpc.method"
"""package, service and method: `fin.v1.Finance/IssueRefund`"""
RPC_RESPONSE_STATUS_CODE: Final = "rpc.response.status_code"
"""how the RPC ended"""
SERVER_ADDRESS: Final = "server.address"
"""host that a client asks, or the path of a Unix socket"""
SERVER_PORT: Final = "server.port"
"""its port; absent for a socket"""
SERVICE_NAME: Final = "service.name"
"""resource: which part, such as `licet-sidecar`"""
SERVICE_INSTANCE_ID: Final = "service.instance.id"
"""resource: tells several of one part apart"""
SERVICE_VERSION: Final = "service.version"
"""resource: version of licet"""

EXECUTE_TOOL: Final = "execute_tool"  # value of GEN_AI_OPERATION_NAME
GRPC: Final = "grpc"  # value of RPC_SYSTEM_NAME

# --- attributes of our own
DECISION: Final = "licet.decision"
"""what was decided: `allow`, `deny`, `hold`, `modify`; `failed` when none could be made"""
DECISION_ID: Final = "licet.decision.id"
"""id of the decision, as in the audit store"""
SHADOW_DECISION: Final = "licet.decision.shadow"
"""what the bundle in shadow would have decided; never enforced"""
ENFORCEMENT: Final = "licet.enforcement"
"""what the door did, whatever was decided: `passed` or `refused`"""
REASON: Final = "licet.reason"
"""why not, from the closed list of docs/protocol.md"""
BUNDLE_VERSION: Final = "licet.bundle.version"
"""version of the rules that decided"""
TIER: Final = "licet.tier"
"""risk tier of the method, 0 to 5"""
SUMMARY: Final = "licet.summary"
"""the catalog's one line on the call; sensitive fields masked"""
RULE_IDS: Final = "licet.rule.ids"
"""ids of the rules behind the decision"""
SPEND_ID: Final = "licet.spend.id"
"""id of the step's spend"""
SPEND_ROUND: Final = "licet.spend.round"
"""which round of the spend"""
TASK_ID: Final = "licet.task.id"
"""the task the call is part of"""
HOLD_ID: Final = "licet.hold.id"
"""id of the hold that people answer"""
BEACON_AGE_MS: Final = "licet.beacon.age"
"""age of the door's beacon at the check, ms"""
OUTCOME: Final = "licet.outcome"
"""what is known of the effect: `EXECUTED`, `FAILED_NO_EFFECT`, `UNKNOWN`"""
TOOL_REACHED: Final = "licet.tool.reached"
"""whether a byte of the call left for the tool"""
LEDGER_CHANGE_ID: Final = "licet.ledger.change_id"
"""id of the tool's own ledger row"""
FINDING: Final = "licet.finding"
"""how the reconciler classes the step"""
RESOURCE: Final = "licet.resource"
"""what the call is about; personal ids as an HMAC"""
OPERATION: Final = "licet.operation"
"""the catalog's word for what the method does"""
STREAM: Final = "licet.stream"
"""name of a JetStream stream"""
BUDGET: Final = "licet.budget"
"""a budget of the bundle or of a task's template, by its name"""
UNIT: Final = "licet.unit"
"""what a budget counts: `calls`, a currency, or a cost of the catalog"""
EVIDENCE: Final = "licet.evidence"
"""which evidence of a step: `decision`, `door`, `spend` or `ledger`"""
SPOOL: Final = "licet.spool"
"""which spool of a process: `journal` or `outcome`"""
LEFT_OUT: Final = "licet.left_out"
"""why a payload was left out: `room`, `share` or `disk`"""

NONE: Final = "none"
"""the value of a label that has nothing to say: every sample of a metric has the same labels"""

# --- W3C trace context in gRPC metadata
TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
MAX_TRACESTATE_BYTES: Final = (
    512  # W3C Trace Context 3.3.1.5: at least 512 must be passed on; more is cut here
)

# --- metrics: OTel names, unit apart; the Prometheus exporter adds its suffixes
METRIC_DECISIONS: Final = "licet.decisions"
METRIC_DECISION_FAILURES: Final = "licet.decision.failures"
METRIC_DECISION_DURATION: Final = "licet.decision.duration"
METRIC_OPEN_DECISIONS: Final = "licet.decision.open"
METRIC_DOOR_CALLS: Final = "licet.door.calls"
METRIC_DOOR_DURATION: Final = "licet.door.duration"
METRIC_OPEN_CALLS: Final = "licet.door.open_calls"
METRIC_BEACON_AGE: Final = "licet.beacon.age"
METRIC_SPEND_DURATION: Final = "licet.spend.duration"
METRIC_UNKNOWN_OUTCOMES: Final = "licet.spend.unknown_outcomes"
METRIC_SPOOL_DEPTH: Final = "licet.spool.depth"
METRIC_PAYLOADS_LEFT_OUT: Final = "licet.payloads.left_out"
METRIC_STREAM_LAG: Final = "licet.audit.stream_lag"
METRIC_AUDIT_GAPS: Final = "licet.audit.gaps"
METRIC_WRITER_FAILURES: Final = "licet.audit.writer_failures"
METRIC_RECONCILER_FAILURES: Final = "licet.audit.reconciler_failures"
METRIC_NOT_COUNTED: Final = "licet.audit.not_counted"
METRIC_LEDGER_NOT_READ: Final = "licet.audit.ledger_not_read"
METRIC_FINDINGS: Final = "licet.findings"
METRIC_SHADOW: Final = "licet.bundle.shadow"
METRIC_HOLDS_OPEN: Final = "licet.holds.open"
METRIC_HOLDS_AGE: Final = "licet.holds.oldest_age"
METRIC_CONFIG_USED: Final = "licet.config.used"
METRIC_BUDGET_BURN: Final = "licet.budget.burn"
METRIC_BUDGET_REFUSALS: Final = "licet.budget.refusals"


class MetricKind(StrEnum):
    """How values of a metric add up."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE = "gauge"


SECONDS: Final = "s"
FAST_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Bucket borders, seconds: from one check to the longest a tool may take."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. Every sample of it has exactly `labels`, and none of them is an id.

    Attributes:
        name: As OpenTelemetry spells it.
        kind: How values add up.
        unit: UCUM; braces name what is counted.
        labels: Attribute names, in the order in which values are given.
        part: Who measures it.
        says: Its line in docs/telemetry.md, and its description in both exports.
    """

    name: str
    kind: MetricKind
    unit: str
    labels: tuple[str, ...]
    part: str
    says: str

    @property
    def prometheus(self) -> str:
        """The name as the Prometheus exporter spells it: dots become underscores, unit and kind are added."""
        unit = "_seconds" if self.unit == SECONDS else ""
        total = "_total" if self.kind is MetricKind.COUNTER else ""
        return self.name.replace(".", "_") + unit + total


METRICS: Final = {
    one.name: one
    for one in (
        Metric(
            METRIC_DECISIONS, MetricKind.COUNTER, "{decision}", (DECISION, REASON, TIER), "decider",
            "usable decisions: allow, deny, hold, modify",
        ),
        Metric(
            METRIC_DECISION_FAILURES, MetricKind.COUNTER, "{failure}", (REASON,), "decider",
            "requests for which no decision could be made; never counted as denied",
        ),
        Metric(
            METRIC_DECISION_DURATION, MetricKind.HISTOGRAM, SECONDS, (DECISION,), "decider",
            "from request to answer, facts and the event's acknowledgement included",
        ),
        Metric(
            METRIC_OPEN_DECISIONS, MetricKind.GAUGE, "{request}", (), "decider",
            "requests for a decision that came in and have not been answered; what an autoscaler goes by",
        ),
        Metric(
            METRIC_DOOR_CALLS, MetricKind.COUNTER, "{call}", (ENFORCEMENT, REASON, OUTCOME), "sidecar",
            "calls at the door, by what it did and what is known of the effect",
        ),
        Metric(
            METRIC_DOOR_DURATION, MetricKind.HISTOGRAM, SECONDS, (ENFORCEMENT, OUTCOME), "sidecar",
            "from the call's first byte to the reply, the tool's own time included",
        ),
        Metric(
            METRIC_OPEN_CALLS, MetricKind.GAUGE, "{call}", (), "sidecar",
            "calls that came in and have not ended, of one worker; what an autoscaler goes by",
        ),
        Metric(
            METRIC_BEACON_AGE, MetricKind.GAUGE, SECONDS, (), "sidecar",
            "age of the door's beacon; absent before the first",
        ),
        Metric(
            METRIC_SPEND_DURATION, MetricKind.HISTOGRAM, SECONDS, (REASON,), "sidecar",
            "one reserve in NATS, from request to the store's word; reason `none` for a step taken",
        ),
        Metric(
            METRIC_UNKNOWN_OUTCOMES, MetricKind.COUNTER, "{spend}", (), "sidecar",
            "spends that the tool gave no proof of; each is fenced later",
        ),
        Metric(
            METRIC_SPOOL_DEPTH, MetricKind.GAUGE, "{record}", (SPOOL,), "sidecar, decider, reconciler",
            "records on disk that NATS has not acknowledged yet",
        ),
        Metric(
            METRIC_PAYLOADS_LEFT_OUT, MetricKind.COUNTER, "{payload}", (LEFT_OUT,), "decider",
            "decision inputs that were not kept, since their stream or the disk did not keep up",
        ),
        Metric(
            METRIC_STREAM_LAG, MetricKind.GAUGE, "{message}", (STREAM,), "audit writer",
            "messages in JetStream that ClickHouse does not have yet",
        ),
        Metric(
            METRIC_AUDIT_GAPS, MetricKind.COUNTER, "{message}", (STREAM,), "audit writer",
            "messages that JetStream no longer had when they were to be read",
        ),
        Metric(
            METRIC_WRITER_FAILURES, MetricKind.COUNTER, "{failure}", (STREAM,), "audit writer",
            "failures that are no outage: the writer tries the same batch again, and the stream waits",
        ),
        Metric(
            METRIC_RECONCILER_FAILURES, MetricKind.COUNTER, "{failure}", (), "reconciler",
            "polls that failed and were no outage: nothing new is judged until one succeeds",
        ),
        Metric(
            METRIC_NOT_COUNTED, MetricKind.COUNTER, "{row}", (EVIDENCE,), "reconciler",
            "rows that name a step and are no evidence of it: another tool's, or badly signed",
        ),
        Metric(
            METRIC_LEDGER_NOT_READ, MetricKind.COUNTER, "{failure}", (), "reconciler",
            "second looks at a ledger that could not be had",
        ),
        Metric(
            METRIC_FINDINGS, MetricKind.COUNTER, "{finding}", (FINDING,), "reconciler",
            "findings raised, by class; a bypass is one of them",
        ),
        Metric(
            METRIC_SHADOW, MetricKind.GAUGE, "{bundle}", (), "decider",
            "1 while the bundle in force is in stage shadow, 0 while it enforces",
        ),
        Metric(
            METRIC_HOLDS_OPEN, MetricKind.GAUGE, "{hold}", (), "decider",
            "holds that wait for people; of the newest 1000",
        ),
        Metric(
            METRIC_HOLDS_AGE, MetricKind.GAUGE, SECONDS, (), "decider",
            "how long the oldest open hold has waited; 0 when none waits",
        ),
        Metric(
            METRIC_CONFIG_USED, MetricKind.GAUGE, "1", (), "decider",
            "share of the configuration stream that is used; from 0.8 on no new hold or task is stored",
        ),
        Metric(
            METRIC_BUDGET_BURN, MetricKind.COUNTER, "{unit}", (BUDGET, UNIT), "decider",
            "booked for permits, in minor units, calls or costs; what is given back later stays in it",
        ),
        Metric(
            METRIC_BUDGET_REFUSALS, MetricKind.COUNTER, "{call}", (BUDGET, UNIT), "decider",
            "calls denied because a budget was used up",
        ),
    )
}  # fmt: skip
"""Every metric by its name."""
