"""What a decision rested on, as it is sealed for the tenant. Pure.

Enough to decide the call again under other rules: the exact request, and what the rules were asked, facts
among it. The user's token is never in it. Without a tenant there is nobody to seal for, and no input.
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from decider.decision.envelope import Envelope, Refused
from decider.decision.record import KINDS
from decider.decision.verdict import Moment, Verdict
from decider.policy.cedar import RuleCall
from licet.refusal import Refusal
from licet.sealed import INPUT_VERSION
from licet.v1.decider_pb2 import DecideRequest
from licet.v1.payload_pb2 import DecisionInput, RuleInput

MAX_INTENT: Final = 8_192
"""Characters of what the model says it wants."""


def recorded_input(
    request: DecideRequest,
    source: Envelope | Refused,
    asked_rules: tuple[RuleCall, frozenset[str]] | None,
    outcome: Verdict | Refusal,
    moment: Moment,
) -> DecisionInput:
    """Return the input of one decision.

    Args:
        request: as it came.
        source: what was made of it.
        asked_rules: what the rules were asked, and which holds were lifted; None where they were not asked.
        outcome: what was decided, or why nothing could be.
        moment: its id and time.
    """
    asked, task = source.asked, source.task
    message = DecisionInput(
        version=INPUT_VERSION,
        decision_id=moment.decision_id,
        decided_at_ms=moment.now_ms,
        caller=asked.caller,
        method=asked.method,
        audience=source.catalog.audience if source.catalog else "",
        codec=request.codec,
        request=request.request,
        request_size=len(request.request),
        request_sha256=sha256(request.request).digest(),
        task_id=asked.task_id,
        call_id=asked.call_id,
        claimed_intent=request.claimed_intent[:MAX_INTENT],
        tenant=task.tenant if task else "",
        principal=task.principal if task else "",
    )
    if asked_rules is not None:
        message.rule_input.CopyFrom(_rule_input(*asked_rules))
    _fill_outcome(message, outcome)
    return message


def _rule_input(call: RuleCall, lifted: frozenset[str]) -> RuleInput:
    return RuleInput(
        agent=call.agent,
        operation=call.operation,
        resource_type=call.resource_type,
        resource=call.resource,
        attributes_json=_json(call.attributes),
        context_json=_json(call.context),
        lifted=sorted(lifted),
    )


def _fill_outcome(message: DecisionInput, outcome: Verdict | Refusal) -> None:
    if isinstance(outcome, Refusal):
        message.decision, message.reason = "failed", str(outcome.reason)
        return
    decision = outcome.decision
    message.decision = KINDS[decision.decision][1]
    message.bundle_version, message.generation = decision.bundle_version, decision.generation
    message.config_seq = decision.config_seq
    message.rule_ids.extend(decision.rule_ids)
    message.reason = str(outcome.refusal.reason) if outcome.refusal is not None else ""


def _json(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, sort_keys=True, separators=(",", ":"), default=dict).encode("ascii")
