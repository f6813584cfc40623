"""Why a call was refused: a closed list of reasons, as values.

A refusal is returned, never raised, and has no truth value: `if result:` cannot let one through. `Reason`
mirrors the enum `RefusalReason` of proto/licet/v1/refusal.proto name by name (a test holds them together).
The caller sees the reason and one fixed sentence; `detail` is for the log and the audit record only,
because limits and values told to a caller would make the door an oracle.

Nothing here knows gRPC: `Status` holds the names of status codes, the shells translate them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

DOMAIN = "licet"
"""The domain of `google.rpc.ErrorInfo`."""


class Status(StrEnum):
    """Names of the gRPC status codes that a refusal can end with."""

    UNAUTHENTICATED = "UNAUTHENTICATED"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    FAILED_PRECONDITION = "FAILED_PRECONDITION"
    ALREADY_EXISTS = "ALREADY_EXISTS"
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    UNIMPLEMENTED = "UNIMPLEMENTED"
    UNAVAILABLE = "UNAVAILABLE"
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED"
    UNKNOWN = "UNKNOWN"
    INTERNAL = "INTERNAL"


class Reason(StrEnum):
    """Why a call was refused; what each one means stands in proto/licet/v1/refusal.proto."""

    QUOTA_EXCEEDED = "QUOTA_EXCEEDED"
    TOO_LARGE = "TOO_LARGE"
    METHOD_UNKNOWN = "METHOD_UNKNOWN"
    CLIENT_STREAMING = "CLIENT_STREAMING"
    NO_PERMIT = "NO_PERMIT"
    PERMIT_AMBIGUOUS = "PERMIT_AMBIGUOUS"
    SIGNATURE_INVALID = "SIGNATURE_INVALID"
    KEY_UNKNOWN = "KEY_UNKNOWN"
    KEY_ROLE = "KEY_ROLE"
    KEY_SCOPE = "KEY_SCOPE"
    KEY_REVOKED = "KEY_REVOKED"
    PERMIT_MALFORMED = "PERMIT_MALFORMED"
    PERMIT_UNKNOWN_FIELD = "PERMIT_UNKNOWN_FIELD"
    DECISION_INVALID = "DECISION_INVALID"
    ENVIRONMENT_MISMATCH = "ENVIRONMENT_MISMATCH"
    AUDIENCE_MISMATCH = "AUDIENCE_MISMATCH"
    METHOD_MISMATCH = "METHOD_MISMATCH"
    METHOD_SUPERSEDED = "METHOD_SUPERSEDED"
    CALLER_MISMATCH = "CALLER_MISMATCH"
    CALLER_UNKNOWN = "CALLER_UNKNOWN"
    EXPIRED = "EXPIRED"
    NOT_YET_VALID = "NOT_YET_VALID"
    LIFE_TOO_LONG = "LIFE_TOO_LONG"
    BEACON_STALE = "BEACON_STALE"
    BEACON_BEHIND = "BEACON_BEHIND"
    BUNDLE_SUPERSEDED = "BUNDLE_SUPERSEDED"
    GENERATION_SUPERSEDED = "GENERATION_SUPERSEDED"
    DECISION_REVOKED = "DECISION_REVOKED"
    TASK_REVOKED = "TASK_REVOKED"
    AGENT_REVOKED = "AGENT_REVOKED"
    PRINCIPAL_REVOKED = "PRINCIPAL_REVOKED"
    DELEGATION_REVOKED = "DELEGATION_REVOKED"
    TOOL_STOPPED = "TOOL_STOPPED"
    ENVIRONMENT_STOPPED = "ENVIRONMENT_STOPPED"
    ARGUMENTS_MALFORMED = "ARGUMENTS_MALFORMED"
    UNKNOWN_FIELD = "UNKNOWN_FIELD"
    JSON_STRICT = "JSON_STRICT"
    RESOURCE_MISMATCH = "RESOURCE_MISMATCH"
    DIGEST_MISMATCH = "DIGEST_MISMATCH"
    CEILING_EXCEEDED = "CEILING_EXCEEDED"
    CEILING_UNCOVERED = "CEILING_UNCOVERED"
    CEILING_UNMET = "CEILING_UNMET"
    OBLIGATION_UNKNOWN = "OBLIGATION_UNKNOWN"
    APPROVAL_MISSING = "APPROVAL_MISSING"
    APPROVAL_INVALID = "APPROVAL_INVALID"
    SPENT = "SPENT"
    STORE_UNAVAILABLE = "STORE_UNAVAILABLE"
    STORE_FULL = "STORE_FULL"
    STORE_UNSAFE = "STORE_UNSAFE"
    STORE_ROLLED_BACK = "STORE_ROLLED_BACK"
    LOG_BEHIND = "LOG_BEHIND"
    AUDIT_BACKPRESSURE = "AUDIT_BACKPRESSURE"
    ROUND_INVALID = "ROUND_INVALID"
    TOOL_UNREACHABLE = "TOOL_UNREACHABLE"
    PRECONDITION_FAILED = "PRECONDITION_FAILED"
    SPEND_VOIDED = "SPEND_VOIDED"
    OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
    DEADLINE = "DEADLINE"
    INTERNAL = "INTERNAL"
    POLICY_DENIED = "POLICY_DENIED"
    HELD = "HELD"
    TASK_UNKNOWN = "TASK_UNKNOWN"
    TASK_CLOSED = "TASK_CLOSED"
    CALL_ID_INVALID = "CALL_ID_INVALID"
    ON_BEHALF_REFUSED = "ON_BEHALF_REFUSED"
    FACTS_UNAVAILABLE = "FACTS_UNAVAILABLE"
    EVALUATION_FAILED = "EVALUATION_FAILED"
    PRINCIPAL_INVALID = "PRINCIPAL_INVALID"
    TENANT_MISMATCH = "TENANT_MISMATCH"
    ARGUMENT_REFUSED = "ARGUMENT_REFUSED"
    CONTRACT_REFUSED = "CONTRACT_REFUSED"
    DELEGATION_EXCEEDED = "DELEGATION_EXCEEDED"
    BUDGET_EXHAUSTED = "BUDGET_EXHAUSTED"
    LOOP_BROKEN = "LOOP_BROKEN"
    HOLD_REJECTED = "HOLD_REJECTED"
    HOLD_EXPIRED = "HOLD_EXPIRED"
    HOLD_EDITED = "HOLD_EDITED"
    DECISION_NOT_RECORDED = "DECISION_NOT_RECORDED"
    MODIFIED = "MODIFIED"
    REGISTRATION_REFUSED = "REGISTRATION_REFUSED"
    TASK_INVALID = "TASK_INVALID"
    TASK_EXISTS = "TASK_EXISTS"
    TOKEN_MISSING = "TOKEN_MISSING"
    TOKEN_MALFORMED = "TOKEN_MALFORMED"
    TOKEN_ALGORITHM = "TOKEN_ALGORITHM"
    TOKEN_KEY_UNKNOWN = "TOKEN_KEY_UNKNOWN"
    TOKEN_SIGNATURE = "TOKEN_SIGNATURE"
    TOKEN_EXPIRED = "TOKEN_EXPIRED"
    TOKEN_NOT_YET_VALID = "TOKEN_NOT_YET_VALID"
    TOKEN_AUDIENCE = "TOKEN_AUDIENCE"
    TOKEN_ISSUER = "TOKEN_ISSUER"
    TOKEN_KEYS_UNAVAILABLE = "TOKEN_KEYS_UNAVAILABLE"
    RESOURCE_UNKNOWN = "RESOURCE_UNKNOWN"


# One row a reason: status, number of the check of the protocol (0: none of the door's), what the caller may
# read.
_TABLE: Mapping[Reason, tuple[Status, int, str]] = {
    Reason.QUOTA_EXCEEDED: (Status.RESOURCE_EXHAUSTED, 1, "too many calls: slow down"),
    Reason.TOO_LARGE: (Status.RESOURCE_EXHAUSTED, 1, "the request or its metadata is too large"),
    Reason.METHOD_UNKNOWN: (Status.UNIMPLEMENTED, 2, "no such method here: send its exact path"),
    Reason.CLIENT_STREAMING: (Status.UNIMPLEMENTED, 2, "client streaming is not supported"),
    Reason.NO_PERMIT: (Status.UNAUTHENTICATED, 3, "no permit came with the call: ask for a decision first"),
    Reason.PERMIT_AMBIGUOUS: (Status.UNAUTHENTICATED, 3, "more than one permit came with the call"),
    Reason.SIGNATURE_INVALID: (Status.UNAUTHENTICATED, 4, "the permit's signature is not valid"),
    Reason.KEY_UNKNOWN: (Status.UNAUTHENTICATED, 4, "the permit is signed by an unknown key"),
    Reason.KEY_ROLE: (Status.UNAUTHENTICATED, 4, "the permit is signed by a key that may not sign permits"),
    Reason.KEY_SCOPE: (Status.UNAUTHENTICATED, 4, "the permit's key does not hold here and now"),
    Reason.KEY_REVOKED: (Status.PERMISSION_DENIED, 9, "the permit's key is revoked"),
    Reason.PERMIT_MALFORMED: (Status.UNAUTHENTICATED, 5, "the permit is malformed"),
    Reason.PERMIT_UNKNOWN_FIELD: (
        Status.UNAUTHENTICATED,
        5,
        "the permit holds a field that is not known here",
    ),
    Reason.DECISION_INVALID: (Status.UNAUTHENTICATED, 5, "the decision lets no call through"),
    Reason.ENVIRONMENT_MISMATCH: (Status.PERMISSION_DENIED, 6, "the permit is for another environment"),
    Reason.AUDIENCE_MISMATCH: (Status.PERMISSION_DENIED, 6, "the permit is for another tool"),
    Reason.METHOD_MISMATCH: (Status.PERMISSION_DENIED, 6, "the permit is for another method"),
    Reason.METHOD_SUPERSEDED: (
        Status.FAILED_PRECONDITION,
        6,
        "the method has changed: ask for a new decision",
    ),
    Reason.CALLER_MISMATCH: (Status.UNAUTHENTICATED, 7, "the permit is for another caller"),
    Reason.CALLER_UNKNOWN: (Status.UNAUTHENTICATED, 7, "the caller has no identity that is accepted here"),
    Reason.EXPIRED: (Status.FAILED_PRECONDITION, 8, "the permit has expired: ask for a new decision"),
    Reason.NOT_YET_VALID: (Status.FAILED_PRECONDITION, 8, "the permit is from the future: check the clocks"),
    Reason.LIFE_TOO_LONG: (Status.UNAUTHENTICATED, 8, "the permit lives longer than its class allows"),
    Reason.BEACON_STALE: (Status.UNAVAILABLE, 9, "what is current is not known here just now: try again"),
    Reason.BEACON_BEHIND: (Status.UNAVAILABLE, 9, "the permit is newer than what is known here: try again"),
    Reason.BUNDLE_SUPERSEDED: (
        Status.FAILED_PRECONDITION,
        9,
        "the policy has changed: ask for a new decision",
    ),
    Reason.GENERATION_SUPERSEDED: (
        Status.FAILED_PRECONDITION,
        9,
        "the stores were restored: ask for a new decision",
    ),
    Reason.DECISION_REVOKED: (Status.PERMISSION_DENIED, 9, "the decision is revoked"),
    Reason.TASK_REVOKED: (Status.PERMISSION_DENIED, 9, "the task is revoked"),
    Reason.AGENT_REVOKED: (Status.PERMISSION_DENIED, 9, "the agent is revoked"),
    Reason.PRINCIPAL_REVOKED: (Status.PERMISSION_DENIED, 9, "the principal is revoked"),
    Reason.DELEGATION_REVOKED: (Status.PERMISSION_DENIED, 9, "a delegation behind the decision is revoked"),
    Reason.TOOL_STOPPED: (Status.PERMISSION_DENIED, 9, "the tool is stopped"),
    Reason.ENVIRONMENT_STOPPED: (Status.PERMISSION_DENIED, 9, "the environment is stopped"),
    Reason.ARGUMENTS_MALFORMED: (Status.INVALID_ARGUMENT, 10, "the arguments cannot be read"),
    Reason.UNKNOWN_FIELD: (Status.INVALID_ARGUMENT, 10, "the arguments hold a field that is not known here"),
    Reason.JSON_STRICT: (
        Status.INVALID_ARGUMENT,
        10,
        "the arguments are JSON that could be read in two ways",
    ),
    Reason.RESOURCE_MISMATCH: (Status.PERMISSION_DENIED, 10, "the permit is for another resource"),
    Reason.DIGEST_MISMATCH: (Status.PERMISSION_DENIED, 10, "these are not the arguments that were decided"),
    Reason.CEILING_EXCEEDED: (Status.PERMISSION_DENIED, 10, "an argument is outside what was permitted"),
    Reason.CEILING_UNCOVERED: (
        Status.PERMISSION_DENIED,
        10,
        "an argument was not part of what was permitted",
    ),
    Reason.CEILING_UNMET: (Status.PERMISSION_DENIED, 10, "an argument that was permitted is missing"),
    Reason.OBLIGATION_UNKNOWN: (
        Status.PERMISSION_DENIED,
        11,
        "an obligation of the permit cannot be met here",
    ),
    Reason.APPROVAL_MISSING: (
        Status.PERMISSION_DENIED,
        11,
        "the call needs approvals that did not come with it",
    ),
    Reason.APPROVAL_INVALID: (
        Status.PERMISSION_DENIED,
        11,
        "an approval that came with the call is not valid",
    ),
    Reason.SPENT: (Status.ALREADY_EXISTS, 12, "this step has been used up: do not retry it"),
    Reason.STORE_UNAVAILABLE: (Status.UNAVAILABLE, 12, "the spend store cannot be reached: try again"),
    Reason.STORE_FULL: (Status.UNAVAILABLE, 12, "the spend store is full"),
    Reason.STORE_UNSAFE: (Status.UNAVAILABLE, 12, "the spend store is not safe to use"),
    Reason.STORE_ROLLED_BACK: (Status.UNAVAILABLE, 12, "the spend store went back in time"),
    Reason.LOG_BEHIND: (Status.UNAVAILABLE, 12, "the spend log is behind: try again"),
    Reason.AUDIT_BACKPRESSURE: (Status.UNAVAILABLE, 12, "events cannot be kept just now: try again"),
    Reason.ROUND_INVALID: (Status.FAILED_PRECONDITION, 12, "this try is not the step's next one"),
    Reason.TOOL_UNREACHABLE: (Status.UNAVAILABLE, 13, "the tool cannot be reached; nothing was sent"),
    Reason.PRECONDITION_FAILED: (
        Status.FAILED_PRECONDITION,
        13,
        "something the decision relied on has changed: ask for a new decision",
    ),
    Reason.SPEND_VOIDED: (
        Status.FAILED_PRECONDITION,
        13,
        "this try was voided: ask for a new decision",
    ),
    Reason.OUTCOME_UNKNOWN: (
        Status.UNKNOWN,
        14,
        "the call was sent and its outcome is not known: do not retry it",
    ),
    Reason.DEADLINE: (Status.DEADLINE_EXCEEDED, 0, "the deadline passed before the call was sent"),
    Reason.INTERNAL: (Status.INTERNAL, 0, "a fault of the gate itself; the call was not let through"),
    Reason.POLICY_DENIED: (Status.PERMISSION_DENIED, 0, "policy does not allow it"),
    Reason.HELD: (Status.FAILED_PRECONDITION, 0, "waiting for people to approve"),
    Reason.TASK_UNKNOWN: (Status.PERMISSION_DENIED, 0, "the task is not one of this caller's"),
    Reason.TASK_CLOSED: (Status.FAILED_PRECONDITION, 0, "the task is closed"),
    Reason.CALL_ID_INVALID: (
        Status.INVALID_ARGUMENT,
        0,
        "the call id must be 1 to 128 printable ASCII characters",
    ),
    Reason.ON_BEHALF_REFUSED: (Status.PERMISSION_DENIED, 0, "may not ask on behalf of that caller"),
    Reason.FACTS_UNAVAILABLE: (Status.UNAVAILABLE, 0, "the tool's own facts could not be had: try again"),
    Reason.EVALUATION_FAILED: (Status.UNAVAILABLE, 0, "the policy could not be evaluated"),
    Reason.PRINCIPAL_INVALID: (Status.UNAUTHENTICATED, 0, "the user token is not the task's principal's"),
    Reason.TENANT_MISMATCH: (Status.PERMISSION_DENIED, 0, "the resource belongs to another tenant"),
    Reason.ARGUMENT_REFUSED: (Status.PERMISSION_DENIED, 10, "an argument is not allowed"),
    Reason.CONTRACT_REFUSED: (Status.PERMISSION_DENIED, 0, "outside the task's contract"),
    Reason.DELEGATION_EXCEEDED: (Status.PERMISSION_DENIED, 0, "wider than the delegation"),
    Reason.BUDGET_EXHAUSTED: (Status.RESOURCE_EXHAUSTED, 0, "a budget is used up"),
    Reason.LOOP_BROKEN: (Status.PERMISSION_DENIED, 0, "the same call again and again: the loop was broken"),
    Reason.HOLD_REJECTED: (Status.PERMISSION_DENIED, 0, "an approver rejected it"),
    Reason.HOLD_EXPIRED: (Status.FAILED_PRECONDITION, 0, "nobody approved it in time"),
    Reason.HOLD_EDITED: (Status.FAILED_PRECONDITION, 0, "an approver narrowed it: answer the narrowed call"),
    Reason.DECISION_NOT_RECORDED: (Status.UNAVAILABLE, 0, "the decision could not be recorded: try again"),
    Reason.MODIFIED: (Status.FAILED_PRECONDITION, 0, "the request was narrowed: send the effective request"),
    Reason.REGISTRATION_REFUSED: (Status.PERMISSION_DENIED, 0, "may not register or close this task"),
    Reason.TASK_INVALID: (Status.INVALID_ARGUMENT, 0, "no task can be registered like this"),
    Reason.TASK_EXISTS: (Status.ALREADY_EXISTS, 0, "another task has this id"),
    Reason.TOKEN_MISSING: (Status.UNAUTHENTICATED, 0, "a user token is required"),
    Reason.TOKEN_MALFORMED: (Status.UNAUTHENTICATED, 0, "the user token cannot be read"),
    Reason.TOKEN_ALGORITHM: (Status.UNAUTHENTICATED, 0, "the user token's algorithm is not taken"),
    Reason.TOKEN_KEY_UNKNOWN: (
        Status.UNAUTHENTICATED,
        0,
        "the user token names a key that its issuer does not have",
    ),
    Reason.TOKEN_SIGNATURE: (Status.UNAUTHENTICATED, 0, "the user token's signature does not fit"),
    Reason.TOKEN_EXPIRED: (Status.UNAUTHENTICATED, 0, "the user token has expired"),
    Reason.TOKEN_NOT_YET_VALID: (Status.UNAUTHENTICATED, 0, "the user token is not valid yet"),
    Reason.TOKEN_AUDIENCE: (Status.UNAUTHENTICATED, 0, "the user token is for another audience"),
    Reason.TOKEN_ISSUER: (Status.UNAUTHENTICATED, 0, "the user token's issuer is not known here"),
    Reason.TOKEN_KEYS_UNAVAILABLE: (Status.UNAVAILABLE, 0, "the issuer's keys could not be had: try again"),
    Reason.RESOURCE_UNKNOWN: (Status.PERMISSION_DENIED, 0, "the tool has no such resource"),
}

STATUS: Mapping[Reason, Status] = MappingProxyType({reason: row[0] for reason, row in _TABLE.items()})
"""The gRPC status of each reason; total."""

STEP: Mapping[Reason, int] = MappingProxyType({reason: row[1] for reason, row in _TABLE.items()})
"""The number of the door's check that gives each reason; 0 for those that are no check of the door. Total."""

MESSAGE: Mapping[Reason, str] = MappingProxyType({reason: row[2] for reason, row in _TABLE.items()})
"""What a caller may read; says nothing that the reason does not say. Total."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a call may not go on.

    `detail` is for operators (log, audit): it may name limits and values and never goes to the caller.
    `step` is the number of the check of the protocol; left at 0 it becomes the reason's own. `rule_id` names
    the rule of catalog, contract or bundle that it stands under, where it is one. `argument` is a path that
    the catalog names, never one of the caller's making: the caller may read which argument it was.
    """

    reason: Reason
    detail: str = ""
    step: int = 0
    rule_id: str = ""
    argument: str = ""

    def __post_init__(self) -> None:
        if self.step == 0:
            object.__setattr__(self, "step", STEP[self.reason])

    def __bool__(self) -> bool:
        """Raise TypeError: `if permit:` would take a refusal for a permit, `refusal or x` for nothing."""
        raise TypeError("a refusal has no truth value: use `isinstance(result, Refusal)`")

    @property
    def status(self) -> Status:
        """The gRPC status it ends with."""
        return STATUS[self.reason]

    @property
    def message(self) -> str:
        """One sentence that the caller may read."""
        sentence = MESSAGE[self.reason]
        return f"{sentence}: `{self.argument}`" if self.argument else sentence
