"""What a check found."""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How it is."""

    OK = "ok"
    PROBLEM = "problem"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. `do`: what to do about a problem; empty otherwise."""

    check: str
    state: State
    says: str
    do: str = ""


def ok(check: str, says: str) -> Finding:
    """Return that all is well."""
    return Finding(check, State.OK, says)


def problem(check: str, says: str, do: str) -> Finding:
    """Return what is wrong, and what to do."""
    return Finding(check, State.PROBLEM, says, do)


def skipped(check: str, *variables: str) -> Finding:
    """Return that nothing was looked at, since these variables are not set."""
    names = ", ".join(f"LICET_{name.upper()}" for name in variables)
    return Finding(check, State.SKIPPED, f"set {names} to have it checked")
