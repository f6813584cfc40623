"""Recorded decisions, asked again under another bundle: per call what would change.

Reads what `licet audit inputs` writes: one JSON object a line. Guarantees: every recorded call is accounted
for by its id, also those that cannot be asked again (refused before the rules, or recorded in part); totals
are sums of what is listed, so a swap cannot hide behind a net. Limits, contracts and people are as they were
recorded: only the rules are other ones. Pure but for `read_inputs`.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from decider.policy.cedar import RuleCall, RuleSet, Value
from decider.policy.policy_tests import said

MAX_LINE: Final = 4 << 20
BY_RULES: Final = frozenset({"", "POLICY_DENIED", "SPENT", "HELD", "HOLD_REJECTED", "HOLD_EXPIRED"})
"""Recorded reasons that rules gave; what another reason stopped, no bundle would let through."""

LETS: Final = frozenset({"allow", "modify"})


class Change(StrEnum):
    """What another bundle would do to one recorded call."""

    KEPT = "kept"
    STILL_STOPPED = "still stopped"
    LOST = "lost"
    GAINED = "gained"
    OTHERWISE = "otherwise"
    UNAVAILABLE = "unavailable"
    NOT_ASKED = "not asked"


GRAVE: Final = frozenset({Change.LOST, Change.GAINED, Change.UNAVAILABLE})
"""What a gate refuses: something lawful lost, something stopped let through, no usable decision."""


class ReplayError(ValueError):
    """The inputs cannot be read; `str()` says where."""


@dataclass(frozen=True, slots=True)
class Row:
    """One recorded call before and after."""

    call: str
    decision_id: str
    change: Change
    before: str
    after: str
    rules_before: tuple[str, ...]
    rules_after: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Replay:
    """Every row, in the order of the inputs."""

    rows: tuple[Row, ...]

    @property
    def counts(self) -> Mapping[str, int]:
        """How many rows there are of each kind, all kinds named."""
        found = Counter(row.change for row in self.rows)
        return {str(change): found[change] for change in Change}

    @property
    def grave(self) -> tuple[Row, ...]:
        """The rows that a gate refuses."""
        return tuple(row for row in self.rows if row.change in GRAVE)

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {"counts": dict(self.counts), "calls": [asdict(row) for row in self.rows]}


def replay(rules: RuleSet, inputs: Iterable[Mapping[str, Any]]) -> Replay:
    """Ask every recorded call again. Raises `ReplayError` for one that is no decision input."""
    return Replay(tuple(_row(rules, number, one) for number, one in enumerate(inputs, start=1)))


def _row(rules: RuleSet, number: int, recorded: Mapping[str, Any]) -> Row:
    try:
        before, reason = str(recorded["decision"]), str(recorded["reason"])
        call = f"{recorded['task_id']}/{recorded['call_id']}"
        decision_id, rules_before = str(recorded["decision_id"]), tuple(map(str, recorded["rule_ids"]))
        asked = recorded["rules"]
        if asked is None or reason not in BY_RULES or "rule_input" in recorded.get("left_out", ()):
            return Row(call, decision_id, Change.NOT_ASKED, before, "", rules_before, ())
        rule_call, lifted = _asked(asked)
    except (KeyError, TypeError, ValueError) as error:
        raise ReplayError(f"line {number} is no decision input: {error}") from None
    after, rules_after = said(rules.narrow(rule_call, lifted=lifted))
    return Row(call, decision_id, _change(before, after), before, after, rules_before, rules_after)


def _asked(asked: Mapping[str, Any]) -> tuple[RuleCall, frozenset[str]]:
    call = RuleCall(
        agent=str(asked["agent"]),
        operation=str(asked["operation"]),
        resource_type=str(asked["resource_type"]),
        resource=str(asked["resource"]),
        attributes=_values(asked["attributes"]),
        context=_values(asked["context"]),
    )
    return call, frozenset(map(str, asked["lifted"]))


def _values(values: Any) -> dict[str, Value]:
    if not isinstance(values, dict):
        raise TypeError("attributes and context are objects")
    return {str(name): _value(value) for name, value in values.items()}


def _value(value: Any) -> Value:
    if isinstance(value, list):
        return tuple(_value(item) for item in value)
    if isinstance(value, dict):
        return _values(value)
    if isinstance(value, str | bool | int):
        return value
    raise TypeError("a value that no rule reads")


def _change(before: str, after: str) -> Change:
    if after == "failed":
        return Change.UNAVAILABLE
    if before in LETS and after in LETS:
        return Change.KEPT if before == after else Change.OTHERWISE
    if before in LETS:
        return Change.LOST
    if after in LETS:
        return Change.GAINED
    return Change.STILL_STOPPED if before == after else Change.OTHERWISE


def read_inputs(path: Path) -> Iterable[Mapping[str, Any]]:
    """Yield the recorded inputs of a file, one JSON object a line. Raises `ReplayError`."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if len(line) > MAX_LINE:
                    raise ReplayError(f"`{path}` line {number} is longer than {MAX_LINE} bytes")
                value = json.loads(line)
                if not isinstance(value, dict):
                    raise ReplayError(f"`{path}` line {number} is no object")
                yield value
    except OSError as error:
        raise ReplayError(f"`{path}` cannot be read: {error.strerror}") from None
    except ValueError as error:
        if isinstance(error, ReplayError):
            raise
        raise ReplayError(f"`{path}` is not JSON, one object a line: {error}") from None


def text_of(result: Replay) -> str:
    """Return what would change as lines for people, then the counts."""
    lines = [
        f"{row.change:<13} {row.before:>6} → {row.after:<6} {row.call}"
        f"  [{', '.join(row.rules_before) or '–'} → {', '.join(row.rules_after) or '–'}]"
        for row in result.rows
        if row.change not in {Change.KEPT, Change.STILL_STOPPED, Change.NOT_ASKED}
    ]
    counts = ", ".join(f"{count} {name}" for name, count in result.counts.items())
    return "\n".join([*lines, f"{len(result.rows)} calls: {counts}"])
