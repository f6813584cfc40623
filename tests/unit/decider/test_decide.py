"""The decision as a value: who is in it comes from us, what is not a clean allow is none."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from decider.approval.held import CATALOG_RULE
from decider.catalog.build import build_catalog
from decider.catalog.descriptors import Descriptors
from decider.catalog.tools import read_tools
from decider.decision.decide import check_revocations, check_tenant, decide, kept_out
from decider.decision.envelope import Envelope, House, Refused, asked_of, build_envelope
from decider.decision.facts import facts_decision, facts_request, source_of
from decider.decision.limits import NOTHING_SEEN, Seen, Stop
from decider.decision.mint import mint, slot_of
from decider.decision.record import asked_fields, facts_fields, failure_event, hold_fields, verdict_event
from decider.decision.verdict import LIFE_MS, Facts, Moment, Verdict, deny
from decider.egress import UNCHECKED
from decider.egress.check import WHOLE
from decider.in_force.in_force import InForce
from decider.policy.bundle import LoadedBundle, Note
from decider.policy.cedar import Allowed, Failed, Forbidden, Held, RuleSet
from decider.policy.waiver import Waiver
from decider.task.tasks import Task
from licet.call import Plan
from licet.catalog import read_catalog
from licet.hold import MAX_HOLD_BYTES, Requirement
from licet.keys import KeyRole, KeySet, PublicKey
from licet.refusal import Reason, Refusal
from licet.revocation import NONE, RevocationKind, Revocations
from licet.statement import PayloadType, SigningKey
from licet.tier import CallClass
from licet.tracing import TraceContext
from licet.v1.beacon_pb2 import ActiveConfig
from licet.v1.decider_pb2 import DecideRequest
from licet.v1.decision_pb2 import (
    CODEC_PROTOBUF,
    DECISION_TYPE_ALLOW,
    DECISION_TYPE_DENY,
    DECISION_TYPE_HOLD,
)
from licet.v1.hold_pb2 import Hold
from tests.worlds.decisions import GET_ORDER, POLICY, REFUND, REFUND_BOT, refund
from tests.worlds.policies import ALLOW, SCHEMA, ask

KEY = SigningKey.from_seed("catalog", bytes(32))
NOW = time.time_ns() // 1_000_000
MOMENT = Moment("d" * 32, NOW, traceparent="00-" + "1" * 32 + "-" + "2" * 16 + "-01")
FACTS = Facts({"tenant": "t1", "version": 3}, "t1", (("order.version", 3), ("order.tenant", "t1")))
LEAD = Requirement("large", "finance-lead", 1)


def keyset() -> KeySet:
    key = PublicKey("catalog", KeyRole.CATALOG, "dev", KEY.public_key, 0, NOW + 10**9)
    return KeySet("dev", 1, {"catalog": key})


def house(path: Path, tools: str = "", *, hours: int = 1) -> House:
    file = path / "tools.yaml"
    file.write_text(tools or (POLICY / "tools.yaml").read_text())
    descriptors = Descriptors((POLICY / "descriptors.binpb").read_bytes())
    payload = build_catalog(read_tools(file), descriptors, environment="dev", trust_domain="licet.local")
    catalog = read_catalog(KEY.sign(PayloadType.CATALOG, payload), keyset(), environment="dev", now_ms=NOW)
    assert not isinstance(catalog, Refusal), catalog
    task = Task("task_1", REFUND_BOT, "refund-bot", "ana", "t1", "refunds", NOW + hours * 3_600_000)
    keys = {catalog.audience: b"k" * 32}
    return House("licet.local", "dev", {catalog.audience: catalog}, keys, {"task_1": task})


def in_force(
    *, shadow: bool = False, waived_ms: int = 0, revocations: Revocations = NONE, **notes: Note
) -> InForce:
    """`waived_ms`: for how long shadow lets writes through from now on."""
    bundle = LoadedBundle(7, "dev", shadow, RuleSet(ALLOW, SCHEMA), notes, "desk@example.com")
    if waived_ms:
        bundle = replace(bundle, waiver=Waiver(NOW + waived_ms, "trial"))
    return InForce(ActiveConfig(environment="dev", generation=2), 11, bundle, keyset(), revocations)


def request(**fields: Any) -> DecideRequest:
    values = {
        "method": REFUND,
        "request": refund(),
        "codec": CODEC_PROTOBUF,
        "task_id": "task_1",
        "call_id": "call-1",
    } | fields
    return DecideRequest(**values)


@pytest.fixture
def envelope(tmp_path: Path) -> Envelope:
    made = build_envelope(request(), REFUND_BOT, house(tmp_path), now_ms=NOW)
    assert isinstance(made, Envelope), made
    return made


def usable(result: Verdict | Refusal) -> Verdict:
    assert isinstance(result, Verdict), result
    return result


def test_allow_binds_everything_that_was_decided(envelope: Envelope) -> None:
    decision = usable(decide(envelope, FACTS, Allowed(("bot",)), in_force(), MOMENT)).decision
    assert decision.decision == DECISION_TYPE_ALLOW
    assert (decision.bundle_version, decision.config_seq, decision.generation) == (7, 11, 2)
    assert (decision.tenant, decision.principal, decision.agent) == ("t1", "ana", "refund-bot")
    assert decision.method_digest == envelope.method.digest
    assert decision.call_digest == envelope.call_digest
    assert [check.check for check in decision.preconditions] == ["order.version", "order.tenant"]
    assert decision.not_after_ms == NOW + 60_000


def test_failed_evaluation_is_no_decision(envelope: Envelope) -> None:
    for shadow in (False, True):
        result = decide(envelope, FACTS, Failed("boom"), in_force(shadow=shadow), MOMENT)
        assert isinstance(result, Refusal)
        assert result.reason is Reason.EVALUATION_FAILED


def test_permit_ends_with_its_task(tmp_path: Path) -> None:
    here = house(tmp_path)
    task = replace(here.tasks["task_1"], not_after_ms=NOW + 5_000)
    short = replace(here, tasks={"task_1": task})
    envelope = build_envelope(request(), REFUND_BOT, short, now_ms=NOW)
    assert isinstance(envelope, Envelope)
    decision = usable(decide(envelope, FACTS, Allowed(("bot",)), in_force(), MOMENT)).decision
    assert decision.not_after_ms == NOW + 5_000
    closed = build_envelope(request(), REFUND_BOT, short, now_ms=NOW + 5_000)
    assert isinstance(closed, Refused)
    assert closed.refusal.reason is Reason.TASK_CLOSED


def test_denial_speaks_the_rules_note_and_never_the_detail(envelope: Envelope) -> None:
    noted = in_force(**{"not-allowed": Note("no refunds here", "lead@example.com")})
    verdict = usable(decide(envelope, FACTS, Forbidden(("not-allowed",)), noted, MOMENT))
    assert (verdict.decision.decision, verdict.decision.reason) == (DECISION_TYPE_DENY, "no refunds here")
    assert verdict.escalate_to == "lead@example.com"
    verdict = usable(decide(envelope, FACTS, Forbidden(()), noted, MOMENT))
    assert (verdict.decision.reason, verdict.escalate_to) == ("policy does not allow it", "desk@example.com")


def test_signed_denial_and_hold_never_take_the_slot_of_a_permit(envelope: Envelope) -> None:
    slots = [
        slot_of(usable(decide(envelope, FACTS, evaluation, in_force(), MOMENT)).decision)
        for evaluation in (Allowed(("bot",)), Forbidden(()), Held((LEAD,)))
    ]
    assert slots == [PayloadType.PERMIT, PayloadType.DECISION, PayloadType.DECISION]


def test_hold_names_exactly_this_call_and_excludes_who_asked(envelope: Envelope) -> None:
    verdict = usable(decide(envelope, FACTS, Held((LEAD,)), in_force(), MOMENT))
    assert verdict.decision.decision == DECISION_TYPE_HOLD
    hold = verdict.hold
    assert hold is not None
    assert (hold.call_digest, hold.spend_id) == (envelope.call_digest, envelope.spend_id)
    assert {"ana", "refund-bot"} <= set(hold.excluded_approvers)
    assert hold.text == "Refund 50.00 USD for order O1"


def hold_of(envelope: Envelope, facts: Facts = FACTS, *needs: Requirement, **moment: Any) -> Hold:
    verdict = decide(envelope, facts, Held(needs or (LEAD,)), in_force(), replace(MOMENT, **moment))
    hold = usable(verdict).hold
    assert hold is not None
    return hold


def test_same_decision_asked_again_finds_the_same_hold_and_one_that_says_more_another(
    envelope: Envelope,
) -> None:
    hold = hold_of(envelope)
    later = {"decision_id": "e" * 32, "now_ms": NOW + 5_000, "traceparent": f"00-{'3' * 32}-{'4' * 16}-01"}
    again = hold_of(envelope, **later)
    assert (again.hold_id, again.text) == (hold.hold_id, hold.text)
    assert again.traceparent != hold.traceparent
    others = [
        hold_of(envelope, replace(FACTS, attributes={"tenant": "t1", "version": 4})),
        hold_of(replace(envelope, risk_flags=("personal",))),
        hold_of(replace(envelope, risk_flags=("secret",))),  # its text is withheld besides
        hold_of(replace(envelope, editors=("lena",))),
        hold_of(replace(envelope, resource="order:O2")),
        hold_of(envelope, FACTS, replace(LEAD, quorum=2)),
    ]
    assert len({hold.hold_id, *(one.hold_id for one in others)}) == 1 + len(others)
    orders = ("r1", "r2"), ("r2", "r1")
    both = [hold_of(envelope, FACTS, *(replace(LEAD, rule_id=one) for one in order)) for order in orders]
    assert both[0].hold_id == both[1].hold_id


def test_hold_that_nobody_could_approve_is_a_denial(envelope: Envelope) -> None:
    """An approval carries the hold's bytes: past its size no answer counts, and long lists are not shown."""

    def held_with(length: int, **moment: Any) -> Verdict:
        facts = replace(FACTS, attributes={**FACTS.attributes, "note": "x" * length})
        return usable(decide(envelope, facts, Held((LEAD,)), in_force(), replace(MOMENT, **moment)))

    room = MAX_HOLD_BYTES - hold_of(envelope).ByteSize()
    small, large = held_with(room - 32), held_with(room)
    assert small.hold is not None
    assert small.hold.ByteSize() <= MAX_HOLD_BYTES
    assert large.hold is None
    assert (large.decision.decision, large.decision.hold_id) == (DECISION_TYPE_DENY, "")
    assert large.decision.rule_ids == ["large"]
    reasons = [
        one.refusal.reason for one in (large, held_with(room, executed=True)) if one.refusal is not None
    ]
    assert reasons == [Reason.POLICY_DENIED, Reason.SPENT]


def test_resource_that_is_gone_is_unknown_spent_by_this_very_step_or_no_longer_said(
    envelope: Envelope,
) -> None:
    """Past the loop breaker's limit another tenant's resource and none at all look alike."""
    gone, other = Refusal(Reason.RESOURCE_UNKNOWN, "m: NOT_FOUND"), Refusal(Reason.TENANT_MISMATCH, "of t2")
    looping = Seen(Stop(Refusal(Reason.LOOP_BROKEN, "6 denied calls"), ("loop-probes",)))
    ran = replace(MOMENT, executed=True)

    def said(refusal: Refusal, seen: Seen = NOTHING_SEEN, moment: Moment = MOMENT) -> Any:
        verdict = kept_out(envelope, refusal, seen, in_force(), moment)
        assert verdict.refusal is not None
        assert verdict.decision.decision == DECISION_TYPE_DENY
        return verdict.refusal.reason, verdict.decision.reason

    assert said(gone) == (Reason.RESOURCE_UNKNOWN, "the tool has no such resource")
    assert said(other)[0] is said(other, moment=ran)[0] is Reason.TENANT_MISMATCH
    assert said(gone, moment=ran)[0] is Reason.SPENT
    assert said(gone, looping) == said(other, looping)
    assert said(gone, looping)[0] is Reason.LOOP_BROKEN
    on_record = kept_out(envelope, other, looping, in_force(), MOMENT).refusal
    assert on_record is not None
    assert on_record.detail == "6 denied calls; TENANT_MISMATCH: of t2"
    unfit = Seen(Stop(Refusal(Reason.ARGUMENT_REFUSED, "an amount"), ()))
    assert said(other, unfit)[0] is Reason.TENANT_MISMATCH


def test_privileged_call_is_held_by_the_catalog_whatever_the_rules_say(tmp_path: Path) -> None:
    tools = (POLICY / "tools.yaml").read_text().replace("tier: 4", "tier: 5\n    approvers: {lead: 2}")
    envelope = build_envelope(request(), REFUND_BOT, house(tmp_path, tools), now_ms=NOW)
    assert isinstance(envelope, Envelope)
    for shadow in (False, True):
        verdict = usable(decide(envelope, FACTS, Allowed(("bot",)), in_force(shadow=shadow), MOMENT))
        assert verdict.decision.decision == DECISION_TYPE_HOLD
        assert verdict.hold is not None
        assert [(n.rule_id, n.role, n.quorum) for n in verdict.hold.requirements] == [
            (CATALOG_RULE, "lead", 2)
        ]
    lifted = Allowed(("bot",), (Requirement(CATALOG_RULE, "lead", 2),))
    assert (
        usable(decide(envelope, FACTS, lifted, in_force(), MOMENT)).decision.decision == DECISION_TYPE_ALLOW
    )


STOPPED = ((Forbidden(("x",)), "deny"), (Held((LEAD,)), "hold"))


def test_shadow_under_a_waiver_allows_a_write_and_says_what_it_would_have_done(envelope: Envelope) -> None:
    shadow = in_force(shadow=True, waived_ms=LIFE_MS[CallClass.WRITE])
    for evaluation, name in STOPPED:
        verdict = usable(decide(envelope, FACTS, evaluation, shadow, MOMENT))
        assert (verdict.decision.decision, verdict.shadow) == (DECISION_TYPE_ALLOW, name)
        assert verdict.decision.spends
    assert usable(decide(envelope, FACTS, Allowed(("bot",)), shadow, MOMENT)).shadow == ""


@pytest.mark.parametrize("waived_ms", [0, -1])
def test_shadow_without_a_waiver_or_after_its_end_stops_writes(envelope: Envelope, waived_ms: int) -> None:
    shadow = in_force(shadow=True, waived_ms=waived_ms)
    for evaluation, name in STOPPED:
        verdict = usable(decide(envelope, FACTS, evaluation, shadow, MOMENT))
        assert (verdict.refusal is not None, verdict.shadow) == (True, ""), name
        assert slot_of(verdict.decision) is PayloadType.DECISION
    assert usable(decide(envelope, FACTS, Allowed(("bot",)), shadow, MOMENT)).refusal is None
    last = in_force(shadow=True, waived_ms=1)
    assert usable(decide(envelope, FACTS, STOPPED[0][0], last, MOMENT)).refusal is None, "the lawful twin"
    past = replace(MOMENT, now_ms=NOW + 1)
    assert usable(decide(envelope, FACTS, STOPPED[0][0], last, past)).refusal is not None


def test_no_permit_outlives_the_waiver_that_let_it_be(envelope: Envelope) -> None:
    """The door knows no stage: it lets pass what has a permit, so the permit ends with the waiver."""
    shadow = in_force(shadow=True, waived_ms=700)
    decision = usable(decide(envelope, FACTS, Forbidden(("x",)), shadow, MOMENT)).decision
    assert decision.not_after_ms == NOW + 700
    allowed = usable(decide(envelope, FACTS, Allowed(("bot",)), shadow, MOMENT)).decision
    assert allowed.not_after_ms == NOW + 700, "in shadow an allowed call is not bound to its rules' terms"
    later = usable(decide(envelope, FACTS, Allowed(("bot",)), in_force(shadow=True), MOMENT)).decision
    assert later.not_after_ms == NOW + LIFE_MS[CallClass.WRITE]


def test_shadow_lets_reads_go_on_and_never_what_is_privileged() -> None:
    bundle = in_force(shadow=True, waived_ms=9).bundle
    assert bundle.shadowed_until_ms(CallClass.PRIVILEGED, NOW) is None
    assert bundle.shadowed_until_ms(CallClass.WRITE, NOW) == NOW + 9
    bare = in_force(shadow=True).bundle
    assert bare.shadowed_until_ms(CallClass.WRITE, NOW) is None
    until_ms = bare.shadowed_until_ms(CallClass.READ, NOW)
    assert until_ms is not None
    assert until_ms > NOW + LIFE_MS[CallClass.READ]
    for call_class in CallClass:
        assert in_force().bundle.shadowed_until_ms(call_class, NOW) is None


def test_tenant_of_facts_must_be_the_tasks(envelope: Envelope) -> None:
    assert check_tenant(envelope, FACTS) is None
    for tenant in ("t2", "", "T1"):
        refusal = check_tenant(envelope, replace(FACTS, tenant=tenant))
        assert refusal is not None
        assert refusal.reason is Reason.TENANT_MISMATCH


@pytest.mark.parametrize(
    ("kind", "name", "reason"),
    [
        (RevocationKind.TASK, "task_1", Reason.TASK_REVOKED),
        (RevocationKind.AGENT, "refund-bot", Reason.AGENT_REVOKED),
        (RevocationKind.PRINCIPAL, "ana", Reason.PRINCIPAL_REVOKED),
        (RevocationKind.TOOL, "spiffe://licet.local/dev/tool/finance", Reason.TOOL_STOPPED),
        (RevocationKind.ENVIRONMENT, "dev", Reason.ENVIRONMENT_STOPPED),
    ],
)
def test_what_is_revoked_gets_no_permit(
    envelope: Envelope, kind: RevocationKind, name: str, reason: Reason
) -> None:
    stopped = in_force(revocations=Revocations(1, "dev", frozenset({(kind, name)})))
    refusal = check_revocations(envelope, stopped)
    assert refusal is not None
    assert refusal.reason is reason
    verdict = deny(envelope, refusal, stopped, MOMENT)
    assert verdict.decision.decision == DECISION_TYPE_DENY
    other = in_force(revocations=Revocations(1, "dev", frozenset({(kind, "other")})))
    assert check_revocations(envelope, other) is None


def test_spend_id_is_the_steps_and_not_the_arguments(tmp_path: Path) -> None:
    here = house(tmp_path)
    one, two, three = (
        build_envelope(request(**fields), REFUND_BOT, here, now_ms=NOW)
        for fields in ({}, {"request": refund(minor=5100)}, {"call_id": "call-2"})
    )
    assert isinstance(one, Envelope)
    assert isinstance(two, Envelope)
    assert isinstance(three, Envelope)
    assert one.spend_id == two.spend_id != three.spend_id
    assert one.call_digest != two.call_digest
    assert one.call_digest == three.call_digest


def test_permit_too_large_for_any_door_is_not_signed(envelope: Envelope) -> None:
    many = replace(FACTS, preconditions=tuple((f"order.field_{n}", "x" * 60) for n in range(60)))
    decision = usable(decide(envelope, many, Allowed(("bot",)), in_force(), MOMENT)).decision
    with pytest.raises(ValueError, match="larger than 4096"):
        mint(decision, KEY)


FINANCE_SIDECAR = "spiffe://licet.local/dev/sidecar/finance"
EVIL = "spiffe://licet.local/dev/agent/evil"


@pytest.mark.parametrize("audience", ["", "spiffe://licet.local/dev/tool/finance"])
@pytest.mark.parametrize(
    "peer", [EVIL, "spiffe://licet.local/dev/sidecar/other", "spiffe://licet.local/test/sidecar/finance"]
)
def test_who_asks_in_anothers_name_is_on_record_itself_and_learns_nothing_of_the_task(
    tmp_path: Path, peer: str, audience: str
) -> None:
    asked = request(on_behalf_of=REFUND_BOT, audience=audience)
    refused = build_envelope(asked, peer, house(tmp_path), now_ms=NOW)
    assert isinstance(refused, Refused)
    assert refused.refusal.reason is Reason.ON_BEHALF_REFUSED
    verdict = deny(refused, refused.refusal, in_force(), MOMENT)
    decision = verdict.decision
    assert decision.caller == peer
    assert (decision.tenant, decision.principal, decision.agent, decision.task_id) == ("", "", "", "")
    _, fields = verdict_event(verdict, refused, None)
    assert fields["caller"] == peer
    assert not {REFUND_BOT, "task_1", "ana", "t1", "refund-bot"} & {str(v) for v in fields.values()}


def test_a_sidecar_cannot_ask_for_anothers_audience(tmp_path: Path) -> None:
    asked = request(on_behalf_of=REFUND_BOT, audience="spiffe://licet.local/dev/tool/other")
    refused = build_envelope(asked, FINANCE_SIDECAR, house(tmp_path), now_ms=NOW)
    assert isinstance(refused, Refused)
    assert (refused.refusal.reason, refused.task) == (Reason.ON_BEHALF_REFUSED, None)
    assert refused.asked.caller == FINANCE_SIDECAR


def test_the_sidecar_of_the_audience_asks_for_its_caller_who_is_on_record(tmp_path: Path) -> None:
    made = house(tmp_path)
    body = made.catalogs["spiffe://licet.local/dev/tool/finance"].method(GET_ORDER)
    assert body is not None
    assert isinstance(body.current.plan, Plan)
    order = body.current.plan.root.message_class(order_id="O1").SerializeToString()
    asked = request(on_behalf_of=REFUND_BOT, method=GET_ORDER, request=order)
    envelope = build_envelope(asked, FINANCE_SIDECAR, made, now_ms=NOW)
    assert isinstance(envelope, Envelope), envelope
    assert (envelope.asked.caller, envelope.task.task_id) == (REFUND_BOT, "task_1")


def test_a_failed_request_in_anothers_name_is_on_record_under_who_asked(tmp_path: Path) -> None:
    asked = asked_of(request(on_behalf_of=REFUND_BOT), EVIL, house(tmp_path))
    _, fields = failure_event(asked, None, Refusal(Reason.INTERNAL), "d" * 32, None)
    assert (fields["caller"], fields["task_id"]) == (EVIL, "")


PERSONAL_ID = "ana.b@example.com"
K_TOOL = b"k" * 32


def personal(tmp_path: Path) -> Envelope:
    """A refund of an order whose id is an address, in which the egress check found one."""
    asked = request(request=refund(PERSONAL_ID))
    made = build_envelope(asked, REFUND_BOT, house(tmp_path), now_ms=NOW)
    assert isinstance(made, Envelope), made
    return replace(made, risk_flags=("personal", "personal:email"), flagged=frozenset({"order_id"}))


def events_of(envelope: Envelope) -> dict[str, dict[str, Any]]:
    """The fields of every event that a decision of this call can leave, by what it is."""
    source = source_of(envelope)
    assert source is not None
    body = facts_request(envelope, source)
    assert isinstance(body, bytes)
    read = facts_decision(
        envelope,
        source,
        body,
        k_tool=K_TOOL,
        own_id="spiffe://licet.local/dev/decider",
        in_force=in_force(),
        outer=MOMENT,
        decision_id="f" * 32,
    )
    assert not isinstance(read, Refusal)
    held = usable(decide(envelope, FACTS, Held((LEAD,)), in_force(), MOMENT))
    allowed = usable(decide(envelope, FACTS, Allowed(("bot",)), in_force(), MOMENT))
    assert held.hold is not None
    context = TraceContext("1" * 32, "2" * 16)
    return {
        "allowed": verdict_event(allowed, envelope, K_TOOL)[1],
        "held": verdict_event(held, envelope, K_TOOL)[1],
        "asked": asked_fields(held.hold, envelope, K_TOOL, "d" * 32),
        "voted": hold_fields(held.hold),
        "facts": facts_fields(read, envelope, source, K_TOOL, context),
        "failed": failure_event(envelope.asked, envelope, Refusal(Reason.INTERNAL), "d" * 32, K_TOOL)[1],
    }


def test_a_resource_with_something_personal_in_it_stands_in_no_event(tmp_path: Path) -> None:
    for name, fields in events_of(personal(tmp_path)).items():
        told = str(fields)
        assert PERSONAL_ID not in told, name
        assert quote(PERSONAL_ID, safe="") not in told, name
        assert name == "voted" or fields["resource"].startswith("order:hmac-"), name


def test_its_twin_without_a_flag_stands_in_clear_and_approvers_see_either(tmp_path: Path) -> None:
    envelope = replace(personal(tmp_path), flagged=frozenset(), risk_flags=())
    for name, fields in events_of(envelope).items():
        assert name == "voted" or fields["resource"] == f"order:{quote(PERSONAL_ID, safe='')}", name
    held = usable(decide(personal(tmp_path), FACTS, Held((LEAD,)), in_force(), MOMENT))
    assert held.hold is not None
    assert PERSONAL_ID in held.hold.text


@pytest.mark.parametrize(
    "changes",
    [{"flagged": frozenset({WHOLE})}, {"flagged": frozenset(), "risk_flags": (UNCHECKED,)}],
    ids=["secret-cut-over-fields", "not-read-to-the-end"],
)
def test_a_resource_that_may_be_part_of_a_secret_is_hidden(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert replace(personal(tmp_path), **changes).recorded_resource(K_TOOL).startswith("order:hmac-")


def test_a_flag_on_another_field_hides_no_resource(tmp_path: Path) -> None:
    envelope = replace(personal(tmp_path), flagged=frozenset({"reason"}))
    assert envelope.recorded_resource(K_TOOL) == envelope.resource


def test_tenant_of_facts_is_not_told_in_the_detail(envelope: Envelope) -> None:
    refusal = check_tenant(envelope, replace(FACTS, tenant="tenant-of-ben"))
    assert refusal is not None
    assert "ben" not in refusal.detail


def test_failed_rule_is_named_and_no_value_of_the_call_is_told(envelope: Envelope) -> None:
    overflow = '@id("sum") forbid (principal, action, resource) when { context.amount_minor + MAX > 5 };'
    rules = ALLOW + overflow.replace("MAX", str((1 << 63) - 1))
    failed = ask(rules, amount_minor=4_821)
    assert isinstance(failed, Failed)
    assert "4821" in failed.detail  # for who tests rules with values of their own
    refusal = decide(envelope, FACTS, failed, in_force(), MOMENT)
    assert isinstance(refusal, Refusal)
    assert refusal.detail == "rules failed: `sum`"
