"""The egress check: secrets and personal data in the arguments of calls, as risk flags for rules."""

from decider.egress.check import (
    UNCHECKED,
    Allowed,
    Finding,
    Report,
    inspect,
    inspect_fields,
    inspect_text,
    is_flag,
)
from decider.egress.rulebook import Kind, RuleBook, packaged, read_rules

__all__ = [
    "UNCHECKED",
    "Allowed",
    "Finding",
    "Kind",
    "Report",
    "RuleBook",
    "inspect",
    "inspect_fields",
    "inspect_text",
    "is_flag",
    "packaged",
    "read_rules",
]
