"""Names of the metadata that licet reads and writes: the one place that spells them.

Guarantees nothing about their values; every reader checks what it takes.
"""

PERMIT = "licet-permit-bin"
"""Caller to sidecar, sidecar to tool: one serialised Signed of at most 4,096 bytes, exactly once."""

APPROVAL = "licet-approval-bin"
"""Caller to sidecar, sidecar to tool: a serialised ApprovalProof, 0 to 4 times, privileged calls only."""

CALL_ID = "licet-call-id"
"""Caller to sidecar, decide on call: the caller's stable id of the step. Sidecar to caller, in trailers."""

TASK_ID = "licet-task-id"
"""Caller to sidecar, decide on call: one of the caller's own tasks."""

ATTEMPT = "licet-attempt"
"""Sidecar to tool: 32 lower hex digits, this one try."""

EFFECT = "licet-effect"
"""Tool to sidecar, in trailers: the guard's word, `executed`, `stored` or `none`; absent without a guard."""

DEV_IDENTITY = "licet-dev-identity"
"""Caller to any part: a SPIFFE id, believed only under the development setting on a loopback listener."""
