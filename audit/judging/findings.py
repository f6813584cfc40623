"""Findings: how a call went, judged from what three parties said of it. Pure.

Evidence comes from the decider (policy), the door and the spend log (authorization), and the ledger, by the
tool's outbox and, at tier 4 and 5, by a reader of its own. Nobody's word alone makes ALLOWED_EXECUTED.

Guarantees: every step with any evidence gets exactly one finding; a change of the ledger that no usable
decision explains is never ALLOWED_EXECUTED, whatever else is on record. `settled` says that more time will
not change the verdict, but for a bypass that comes later. Not here: reading, waiting, fencing
(audit.judging.reconcile).

The rules, in order (docs/protocol.md 5.5):
 1 change without usable decision     DENIED_BUT_BYPASSED if the resource was denied, else NO_RULE_LOOKUP
 2 denied or held, resource changed   DENIED_BUT_BYPASSED; held and this step changed: HELD_WITHOUT_APPROVAL
 3 denied or held, no change          DENIED_STOPPED
 4 failed, no change                  FAILED_STOPPED
 5 rules differ from the label        WRONG_RULE
 6 outbox and ledger reader differ    LEDGER_DISAGREES
 7 change outside digest or amount    ALLOWED_WRONG_PARAMETERS
 8 changed, but nothing was reserved  EXECUTED_WITHOUT_SPEND
 9 reserved, no outcome               UNKNOWN_OUTCOME
10 executed as announced              ALLOWED_EXECUTED
11 voided, no effect, or unused       ALLOWED_NOT_EXECUTED
 - evidence too large or unreadable   NOT_JUDGED

Sums are Python's integers, exact at any size. Rows of another tool, and spend records whose signature does
not hold, are no evidence of a step: they are named in `detail` and change no verdict.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

FENCE_GRACE_MS: Final = 5_000
"""After a permit's end by so much, an open round may be fenced."""
WINDOW_US: Final = 300_000_000
"""A change of a resource within 5 minutes after its denial counts as a bypass of it."""
SETTLE_US: Final = 2_000_000
"""What belongs together arrives within 2 s; before, an absence proves nothing."""
OVERDUE_US: Final = 10_000_000
"""What is still missing 10 s later, a ledger row or a decision, is missing: streams may lag when busy."""
MAX_NAMED: Final = 5
"""So many are named in a finding's detail."""
PERMIT_ISSUER: Final = "permit"
MAX_READ_TIER: Final = 1


class FindingClass(StrEnum):
    """How a call went: a closed list."""

    DENIED_STOPPED = "DENIED_STOPPED"
    FAILED_STOPPED = "FAILED_STOPPED"
    ALLOWED_EXECUTED = "ALLOWED_EXECUTED"
    ALLOWED_NOT_EXECUTED = "ALLOWED_NOT_EXECUTED"
    NO_RULE_LOOKUP = "NO_RULE_LOOKUP"
    WRONG_RULE = "WRONG_RULE"
    DENIED_BUT_BYPASSED = "DENIED_BUT_BYPASSED"
    HELD_WITHOUT_APPROVAL = "HELD_WITHOUT_APPROVAL"
    ALLOWED_WRONG_PARAMETERS = "ALLOWED_WRONG_PARAMETERS"
    LEDGER_DISAGREES = "LEDGER_DISAGREES"
    UNKNOWN_OUTCOME = "UNKNOWN_OUTCOME"
    EXECUTED_WITHOUT_SPEND = "EXECUTED_WITHOUT_SPEND"
    NOT_JUDGED = "NOT_JUDGED"


PAGES: Final = frozenset(
    {
        FindingClass.DENIED_BUT_BYPASSED,
        FindingClass.NO_RULE_LOOKUP,
        FindingClass.HELD_WITHOUT_APPROVAL,
        FindingClass.ALLOWED_WRONG_PARAMETERS,
        FindingClass.LEDGER_DISAGREES,
        FindingClass.EXECUTED_WITHOUT_SPEND,
        FindingClass.NOT_JUDGED,
    }
)
"""Findings that wake somebody up: money moved, or may have moved, without authority."""


@dataclass(frozen=True, slots=True)
class Decided:
    """What the decider said: one decision.* event."""

    decision_id: str
    spend_id: str
    decision: str
    reason: str
    tenant: str
    tool: str
    resource: str
    time_us: int
    tier: int = 0
    amount_minor: int = 0
    currency: str = ""
    call_digest: str = ""
    rule_ids: tuple[str, ...] = ()
    not_after_ms: int = 0
    hold_id: str = ""

    @property
    def usable(self) -> bool:
        """Whether a permit came of it."""
        return self.decision in {"allow", "modify"}


@dataclass(frozen=True, slots=True)
class Reserved:
    """A reserve of the spend log.

    `signature`: `valid`, or what is wrong. `ceilings`: the permit binds ceilings, not one digest.
    """

    decision_id: str
    round: int
    attempt: str
    signature: str
    not_after_ms: int
    ceilings: bool = False
    time_us: int = 0


@dataclass(frozen=True, slots=True)
class Ended:
    """An outcome record of the spend log."""

    round: int
    outcome: str
    signature: str
    time_us: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """One row of a ledger. `call_digest`: of the request that was executed, lower hex; empty if not told."""

    spend_id: str
    decision_id: str
    tenant: str
    tool: str
    resource: str
    entry: int
    change_id: str
    account: str
    amount_minor: int
    currency: str
    time_us: int
    call_digest: str = ""
    issuer: str = PERMIT_ISSUER

    @property
    def ours(self) -> bool:
        """Whether a permit should be behind it; back-office issuers answer for their own rows."""
        return self.issuer in {"", PERMIT_ISSUER}


@dataclass(frozen=True, slots=True)
class Story:
    """All evidence of one step, and what else happened to its resource.

    `decisions`: of this spend id. `changes`: ledger rows of this spend id; `other_changes`: rows of the same
    resource under other spend ids or none. `other_decisions`: decisions on the resource for other steps.
    `ledger_rows`: what the ledger reader found for the spend id; None where no reader is configured.
    `label`: the rule ids that should have determined the decision; None where nobody labelled it.
    `strangers`: what names this step and is no evidence of it, in words. `cut`: sorts of rows of which there
    are more than were read.
    """

    decisions: tuple[Decided, ...] = ()
    door_passed: bool = False
    door_refusals: tuple[str, ...] = ()
    reserves: tuple[Reserved, ...] = ()
    outcomes: tuple[Ended, ...] = ()
    changes: tuple[Change, ...] = ()
    other_changes: tuple[Change, ...] = ()
    other_decisions: tuple[Decided, ...] = ()
    ledger_rows: tuple[Change, ...] | None = None
    approvals: tuple[str, ...] = ()
    label: tuple[str, ...] | None = None
    strangers: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on one step. `settled`: time alone will not change it. `detail` is for operators."""

    finding: FindingClass
    detail: str
    settled: bool
    decided: Decided | None = None
    changes: tuple[Change, ...] = field(default=())

    @property
    def pages(self) -> bool:
        """Whether somebody must look at it at once."""
        return self.finding in PAGES


def classify(story: Story, *, now_us: int) -> Finding:
    """Return the finding of one step at `now_us` (Unix µs)."""
    found = _classify(story, now_us)
    if story.cut and not found.pages:
        detail = f"more rows than are read: {', '.join(story.cut)}; from the others: {found.finding}"
        found = replace(found, finding=FindingClass.NOT_JUDGED, detail=detail)
    if story.strangers:
        shown = ", ".join(story.strangers[:MAX_NAMED])
        found = replace(found, detail=f"{found.detail}; not counted: {shown}".removeprefix("; "))
    return found


def _classify(story: Story, now_us: int) -> Finding:
    usable = [decided for decided in story.decisions if decided.usable]
    changes = tuple(change for change in story.changes if change.ours)
    if usable:
        return _allowed(story, usable, changes, now_us)
    if not story.decisions:
        return _undecided(story, changes, now_us)
    last = max(story.decisions, key=lambda decided: decided.time_us)
    if last.decision == "hold" and changes and not story.approvals:
        return Finding(FindingClass.HELD_WITHOUT_APPROVAL, f"{len(changes)} ledger rows", True, last, changes)
    return _refused(story, last, changes, now_us)


def _undecided(story: Story, changes: tuple[Change, ...], now_us: int) -> Finding:
    """Rule 1: nobody decided this step; or its decision, of another stream, is not on record yet."""
    overdue = all(now_us - change.time_us >= OVERDUE_US for change in changes)
    denied = [
        decided
        for decided in story.other_decisions
        if not decided.usable and any(_bypasses(change, decided) for change in changes)
    ]
    if denied:
        last = max(denied, key=lambda decided: decided.time_us)
        detail = f"denied by {last.decision_id}, changed all the same by no decision"
        return Finding(FindingClass.DENIED_BUT_BYPASSED, detail, overdue, last, changes)
    if changes:
        return Finding(FindingClass.NO_RULE_LOOKUP, f"{len(changes)} ledger rows", overdue, None, changes)
    if story.reserves:
        overdue = all(now_us - reserve.time_us >= OVERDUE_US for reserve in story.reserves)
        return Finding(FindingClass.NO_RULE_LOOKUP, "a permit was spent that no decider recorded", overdue)
    return Finding(FindingClass.DENIED_STOPPED, "no permit, no decision, no change", True)


def _refused(story: Story, last: Decided, changes: tuple[Change, ...], now_us: int) -> Finding:
    """Rules 1 to 4: the decider said no, not yet, or nothing usable."""
    bypass = changes + tuple(
        change for change in story.other_changes if change.ours and _bypasses(change, last)
    )
    settled = now_us - last.time_us >= SETTLE_US
    if last.decision == "failed":
        if changes:
            return Finding(FindingClass.NO_RULE_LOOKUP, "the decision had failed", True, last, changes)
        return Finding(FindingClass.FAILED_STOPPED, last.reason, settled, last)
    if bypass:
        whose = sorted({change.decision_id or "nobody" for change in bypass})
        more = f" and {len(whose) - MAX_NAMED} more" if len(whose) > MAX_NAMED else ""
        detail = f"changed by decision {', '.join(whose[:MAX_NAMED])}{more}"
        return Finding(FindingClass.DENIED_BUT_BYPASSED, detail, True, last, bypass)
    return Finding(FindingClass.DENIED_STOPPED, last.reason, settled, last)


def _bypasses(change: Change, denied: Decided) -> bool:
    same = (change.tenant, change.tool, change.resource) == (denied.tenant, denied.tool, denied.resource)
    return same and 0 <= change.time_us - denied.time_us <= WINDOW_US


def _allowed(story: Story, usable: list[Decided], changes: tuple[Change, ...], now_us: int) -> Finding:
    """Rules 5 to 11: a permit was made."""
    decided = _spent(story, usable)
    if story.label is not None and set(story.label) != set(decided.rule_ids):
        detail = f"rules {list(decided.rule_ids)}, labelled {list(story.label)}"
        return Finding(FindingClass.WRONG_RULE, detail, True, decided, changes)
    disagreement = _disagreement(story, decided, changes, now_us)
    if disagreement:
        return Finding(FindingClass.LEDGER_DISAGREES, disagreement, True, decided, changes)
    wrong = _wrong_parameters(story, decided, changes)
    if wrong:
        return Finding(FindingClass.ALLOWED_WRONG_PARAMETERS, wrong, True, decided, changes)
    ending = _ending(story, decided, changes, now_us)
    waits = story.ledger_rows is not None and _rows(changes) != _rows(story.ledger_rows)
    return replace(ending, settled=False) if waits else ending  # a row too many must not slip in between


def _spent(story: Story, usable: list[Decided]) -> Decided:
    """Return the decision whose permit was spent last, or the last one made."""
    spent = {reserve.decision_id for reserve in story.reserves}
    candidates = [decided for decided in usable if decided.decision_id in spent] or usable
    return max(candidates, key=lambda decided: decided.time_us)


def _disagreement(story: Story, decided: Decided, changes: tuple[Change, ...], now_us: int) -> str:
    """Rule 6: what the outbox says, what the reader says, and what the outcome says must agree."""
    executed = [ended for ended in story.outcomes if ended.outcome == "EXECUTED"]
    if changes and story.outcomes and not executed:
        return f"outcome {story.outcomes[-1].outcome}, but {len(changes)} ledger rows"
    late = executed and now_us - max(ended.time_us for ended in executed) >= OVERDUE_US
    if late and decided.amount_minor and not changes:
        return "executed, but no ledger row"
    if story.ledger_rows is None:
        return ""
    told, found = _rows(changes), _rows(story.ledger_rows)
    recent = any(now_us - change.time_us < SETTLE_US for change in changes)
    if told == found or (executed and not late) or recent:
        return ""
    return f"the outbox has {len(told)} rows, the ledger {len(found)}; {len(told ^ found)} differ"


def _rows(changes: Iterable[Change]) -> frozenset[tuple[str, int, str]]:
    return frozenset((change.account, change.amount_minor, change.currency) for change in changes)


def _wrong_parameters(story: Story, decided: Decided, changes: tuple[Change, ...]) -> str:
    """Rule 7: every row must be about what was announced: resource, tenant, digest, currency, amount."""
    if not changes:
        return ""
    ceilings = any(reserve.ceilings for reserve in story.reserves)
    for change in changes:
        if (change.tenant, change.resource) != (decided.tenant, decided.resource):
            return f"changed `{change.resource}` of `{change.tenant}`, decided `{decided.resource}`"
        if not ceilings and change.call_digest and change.call_digest != decided.call_digest:
            return "another request was executed than was decided"
    return _wrong_amount(decided, changes, ceilings=ceilings)


def _wrong_amount(decided: Decided, changes: tuple[Change, ...], *, ceilings: bool) -> str:
    if not decided.currency:
        return ""  # no money was announced, so none is compared
    if any(change.currency != decided.currency for change in changes):
        return f"currency {changes[0].currency}, announced {decided.currency}"
    amount = moved(changes)
    if amount == decided.amount_minor or (ceilings and 0 < amount <= decided.amount_minor):
        return ""
    return f"{amount} {decided.currency} moved, {decided.amount_minor} announced"


def moved(changes: Iterable[Change]) -> int:
    """Return how much moved, in minor units, exact: what came or what went, whichever is more."""
    amounts = [change.amount_minor for change in changes]
    return max(
        sum(amount for amount in amounts if amount > 0), -sum(amount for amount in amounts if amount < 0)
    )


def _ending(story: Story, decided: Decided, changes: tuple[Change, ...], now_us: int) -> Finding:
    """Rules 8 to 11."""
    if changes and not story.reserves and not story.outcomes:  # past the sidecar, or the spend log is behind
        overdue = all(now_us - change.time_us >= OVERDUE_US for change in changes)
        detail = f"{len(changes)} ledger rows and a permit, but nothing was reserved"
        return Finding(FindingClass.EXECUTED_WITHOUT_SPEND, detail, overdue, decided, changes)
    ended = {outcome.round: outcome for outcome in story.outcomes}
    open_rounds = [reserve for reserve in story.reserves if reserve.round not in ended]
    if any(outcome.outcome == "EXECUTED" for outcome in story.outcomes):
        complete = bool(changes) or not decided.amount_minor
        detail = "" if complete else "the ledger row is not there yet"
        return Finding(FindingClass.ALLOWED_EXECUTED, detail, complete, decided, changes)
    if open_rounds:
        detail = f"round {open_rounds[0].round} reserved, no outcome"
        return Finding(FindingClass.UNKNOWN_OUTCOME, detail, False, decided, changes)
    if story.outcomes:
        last = max(story.outcomes, key=lambda outcome: outcome.round)
        return Finding(FindingClass.ALLOWED_NOT_EXECUTED, last.outcome, True, decided)
    if story.door_passed and decided.tier <= MAX_READ_TIER and not decided.amount_minor:
        return Finding(FindingClass.ALLOWED_EXECUTED, "a read that spends nothing", True, decided)
    expired = now_us >= (decided.not_after_ms + FENCE_GRACE_MS) * 1000
    refusals = ", ".join(story.door_refusals)
    detail = f"refused at the door: {refusals}" if refusals else "never presented"
    return Finding(FindingClass.ALLOWED_NOT_EXECUTED, detail, expired, decided)


def fence_due(story: Story, *, now_us: int) -> tuple[Reserved, ...]:
    """Return the reserves that may be fenced now: no outcome, and the permit's end passed by the grace."""
    ended = {outcome.round for outcome in story.outcomes}
    return tuple(
        reserve
        for reserve in story.reserves
        if reserve.round not in ended and now_us >= (reserve.not_after_ms + FENCE_GRACE_MS) * 1000
    )
