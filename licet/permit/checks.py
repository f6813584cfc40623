"""The checks at the door, 2 to 11, by the protocol's numbers; 1 and 12 to 14 are the sidecar's.

Each `check_NN_noun` returns why the call may not go on, or None, and may set on the case what later checks
read. Their order is part of the protocol: it decides which reason a bad call is refused with, and keeps
dear work behind cheap. Nothing here turns an exception into a pass: whoever runs them denies on any.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from licet.beacon import MAX_AGE_MS, MAX_SKEW_MS, Beacon
from licet.call import call_digest, same_digest
from licet.catalog.argument import check_arguments
from licet.ceilings import check_ceilings
from licet.dsse import PayloadType
from licet.hold import check_approvals
from licet.identity import parse_spiffe_id
from licet.permit.case import Case, DoorState, Permit, Presented
from licet.permit.decision import MAX_PERMIT_BYTES, read_decision
from licet.refusal import Reason, Refusal
from licet.statement import parse_signed, verify
from licet.tier import CallClass
from licet.v1.decision_pb2 import Decision

MAX_LIFE_MS: Mapping[CallClass, int] = MappingProxyType(
    {CallClass.READ: 300_000, CallClass.WRITE: 60_000, CallClass.PRIVILEGED: 60_000}
)
"""How long a permit of each class may live, inclusive."""

Check = Callable[[Case], Refusal | None]


def check_02_path(case: Case) -> Refusal | None:
    """2: the raw path, byte for byte: no other case, slash or query (compare CVE-2026-33186)."""
    versions = case.door.catalog.method(case.presented.path)
    if versions is None:
        return Refusal(Reason.METHOD_UNKNOWN, f"no method `{case.presented.path[:256]}`")
    if any(version.client_streaming for version in versions.all()):
        return Refusal(Reason.CLIENT_STREAMING, f"`{case.presented.path}` streams from the client")
    case.versions = versions
    return None


def check_03_single(case: Case) -> Refusal | None:
    """3: exactly one permit: with two, the door and the tool might look at different ones."""
    permits = case.presented.permits
    if not permits:
        return Refusal(Reason.NO_PERMIT)
    if len(permits) != 1:
        return Refusal(Reason.PERMIT_AMBIGUOUS, f"{len(permits)} permits")
    if len(permits[0]) > MAX_PERMIT_BYTES:
        return Refusal(Reason.TOO_LARGE, f"a permit of {len(permits[0])} bytes")
    signed = parse_signed(permits[0])
    if isinstance(signed, Refusal):
        return signed
    case.signed = signed
    return None


def check_04_signature(case: Case) -> Refusal | None:
    """4: signed for the permit slot, by a key of the right role, environment and validity."""
    payload = verify(PayloadType.PERMIT, case.signed, case.door.keys, now_ms=case.now_ms)
    return payload if isinstance(payload, Refusal) else None


def check_05_decision(case: Case) -> Refusal | None:
    """5: the signed bytes, strictly parsed; ALLOW or MODIFY; a permit that keeps its own rules."""
    decision = read_decision(case.signed.payload)
    if isinstance(decision, Refusal):
        return decision
    case.decision = decision
    return None


def check_06_scope(case: Case) -> Refusal | None:
    """6: this environment, this tool, this method, in a version that the catalog lists."""
    decision, door = case.decision, case.door
    if decision.environment != door.environment:
        return Refusal(Reason.ENVIRONMENT_MISMATCH, f"for environment `{decision.environment}`")
    if decision.audience != door.audience:
        return Refusal(Reason.AUDIENCE_MISMATCH, f"for audience `{decision.audience}`")
    if decision.method != case.presented.path:
        return Refusal(Reason.METHOD_MISMATCH, f"for method `{decision.method}`")
    method = case.versions.listed(decision.method_digest)
    if method is None:
        return Refusal(Reason.METHOD_SUPERSEDED, f"decided under version {decision.method_digest.hex()}")
    case.method = method
    return None


def check_06_class(case: Case) -> Refusal | None:
    """6: class, spending and binding as the catalog has them: a permit cannot make a call more harmless."""
    decision, method = case.decision, case.method
    if getattr(decision, "class") != method.call_class:
        return Refusal(
            Reason.PERMIT_MALFORMED, f"class {getattr(decision, 'class')} of a {method.call_class.name}"
        )
    if method.spends and not decision.spends:
        return Refusal(Reason.PERMIT_MALFORMED, "a permit that need not be spent, for a method that spends")
    if decision.ceilings and not method.ceilings:
        return Refusal(Reason.PERMIT_MALFORMED, "ceilings for a method that is bound exactly")
    if decision.round and not method.guarded:  # nothing but a guard allows one effect over all rounds
        return Refusal(Reason.ROUND_INVALID, f"round {decision.round} at a method without guard")
    return None


def check_07_caller(case: Case) -> Refusal | None:
    """7: presented by the very workload it was made for: a stolen permit is of no use to another."""
    if parse_spiffe_id(case.presented.peer) is None:
        return Refusal(Reason.CALLER_UNKNOWN, f"the peer `{case.presented.peer[:256]}` is no SPIFFE id")
    if case.decision.caller != case.presented.peer:
        return Refusal(Reason.CALLER_MISMATCH, f"`{case.presented.peer}` presents `{case.decision.caller}`'s")
    return None


def check_08_time(case: Case) -> Refusal | None:
    """8: not from the future, not over, not long-lived.

    A clock that was set back cannot make a permit live again: it is later than the beacon was issued, and
    by as much as the monotonic clock went on since.
    """
    refusal = check_time(case.decision, case.method.call_class, now_ms=case.now_ms)
    held = case.door.beacon
    if refusal is None and held is not None:
        at_least_ms = held.beacon.issued_at_ms + max(0, case.monotonic_ms - held.received_at_ms)
        if at_least_ms - MAX_SKEW_MS >= case.decision.not_after_ms:
            return Refusal(
                Reason.EXPIRED, f"this clock is {at_least_ms - case.now_ms} ms behind the beacon's"
            )
    return refusal


def check_time(decision: Decision, call_class: CallClass, *, now_ms: int) -> Refusal | None:
    """Return why a decision does not hold at `now_ms`, or None; its last moment is before `not_after_ms`."""
    if decision.issued_at_ms > now_ms + MAX_SKEW_MS:
        return Refusal(Reason.NOT_YET_VALID, f"issued {decision.issued_at_ms - now_ms} ms ahead")
    if now_ms >= decision.not_after_ms:
        return Refusal(Reason.EXPIRED, f"expired {now_ms - decision.not_after_ms} ms ago")
    life = decision.not_after_ms - decision.issued_at_ms
    if not 0 < life <= MAX_LIFE_MS[call_class]:
        return Refusal(Reason.LIFE_TOO_LONG, f"a life of {life} ms")
    return None


def check_09_beacon(case: Case) -> Refusal | None:
    """9: the door knows what is current: a beacon that is fresh for this class, with what it names."""
    held, door = case.door.beacon, case.door
    if held is None:
        return Refusal(Reason.BEACON_STALE, "no beacon yet")
    age = held.age_ms(case.monotonic_ms)
    if not 0 <= age <= MAX_AGE_MS[case.method.call_class]:
        return Refusal(Reason.BEACON_STALE, f"the beacon is {age} ms old")
    if held.beacon.environment != door.environment:
        return Refusal(Reason.BEACON_STALE, f"the beacon is for environment `{held.beacon.environment}`")
    if door.keys.version < held.beacon.keyset_version or door.revocations.seq < held.beacon.revocations_seq:
        return Refusal(Reason.BEACON_BEHIND, "key set or revocations are older than the beacon's")
    if door.generation != held.beacon.generation:
        return Refusal(Reason.GENERATION_SUPERSEDED, f"the tool key is of generation {door.generation}")
    return check_current(case.decision, held.beacon)


def check_current(decision: Decision, beacon: Beacon) -> Refusal | None:
    """Return why a decision is not of the generation and bundle that `beacon` names, or None.

    BEACON_BEHIND if the decision is newer: wait for the next beacon, it is no denial.
    """
    if decision.generation < beacon.generation:
        return Refusal(
            Reason.GENERATION_SUPERSEDED, f"generation {decision.generation} of {beacon.generation}"
        )
    if decision.generation > beacon.generation or decision.config_seq > beacon.config_seq:
        return Refusal(Reason.BEACON_BEHIND, f"configuration {decision.config_seq}, here {beacon.config_seq}")
    if decision.bundle_version != beacon.bundle_version:
        return Refusal(
            Reason.BUNDLE_SUPERSEDED, f"bundle {decision.bundle_version} of {beacon.bundle_version}"
        )
    return None


def check_09_revocations(case: Case) -> Refusal | None:
    """9: nothing that the decision rests on is revoked."""
    return case.door.revocations.check(case.decision, case.signed.key_id)


def check_10_arguments(case: Case) -> Refusal | None:
    """10: the arguments, strictly walked with the descriptors of the version that was decided."""
    arguments = case.method.arguments(case.presented.body)
    if isinstance(arguments, Refusal):
        return arguments
    case.arguments = arguments
    case.call_digest = call_digest(
        case.door.k_tool, case.method.codec, case.method.path, case.method.digest, arguments.encoded
    )
    return None


def check_10_resource(case: Case) -> Refusal | None:
    """10: the resource, recomputed from the arguments."""
    resource = case.method.resource_of(case.arguments)
    if isinstance(resource, Refusal):
        return resource
    if resource != case.decision.resource:
        return Refusal(Reason.RESOURCE_MISMATCH, "decided for another resource")
    return None


def check_10_binding(case: Case) -> Refusal | None:
    """10: exactly the arguments that were decided, or all of them within their ceilings."""
    if case.decision.ceilings:
        return check_ceilings(case.decision.ceilings, case.arguments, case.method.money)
    if not same_digest(case.decision.call_digest, case.call_digest):
        return Refusal(Reason.DIGEST_MISMATCH, "other arguments than those decided")
    return None


def check_10_rules(case: Case) -> Refusal | None:
    """10: what the owner of the tool lets through, by the catalog: a stolen decider key cannot lift it."""
    return check_arguments(case.method.argument_rules, case.arguments)


def check_11_obligations(case: Case) -> Refusal | None:
    """11: an obligation that neither door nor tool knows would silently not be done.

    The door's own are about one reply: of a stream of messages it would mask none.
    """
    known = case.door.obligations | case.method.obligations
    for obligation in case.decision.obligations:
        if case.method.server_streaming and obligation.id in case.door.obligations:
            return Refusal(Reason.OBLIGATION_UNKNOWN, f"obligation `{obligation.id}` at a stream")
        if obligation.id not in known:
            return Refusal(Reason.OBLIGATION_UNKNOWN, f"obligation `{obligation.id}`")
    return None


def check_11_approvals(case: Case) -> Refusal | None:
    """11: privileged calls carry the approvers' own signatures: a stolen decider key is not enough."""
    proofs = case.presented.approvals
    if case.method.call_class is not CallClass.PRIVILEGED:
        return Refusal(Reason.APPROVAL_INVALID, "approvals with a call that takes none") if proofs else None
    approvers = check_approvals(
        proofs,
        case.decision,
        case.method.approvers,
        case.door.keys,
        now_ms=case.now_ms,
        revocations=case.door.revocations,
    )
    if isinstance(approvers, Refusal):
        return approvers
    case.approvers = approvers
    return None


CHECKS: tuple[Check, ...] = (
    check_02_path,
    check_03_single,
    check_04_signature,
    check_05_decision,
    check_06_scope,
    check_06_class,
    check_07_caller,
    check_08_time,
    check_09_beacon,
    check_09_revocations,
    check_10_arguments,
    check_10_resource,
    check_10_binding,
    check_10_rules,
    check_11_obligations,
    check_11_approvals,
)
"""The order in which a call is examined."""


def step_of(check: Check) -> int:
    """Return the protocol's number of a check: the NN in its name."""
    return int(check.__name__.split("_")[1])


def examine(presented: Presented, door: DoorState, *, now_ms: int, monotonic_ms: int) -> Permit | Refusal:
    """Return the permit to forward this call, once every check has passed, or the first refusal.

    `now_ms` is Unix time, `monotonic_ms` the clock that `door.beacon` was received by. Whoever catches an
    exception from here denies.
    """
    case = Case(presented, door, now_ms, monotonic_ms)
    for check in CHECKS:
        refusal = check(case)
        if refusal is not None:
            return replace(refusal, step=step_of(check))
    return case.permit()


def still_holds(permit: Permit, door: DoorState, *, now_ms: int, monotonic_ms: int) -> Refusal | None:
    """Return why a permit that was examined before does not hold any more, or None: 8, 9 and approvals again.

    For whoever waited since: what came meanwhile counts as if it had been there before.
    """
    presented = Presented(permit.decision.method, (), permit.approvals, b"", permit.decision.caller)
    case = Case(presented, door, now_ms, monotonic_ms)
    case.decision, case.signed, case.method = permit.decision, permit.signed, permit.method
    for check in (check_08_time, check_09_beacon, check_09_revocations, check_11_approvals):
        refusal = check(case)
        if refusal is not None:
            return replace(refusal, step=step_of(check))
    return None
