"""Why a call was decided as it was: twelve questions, answered from the record of its decision. Pure.

A record is the fields of a `decision.*` event. The decider asks in a fixed order and stops at the first
refusal, so a refusal answers one question with no, those before it with yes, and leaves those after it
unasked. Nothing is guessed: what the record does not say is `not asked`, never `yes`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

from licet.catalog.money import spell_amount
from licet.refusal import MESSAGE, Reason
from licet.tier import class_of


class Said(StrEnum):
    """What a question was answered with."""

    YES = "yes"
    NO = "no"
    WAITS = "waits"
    FAILED = "failed"
    NOT_ASKED = "not asked"


@dataclass(frozen=True, slots=True)
class Answer:
    """One question, what was answered, the value it rests on, and the rule or list it stands under."""

    question: str
    answer: Said
    value: str
    rule: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision and its twelve answers."""

    call: str
    decision: str
    reason: str
    says: str
    answers: tuple[Answer, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)


class _Q(StrEnum):
    """The questions, in the order in which people ask them."""

    ENVELOPED = "was it put into an envelope?"
    TENANT = "is it the tenant's own?"
    USER = "may the user delegate it?"
    AGENT = "may the agent use the tool?"
    MODE = "does the mode allow it?"
    ARGUMENTS = "are the arguments in order?"
    INTENT = "does it fit the task?"
    ENVIRONMENT = "is it the right environment?"
    COST = "is there a budget for it?"
    SECRETS = "is it free of secrets?"
    APPROVAL = "did the people approve that must?"
    LOGGED = "is it on record?"


_STAGE: Final[Mapping[_Q, int]] = {
    _Q.ENVIRONMENT: 10,
    _Q.ENVELOPED: 30,
    _Q.SECRETS: 40,
    _Q.INTENT: 50,
    _Q.MODE: 50,
    _Q.ARGUMENTS: 55,
    _Q.USER: 60,
    _Q.TENANT: 70,
    _Q.AGENT: 80,
    _Q.APPROVAL: 85,
    _Q.COST: 90,
    _Q.LOGGED: 100,
}
"""After which step of the decider a question is answered with yes."""

_REFUSED: Final[Mapping[Reason, tuple[_Q, int]]] = {
    Reason.BEACON_STALE: (_Q.ENVIRONMENT, 5),
    Reason.ENVIRONMENT_MISMATCH: (_Q.ENVIRONMENT, 5),
    Reason.ENVIRONMENT_STOPPED: (_Q.ENVIRONMENT, 45),
    Reason.QUOTA_EXCEEDED: (_Q.ENVELOPED, 11),
    Reason.TOKEN_MISSING: (_Q.USER, 15),
    Reason.TOKEN_MALFORMED: (_Q.USER, 15),
    Reason.TOKEN_ALGORITHM: (_Q.USER, 15),
    Reason.TOKEN_KEY_UNKNOWN: (_Q.USER, 15),
    Reason.TOKEN_SIGNATURE: (_Q.USER, 15),
    Reason.TOKEN_EXPIRED: (_Q.USER, 15),
    Reason.TOKEN_NOT_YET_VALID: (_Q.USER, 15),
    Reason.TOKEN_AUDIENCE: (_Q.USER, 15),
    Reason.TOKEN_ISSUER: (_Q.USER, 15),
    Reason.TOKEN_KEYS_UNAVAILABLE: (_Q.USER, 15),
    Reason.PRINCIPAL_INVALID: (_Q.USER, 15),
    Reason.PRINCIPAL_REVOKED: (_Q.USER, 45),
    Reason.AGENT_REVOKED: (_Q.AGENT, 45),
    Reason.TOOL_STOPPED: (_Q.AGENT, 45),
    Reason.TASK_REVOKED: (_Q.INTENT, 45),
    Reason.CONTRACT_REFUSED: (_Q.INTENT, 49),
    Reason.ARGUMENTS_MALFORMED: (_Q.ARGUMENTS, 20),
    Reason.UNKNOWN_FIELD: (_Q.ARGUMENTS, 20),
    Reason.JSON_STRICT: (_Q.ARGUMENTS, 20),
    Reason.ARGUMENT_REFUSED: (_Q.ARGUMENTS, 54),
    Reason.TOO_LARGE: (_Q.ARGUMENTS, 20),
    Reason.DELEGATION_EXCEEDED: (_Q.USER, 59),
    Reason.DELEGATION_REVOKED: (_Q.USER, 59),
    Reason.FACTS_UNAVAILABLE: (_Q.TENANT, 65),
    Reason.RESOURCE_UNKNOWN: (_Q.TENANT, 69),
    Reason.TENANT_MISMATCH: (_Q.TENANT, 69),
    Reason.EVALUATION_FAILED: (_Q.AGENT, 79),
    Reason.POLICY_DENIED: (_Q.AGENT, 79),
    Reason.SPENT: (_Q.AGENT, 79),
    Reason.CEILING_EXCEEDED: (_Q.ARGUMENTS, 79),
    Reason.CEILING_UNCOVERED: (_Q.ARGUMENTS, 79),
    Reason.CEILING_UNMET: (_Q.ARGUMENTS, 79),
    Reason.OBLIGATION_UNKNOWN: (_Q.AGENT, 79),
    Reason.LOOP_BROKEN: (_Q.COST, 79),
    Reason.BUDGET_EXHAUSTED: (_Q.COST, 89),
    Reason.HELD: (_Q.APPROVAL, 84),
    Reason.HOLD_REJECTED: (_Q.APPROVAL, 84),
    Reason.HOLD_EXPIRED: (_Q.APPROVAL, 84),
    Reason.DECISION_NOT_RECORDED: (_Q.LOGGED, 99),
}
"""Which question a reason answers with no, and how far the decider had come."""

_BY_LIMITS: Final = frozenset({Reason.BUDGET_EXHAUSTED, Reason.LOOP_BROKEN})
"""Reasons whose rule ids are those of limits."""

_BEFORE: Final = (_Q.ENVELOPED, 11)
"""Of every other reason: the call never got an envelope."""

_END: Final = 1_000


def explain(record: Mapping[str, Any], *, stored: bool = True) -> Explanation:
    """Return the twelve answers of a decision's record; `stored` tells whether the record was kept."""
    reason = str(record.get("reason", ""))
    refused, reached = _refused(reason, str(record.get("detail", "")))
    answers = []
    for question in _Q:
        said = _said(question, refused, reached, str(record.get("decision", "")))
        if not stored and question in {_Q.LOGGED, _Q.COST}:  # decided dry: nothing is booked or recorded
            said = Said.NOT_ASKED
        value, rule = _VALUES[question](record) if said is not Said.NOT_ASKED else ("", "")
        detail = str(record.get("detail", "")) if question is refused else ""
        answers.append(Answer(question.value, said, _joined(value, detail), rule))
    return Explanation(
        call=f"{record.get('task_id', '')}/{record.get('call_id', '')} {record.get('method', '')}",
        decision=str(record.get("decision", "")),
        reason=reason,
        says=MESSAGE[Reason(reason)] if reason in Reason.__members__ else "",
        answers=tuple(answers),
    )


def _refused(reason: str, detail: str) -> tuple[_Q | None, int]:
    if not reason:
        return None, _END
    known = Reason(reason) if reason in Reason.__members__ else None
    question, reached = _REFUSED.get(known, _BEFORE) if known is not None else _BEFORE
    if known is Reason.CONTRACT_REFUSED and "autonomy mode" in detail:
        return _Q.MODE, reached
    return question, reached


def _said(question: _Q, refused: _Q | None, reached: int, decision: str) -> Said:
    if question is refused:
        return {"failed": Said.FAILED, "hold": Said.WAITS}.get(decision, Said.NO)
    if question is _Q.LOGGED or _STAGE[question] <= reached:
        return Said.YES
    return Said.NOT_ASKED


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _listed(values: object) -> str:
    return ", ".join(map(str, values)) if isinstance(values, Sequence) and not isinstance(values, str) else ""


def _enveloped(record: Mapping[str, Any]) -> tuple[str, str]:
    what = f"{record.get('operation', '')} {record.get('resource', '')}".strip()
    what = _joined(what, str(record.get("summary", "")))
    version = str(record.get("tool_version", ""))[:12]
    return what, f"catalog {record.get('tool', '')}@{version}" if version else ""


def _tenant(record: Mapping[str, Any]) -> tuple[str, str]:
    return str(record.get("tenant", "")), f"task {record.get('task_id', '')}, facts of the tool"


def _user(record: Mapping[str, Any]) -> tuple[str, str]:
    links = _listed(record.get("delegations", ()))
    principal = str(record.get("principal", ""))
    return principal, f"delegations {links}" if links else f"task {record.get('task_id', '')}"


def _agent(record: Mapping[str, Any]) -> tuple[str, str]:
    value = f"{record.get('agent', '')}, {record.get('operation', '')}"
    shadow, candidate = record.get("shadow_decision", ""), record.get("candidate_decision", "")
    value = _joined(
        value, f"not enforced: {shadow}" if shadow else "", f"candidate: {candidate}" if candidate else ""
    )
    bundle = f"bundle {record.get('bundle_version', 0)}"
    if record.get("decision") == "hold" or record.get("reason") in _BY_LIMITS:
        return value, bundle
    rules = _listed(record.get("rule_ids", ()))
    return value, f"{rules or 'no rule allows it'}, {bundle}"


def _mode(record: Mapping[str, Any]) -> tuple[str, str]:
    tier = int(record.get("tier", 0))
    return f"tier {tier}, {class_of(tier).name.lower()}", f"contract of task {record.get('task_id', '')}"


def _arguments(record: Mapping[str, Any]) -> tuple[str, str]:
    digest, asked = str(record.get("call_digest", "")), str(record.get("original_call_digest", ""))
    value = f"digest {digest[:16]}" if digest else ""
    return _joined(value, f"narrowed from {asked[:16]}" if asked else ""), str(record.get("method", ""))


def _intent(record: Mapping[str, Any]) -> tuple[str, str]:
    return str(record.get("operation", "")), f"contract of task {record.get('task_id', '')}"


def _environment(record: Mapping[str, Any]) -> tuple[str, str]:
    generation = record.get("generation", 0)
    rule = f"configuration {record.get('config_seq', 0)}, generation {generation}"
    return str(record.get("environment", "")), rule


def _cost(record: Mapping[str, Any]) -> tuple[str, str]:
    amount, currency = int(record.get("amount_minor", 0)), str(record.get("currency", ""))
    rules = _listed(record.get("rule_ids", ())) if record.get("reason") in _BY_LIMITS else ""
    value = f"{spell_amount(amount, currency)} {currency}" if currency else "no money"
    return value, rules or "budgets and loop limits"


def _secrets(record: Mapping[str, Any]) -> tuple[str, str]:
    return _listed(record.get("risk_flags", ())) or "nothing found", "egress check"


def _approval(record: Mapping[str, Any]) -> tuple[str, str]:
    people, hold = _listed(record.get("approvals", ())), str(record.get("hold_id", ""))
    value = f"approved by {people}" if people else ("people are asked" if hold else "nobody must")
    held = record.get("decision") == "hold"
    return value, _joined(_listed(record.get("rule_ids", ())) if held else "", f"hold {hold}" if hold else "")


def _logged(record: Mapping[str, Any]) -> tuple[str, str]:
    return f"event {record.get('event_id', '')}", str(record.get("kind", ""))


_VALUES: Final = {
    _Q.ENVELOPED: _enveloped,
    _Q.TENANT: _tenant,
    _Q.USER: _user,
    _Q.AGENT: _agent,
    _Q.MODE: _mode,
    _Q.ARGUMENTS: _arguments,
    _Q.INTENT: _intent,
    _Q.ENVIRONMENT: _environment,
    _Q.COST: _cost,
    _Q.SECRETS: _secrets,
    _Q.APPROVAL: _approval,
    _Q.LOGGED: _logged,
}
"""What each answer rests on: the value, and the rule or list it stands under."""


def text_of(explanation: Explanation) -> str:
    """Return an explanation for people."""
    head = f"{explanation.call}: {explanation.decision}"
    if explanation.reason:
        head += f", {explanation.reason}: {explanation.says}"
    rows = [
        f"{number:2} {answer.answer:<9} {answer.question:<36} {_cell(answer)}"
        for number, answer in enumerate(explanation.answers, start=1)
    ]
    return "\n".join([head, *rows])


def _cell(answer: Answer) -> str:
    return f"{answer.value}  [{answer.rule}]" if answer.rule else answer.value
