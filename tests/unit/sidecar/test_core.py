"""The core on fakes: order, one event a call, and that nothing unexpected lets a call through."""

import ast
import asyncio
import inspect
from dataclasses import replace
from typing import Any

import pytest

import sidecar.core
from licet.call import MAX_REQUEST_BYTES
from licet.catalog.method import MASK, MethodVersions
from licet.event import EventKind
from licet.flood import Alone
from licet.metadata import APPROVAL, PERMIT
from licet.permit import Presented
from licet.refusal import Reason, Refusal
from licet.revocation import RevocationKind, Revocations
from licet.tracing import Tracing
from sidecar.exchange import Answered, Refused, ToolAnswer
from sidecar.parts import Denied, Fenced, Obtained
from sidecar.quota import Quota
from sidecar.trace import DoorTrace
from tests.unit.sidecar.conftest import RECONCILER, World, reason
from tests.worlds import permit as permits
from tests.worlds.fakes import request
from tests.worlds.mint import AGENT, ENVIRONMENT, GET_ORDER, OTHER_AGENT, REFUND, refund

pytestmark = pytest.mark.asyncio


async def test_a_lawful_call_reaches_the_tool_once_with_our_own_encoding(world: World) -> None:
    reply = await world.call(world.mint.permit())
    assert isinstance(reply, Answered)
    assert reply.body == b"done"
    assert [forward.permit.arguments.canonical for forward in world.tool.got] == [
        refund().SerializeToString(deterministic=True)
    ]
    kind, fields = world.event
    assert kind is EventKind.DOOR_PASSED
    assert fields["outcome"] == "EXECUTED"
    assert (fields["amount_minor"], fields["currency"], fields["resource"]) == (5_000, "USD", "order:O1")
    assert list(world.spend.outcomes.values()) == ["EXECUTED"]


async def test_a_call_without_permit_costs_no_spend_and_reaches_no_tool(world: World) -> None:
    assert reason(await world.call()) == "NO_PERMIT"
    assert (world.tool.got, world.spend.reserves) == ([], {})
    assert world.event[0] is EventKind.DOOR_REFUSED


async def test_the_quota_is_taken_before_anything_else(world: World) -> None:
    world.quota = Quota(per_second=1, burst=1)
    world.door = world.make_door()
    read: list[bool] = []

    async def receive() -> bytes:
        read.append(True)
        return b""

    one = request(REFUND, b"", peer=AGENT)
    await world.door.handle(one)
    world.journal.events.clear()
    reply = await world.door.handle(replace(one, receive=receive))
    assert (reason(reply), read) == ("QUOTA_EXCEEDED", [])
    assert world.event[1]["reason"] == "QUOTA_EXCEEDED"


async def test_an_anonymous_flood_from_new_ports_is_one_bucket_and_one_event_a_second(world: World) -> None:
    world.quota = Quota(per_second=0.001, burst=1)
    world.door = world.make_door()
    for port in range(50):
        await world.door.handle(request(REFUND, b"", peer="", origin=f"ipv4:192.0.2.7:{port}"))
    reasons = [fields["reason"] for _, fields in world.journal.events]
    assert reasons == ["NO_PERMIT", "QUOTA_EXCEEDED"]
    world.clock.monotonic += 1_000
    await world.door.tell()
    assert [fields["detail"] for _, fields in world.journal.events[1:]] == [
        "1 call of `192.0.2.7` refused",
        "48 calls of `192.0.2.7` refused",
    ]
    other = request(REFUND, b"", peer="", origin="ipv4:192.0.2.8:1")
    assert reason(await world.door.handle(other)) == "NO_PERMIT"


async def test_refusals_within_a_quota_are_told_one_by_one_up_to_a_share_and_then_counted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Alone.__init__, "__defaults__", (2, 0.001))
    world.door = world.make_door()
    for _ in range(7):
        assert reason(await world.call()) == "NO_PERMIT"
    world.clock.monotonic += 1_000
    await world.door.tell()
    told = [fields.get("detail", "") for _, fields in world.journal.events]
    assert told[2:] == [f"1 call of `{AGENT}` refused", f"4 calls of `{AGENT}` refused"]
    assert not any(detail.endswith("refused") for detail in told[:2])
    assert isinstance(await world.call(world.mint.permit()), Answered), "what passes is no refusal"


async def test_the_last_second_of_a_flood_is_told_when_the_door_closes(world: World) -> None:
    world.quota = Quota(per_second=0.001, burst=1)
    world.door = world.make_door()
    for _ in range(8):
        await world.call()
    await world.door.tell(last=True)
    told = [fields for _, fields in world.journal.events if fields["reason"] == "QUOTA_EXCEEDED"]
    assert [(fields["caller"], fields["detail"].split()[0]) for fields in told] == [
        (AGENT, "1"),
        (AGENT, "6"),
    ]


async def test_refusals_leave_room_in_the_spool_for_what_is_done(world: World) -> None:
    world.journal.crowded = True
    for _ in range(20):
        assert reason(await world.call()) == "NO_PERMIT"
    permit = world.mint.permit()
    assert isinstance(await world.call(permit), Answered)
    assert reason(await world.call(permit)) == "SPENT"  # a step was tried: told by itself
    await world.door.tell(last=True)
    assert [(str(kind), fields["reason"]) for kind, fields in world.journal.events] == [
        ("door.refused", "NO_PERMIT"),
        ("door.passed", ""),
        ("door.refused", "SPENT"),
        ("door.refused", "NO_PERMIT"),
    ]
    assert world.journal.events[-1][1]["detail"] == f"19 calls of `{AGENT}` refused"


async def test_a_flood_is_refused_by_its_reason_and_counted_while_no_event_can_be_kept(world: World) -> None:
    world.quota = Quota(per_second=0.001, burst=1)
    world.door = world.make_door()
    await world.call()
    world.journal.fault = OSError("the disk")
    replies = [reason(await world.call()) for _ in range(3)]
    assert replies == ["AUDIT_BACKPRESSURE", "QUOTA_EXCEEDED", "QUOTA_EXCEEDED"]
    world.journal.fault = None
    await world.door.tell(last=True)
    assert world.journal.events[-1][1]["detail"] == f"3 calls of `{AGENT}` refused"


async def test_an_unknown_path_is_refused_before_its_body_is_read(world: World) -> None:
    async def receive() -> bytes:
        raise AssertionError("the body was read")

    from dataclasses import replace

    reply = await world.door.handle(replace(request("/x.Y/Z", b"", peer=AGENT), receive=receive))
    assert reason(reply) == "METHOD_UNKNOWN"
    assert world.door.faults == 0


async def test_client_streaming_is_refused_by_name(world: World) -> None:
    world.change_catalog(SearchPolicy={"client_streaming": True})
    reply = await world.call(path="/fin.v1.Finance/SearchPolicy", body=b"")
    assert reason(reply) == "CLIENT_STREAMING"


async def test_a_body_that_never_ends_is_refused_without_a_spend(world: World) -> None:
    reply = await world.door.handle(request(REFUND, Refusal(Reason.DEADLINE), peer=AGENT))
    assert (reason(reply), world.spend.reserves) == ("DEADLINE", {})
    assert world.event[1]["reason"] == "DEADLINE"


async def test_a_body_past_the_limit_is_refused_before_anything_in_it_is_judged(world: World) -> None:
    assert reason(await world.call(body=bytes(MAX_REQUEST_BYTES + 1))) == "TOO_LARGE"
    assert world.event[1]["reason"] == "TOO_LARGE"
    assert reason(await world.call(body=bytes(MAX_REQUEST_BYTES))) == "NO_PERMIT"  # read, and its twin


async def test_before_the_first_beacon_nothing_passes(world: World) -> None:
    world.beacons._state = None
    assert reason(await world.call(world.mint.permit())) == "BEACON_STALE"


async def test_a_permit_newer_than_the_beacon_waits_for_it(world: World) -> None:
    permit = world.mint.permit(config_seq=world.mint.config_seq + 1)
    call = asyncio.create_task(world.call(permit))
    await asyncio.sleep(0.05)
    assert not call.done()
    world.beacons.set(world.state(config_seq=world.mint.config_seq + 1))
    assert reason(await call) == "passed"
    assert world.event[0] is EventKind.DOOR_PASSED


async def test_a_permit_newer_than_any_beacon_that_comes_is_unavailable_not_denied(world: World) -> None:
    world.door = world.make_door(beacon_wait_ms=100)
    call = asyncio.create_task(world.call(world.mint.permit(config_seq=world.mint.config_seq + 9)))
    await asyncio.sleep(0.02)
    world.clock.advance(200)
    reply = await call
    assert isinstance(reply, Refused)
    assert (reply.refusal.reason, reply.refusal.status.value) == (Reason.BEACON_BEHIND, "UNAVAILABLE")
    assert (world.tool.got, world.spend.reserves) == ([], {})
    assert len(world.journal.events) == 1


async def test_a_spent_step_is_refused_and_the_tool_is_not_called_again(world: World) -> None:
    permit = world.mint.permit()
    assert reason(await world.call(permit)) == "passed"
    assert reason(await world.call(permit)) == "SPENT"
    assert len(world.tool.got) == 1
    assert [kind for kind, _ in world.journal.events] == [EventKind.DOOR_PASSED, EventKind.DOOR_REFUSED]


async def test_two_at_once_with_one_permit_reach_the_tool_once(world: World) -> None:
    permit = world.mint.permit()
    replies = await asyncio.gather(*(world.call(permit) for _ in range(20)))
    assert sorted(reason(reply) for reply in replies) == ["SPENT"] * 19 + ["passed"]
    assert len(world.tool.got) == 1
    assert len(world.journal.events) == 20


async def test_a_refusal_after_the_signature_is_joined_to_its_decision(world: World) -> None:
    decision = world.mint.decision()
    reply = await world.call(world.mint.sign(decision), body=refund(minor=5_100).SerializeToString())
    assert reason(reply) == "DIGEST_MISMATCH"
    fields = world.event[1]
    assert (fields["decision_id"], fields["spend_id"]) == (decision.decision_id, decision.spend_id)


async def test_fields_of_a_permit_that_nobody_signed_are_not_recorded(world: World) -> None:
    forged = world.mint.sign(world.mint.decision(tenant="t9"), key="beacon")
    assert reason(await world.call(forged)) == "KEY_ROLE"
    assert "decision_id" not in world.event[1]


async def test_a_personal_resource_is_recorded_as_a_digest_only(world: World) -> None:
    world.change_catalog(IssueRefund={"resource_personal": True})
    assert reason(await world.call(on_call_permit(world))) == "passed"
    assert world.event[1]["resource"].startswith("order:hmac-")
    assert "O1" not in str(world.event)
    assert MASK in world.event[1]["summary"]


async def test_a_resource_that_may_be_told_stands_in_clear(world: World) -> None:
    assert reason(await world.call(world.mint.permit())) == "passed"
    assert world.event[1]["resource"] == "order:O1"
    assert "O1" in world.event[1]["summary"]


async def test_another_resource_than_decided_is_refused_and_no_id_is_told(world: World) -> None:
    world.change_catalog(IssueRefund={"resource_personal": True})
    body = refund("O-of-ana").SerializeToString()
    assert reason(await world.call(on_call_permit(world, resource="order:O-of-ben"), body=body)) == (
        "RESOURCE_MISMATCH"
    )
    assert "of-ana" not in str(world.event)
    assert "of-ben" not in str(world.event)


async def test_a_resource_of_an_unlisted_method_version_is_not_recorded_in_clear(world: World) -> None:
    assert reason(await world.call(world.mint.permit(method_digest=b"x" * 32))) == "METHOD_SUPERSEDED"
    assert world.event[1]["resource"].startswith("order:hmac-")


async def test_what_a_path_claims_cannot_forge_a_record(world: World) -> None:
    await world.call(path="/a\n{}\x1b[31m" + "x" * 5_000, body=b"")
    recorded = world.event[1]["method"]
    assert "\n" not in recorded
    assert "\x1b" not in recorded
    assert len(recorded) <= 256


async def test_without_a_tool_no_step_is_used_up(world: World) -> None:
    world.tool.reachable = False
    reply = await world.call(world.mint.permit())
    assert (reason(reply), world.spend.reserves) == ("TOOL_UNREACHABLE", {})


async def test_when_no_byte_left_the_step_had_no_effect(world: World) -> None:
    world.tool.answer = ToolAnswer(code=14, sent=False)
    assert reason(await world.call(world.mint.permit())) == "TOOL_UNREACHABLE"
    assert list(world.spend.outcomes.values()) == ["FAILED_NO_EFFECT"]
    assert world.event[0] is EventKind.DOOR_REFUSED


async def test_an_error_of_a_guarded_tool_without_its_guards_word_is_unknown(world: World) -> None:
    world.tool.answer = ToolAnswer(code=14, message="connection reset")
    reply = await world.call(world.mint.permit())
    assert isinstance(reply, Answered)
    assert (reply.code, reply.message) == (14, "connection reset")
    assert world.spend.outcomes == {}
    assert world.event == (EventKind.DOOR_PASSED, world.event[1])
    assert world.event[1]["outcome"] == "UNKNOWN"


async def test_an_ok_of_a_guarded_tool_without_its_guards_word_proves_nothing(world: World) -> None:
    world.tool.answer = ToolAnswer(code=0, body=b"done")
    assert reason(await world.call(world.mint.permit())) == "OUTCOME_UNKNOWN"
    assert world.spend.outcomes == {}
    assert (world.event[0], world.event[1]["outcome"]) == (EventKind.DOOR_PASSED, "UNKNOWN")


async def test_the_guards_refusal_is_on_record_with_its_reason(world: World) -> None:
    world.tool.answer = ToolAnswer(code=9, effect="none", reason="PRECONDITION_FAILED")
    await world.call(world.mint.permit())
    kind, fields = world.event
    assert (kind, fields["reason"], fields["outcome"]) == (
        EventKind.DOOR_PASSED,
        "PRECONDITION_FAILED",
        "FAILED_NO_EFFECT",
    )
    assert list(world.spend.outcomes.values()) == ["FAILED_NO_EFFECT"]


async def test_a_call_whose_caller_has_gone_before_the_spend_is_not_made(world: World) -> None:
    world.spend.gate = asyncio.Event()
    late = world.clock.monotonic - 1
    assert reason(await world.call(world.mint.permit(), deadline_ms=late)) == "DEADLINE"
    assert (world.spend.reserves, world.tool.got) == ({}, [])


async def test_a_caller_that_goes_after_the_spend_cannot_stop_the_tool(world: World) -> None:
    world.tool.gate = asyncio.Event()
    call = asyncio.create_task(world.call(world.mint.permit()))
    await world.tool.called.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert world.door.open == 1
    world.tool.gate.set()
    assert await world.door.drain(1_000) == 0
    assert list(world.spend.outcomes.values()) == ["EXECUTED"]
    assert world.event[1]["outcome"] == "EXECUTED"


async def test_a_caller_that_goes_while_its_permit_waits_leaves_one_event_and_no_spend(world: World) -> None:
    permit = world.mint.permit(config_seq=world.mint.config_seq + 1)
    call = asyncio.create_task(world.call(permit))
    await asyncio.sleep(0.02)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    world.beacons.set(world.state(config_seq=world.mint.config_seq + 1))
    await world.door.drain(1_000)
    assert (world.event[1]["reason"], world.spend.reserves) == ("DEADLINE", {})


async def test_a_full_spool_stops_writes_before_their_spend(world: World) -> None:
    world.journal.full = True
    assert reason(await world.call(world.mint.permit())) == "AUDIT_BACKPRESSURE"
    assert (world.spend.reserves, world.tool.got) == ({}, [])


async def test_no_reply_leaves_without_its_event(world: World) -> None:
    world.journal.fault = OSError("disk")
    assert reason(await world.call()) == "AUDIT_BACKPRESSURE"
    assert reason(await world.call(world.mint.permit())) == "OUTCOME_UNKNOWN"
    assert world.door.faults == 2


@pytest.mark.parametrize(
    ("presented", "waited_for"), [(permits.approved_wipe(), 1), (permits.presented(), 0)]
)
async def test_only_a_privileged_call_waits_for_the_disk(
    world: World, presented: Presented, waited_for: int
) -> None:
    world.clock.now = world.clock.monotonic = permits.NOW
    world.beacons.set(permits.DOOR)
    pairs = (
        *((PERMIT, permit) for permit in presented.permits),
        *((APPROVAL, approval) for approval in presented.approvals),
    )
    reply = await world.door.handle(request(presented.path, presented.body, pairs, peer=presented.peer))
    assert isinstance(reply, Answered), reply
    assert world.event[0] is EventKind.DOOR_PASSED
    assert world.journal.durable == waited_for


@pytest.mark.parametrize("part", ["quota", "beacons", "spend", "tool", "clock"])
async def test_whatever_breaks_denies_with_one_event(world: World, part: str, monkeypatch: Any) -> None:
    def broken(*_: object, **__: object) -> object:
        raise RuntimeError("broken part")

    for name in ("take", "state", "reserve", "ready"):
        target = getattr(world, part)
        if hasattr(type(target), name):
            monkeypatch.setattr(type(target), name, broken)
    if part == "clock":
        monkeypatch.setattr(type(world.clock), "monotonic_ms", broken)
    reply = await world.call(world.mint.permit())
    assert reason(reply) == "INTERNAL"
    assert len(world.journal.events) == 1
    assert world.door.faults == 1
    assert world.tool.got == []


async def test_a_fault_while_the_tool_runs_leaves_the_outcome_unknown(world: World) -> None:
    world.tool.fault = RuntimeError("lost")
    assert reason(await world.call(world.mint.permit())) == "OUTCOME_UNKNOWN"
    assert world.spend.outcomes == {}
    assert (world.event[0], world.event[1]["outcome"]) == (EventKind.DOOR_PASSED, "UNKNOWN")


async def test_telemetry_that_breaks_takes_no_answer_away(world: World, monkeypatch: Any) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("exporter")

    monkeypatch.setattr(sidecar.core.DoorTrace, "close", broken)
    assert isinstance(await world.call(world.mint.permit()), Answered)
    assert (world.event[0], world.door.faults) == (EventKind.DOOR_PASSED, 1)


async def test_a_read_spends_nothing_and_has_no_outcome(world: World) -> None:
    body = b"\n\x02O1"
    reply = await world.call(world.mint.permit(GET_ORDER, body), path=GET_ORDER, body=body)
    assert isinstance(reply, Answered)
    assert (world.spend.reserves, world.event[1]["outcome"]) == ({}, "")


async def test_a_read_is_not_worth_more_time_than_its_caller_gives_it(world: World) -> None:
    body = b"\n\x02O1"
    ends = world.clock.monotonic + 500
    await world.call(world.mint.permit(GET_ORDER, body), path=GET_ORDER, body=body, deadline_ms=ends)
    await world.call(world.mint.permit(), deadline_ms=ends)
    assert [forward.timeout_ms for forward in world.tool.got] == [500, 30_000]


class FakeFences:
    def __init__(self) -> None:
        self.asked: list[bytes] = []

    async def fence(self, body: bytes) -> Fenced | Refusal:
        self.asked.append(body)
        return Fenced(answer=b"voided", spend_id="5" * 32, round=0, decision_id="d" * 32, outcome="VOIDED")


async def test_the_reconciler_may_fence_without_a_permit(world: World) -> None:
    world.fences = FakeFences()
    world.door = world.make_door()
    reply = await world.call(path=sidecar.core.FENCE_PATH, body=b"reserve", peer=RECONCILER)
    assert isinstance(reply, Answered)
    assert reply.body == b"voided"
    assert world.event[0] is EventKind.DOOR_PASSED
    assert world.event[1]["outcome"] == "VOIDED"


@pytest.mark.parametrize(
    "peer", [AGENT, OTHER_AGENT, "", "spiffe://licet.local/dev/decider", RECONCILER + "/x"]
)
async def test_nobody_else_may_fence(world: World, peer: str) -> None:
    world.fences = FakeFences()
    world.door = world.make_door()
    reply = await world.call(path=sidecar.core.FENCE_PATH, body=b"reserve", peer=peer)
    assert (reason(reply), world.fences.asked) == ("NO_PERMIT", [])


@pytest.mark.parametrize("method", ["Beacon", "Outbox", "fence", "Fence/", "/Fence"])
async def test_nothing_else_of_the_guard_is_reached_from_outside(world: World, method: str) -> None:
    world.fences = FakeFences()
    world.door = world.make_door()
    reply = await world.call(path=f"/licet.v1.GuardService/{method}", body=b"", peer=RECONCILER)
    assert (reason(reply), world.fences.asked, world.tool.got) == ("METHOD_UNKNOWN", [], [])


class FakeDecider:
    def __init__(self, answer: Obtained | Denied) -> None:
        self.answer = answer
        self.asked: list[tuple[bytes, str]] = []

    async def decide(self, request: Any, body: bytes, *, call_id: str, trace: Any) -> Obtained | Denied:
        self.asked.append((body, call_id))
        return self.answer


async def on_call(world: World, answer: Obtained | Denied) -> FakeDecider:
    world.change_catalog(IssueRefund={"decide_on_call": True})
    decider = FakeDecider(answer)
    world.decider = decider
    world.door = world.make_door()
    return decider


def on_call_permit(world: World, **changes: Any) -> bytes:
    state = world.beacons.state()
    assert state is not None
    versions = state.catalog.method(REFUND)
    assert versions is not None
    from licet.call import call_digest

    method = versions.current
    arguments = method.arguments(refund().SerializeToString())
    assert not isinstance(arguments, Refusal)
    digest = call_digest(world.mint.k_tool, method.codec, REFUND, method.digest, arguments.encoded)
    return world.mint.permit(method_digest=method.digest, call_digest=digest, **changes)


async def test_a_permit_got_on_call_is_checked_like_any_other(world: World) -> None:
    decider = await on_call(world, Denied(refusal=Refusal(Reason.POLICY_DENIED)))
    decider.answer = Obtained(permit=on_call_permit(world, call_id="step-1"), approvals=())
    reply = await world.call(metadata=(("licet-call-id", "step-1"),))
    assert isinstance(reply, Answered)
    assert dict(reply.trailers)["licet-call-id"] == "step-1"
    decider.answer = Obtained(permit=on_call_permit(world, caller=OTHER_AGENT), approvals=())
    assert reason(await world.call()) == "CALLER_MISMATCH"


async def test_a_denial_on_call_reaches_no_tool_and_says_what_is_safe(world: World) -> None:
    await on_call(world, Denied(refusal=Refusal(Reason.HELD), safe=(("holdId", "h1"),)))
    reply = await world.call()
    assert isinstance(reply, Refused)
    assert (reply.refusal.reason, reply.safe, world.tool.got) == (Reason.HELD, (("holdId", "h1"),), [])


async def test_each_call_without_id_is_a_step_of_its_own_and_is_told_which(world: World) -> None:
    decider = await on_call(world, Denied(refusal=Refusal(Reason.POLICY_DENIED)))
    first, second = await world.call(), await world.call()
    assert isinstance(first, Refused)
    assert isinstance(second, Refused)
    assert len({first.trailers, second.trailers}) == 2
    assert [(("licet-call-id", call_id),) for _, call_id in decider.asked] == [
        first.trailers,
        second.trailers,
    ]


async def test_without_the_catalogs_leave_nobody_is_asked(world: World) -> None:
    decider = FakeDecider(Denied(refusal=Refusal(Reason.POLICY_DENIED)))
    world.decider = decider
    world.door = world.make_door()
    assert (reason(await world.call()), decider.asked) == ("NO_PERMIT", [])


async def test_nobody_is_asked_for_a_caller_without_identity(world: World) -> None:
    decider = await on_call(world, Denied(refusal=Refusal(Reason.POLICY_DENIED)))
    assert (reason(await world.call(peer="")), decider.asked) == ("NO_PERMIT", [])


async def test_a_permit_that_is_there_is_never_replaced_by_asking(world: World) -> None:
    decider = await on_call(world, Denied(refusal=Refusal(Reason.POLICY_DENIED)))
    assert reason(await world.call(b"junk")) == "PERMIT_MALFORMED"
    assert decider.asked == []


async def test_the_tool_is_called_from_one_line_that_takes_a_permit() -> None:
    tree = ast.parse(inspect.getsource(sidecar.core))
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "call"
    ]
    assert len(calls) == 1
    builders = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Forward"
    ]
    assert len(builders) == 1


async def test_the_core_knows_no_transport() -> None:
    imported = {
        name
        for node in ast.walk(ast.parse(inspect.getsource(sidecar.core)))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert not {name for name in imported if name.split(".")[0] in {"grpc", "nats", "socket", "google"}}


@pytest.mark.parametrize("what", ["revoked", "rules", "stale", "ended", "nothing"])
async def test_what_a_door_learns_while_the_store_is_slow_stops_the_call(world: World, what: str) -> None:
    """A store that is away for half a minute must not carry a call past a revocation that is known here."""
    world.spend.gate = asyncio.Event()
    task = asyncio.create_task(world.call(world.mint.permit()))
    for _ in range(50):  # to the gate
        await asyncio.sleep(0)
    state = world.beacons.state()
    assert state is not None
    if what == "revoked":
        gone = Revocations(1, ENVIRONMENT, frozenset({(RevocationKind.AGENT, world.mint.decision().agent)}))
        world.beacons.set(replace(state, revocations=gone))
    elif what == "rules":
        version = world.mint.decision().bundle_version + 1
        world.beacons.set(world.state(bundle_version=version, config_seq=99))
    elif what != "nothing":
        world.clock.advance(5_001 if what == "stale" else 61_000)
    world.spend.gate.set()
    reply = await task
    reasons = {"revoked": "AGENT_REVOKED", "rules": "BUNDLE_SUPERSEDED", "stale": "BEACON_STALE"}
    assert reason(reply) == reasons.get(what, "EXPIRED" if what == "ended" else "passed")
    assert len(world.tool.got) == (what == "nothing")
    assert list(world.spend.outcomes.values()) == ["EXECUTED" if what == "nothing" else "FAILED_NO_EFFECT"]


async def test_a_span_is_called_by_a_path_that_is_printable() -> None:
    """HTTP/2 takes nearly any byte in a path; whoever reads the trace has a terminal."""
    odd = DoorTrace(Tracing("test"), request("/x\x1b[2J/\u202ey", b"", peer=AGENT))
    assert odd._root.name == "x?[2J/?y"
    assert DoorTrace(Tracing("test"), request(REFUND, b"", peer=AGENT))._root.name == REFUND.lstrip("/")


@pytest.mark.parametrize("streams_now", [True, False])
async def test_a_call_is_made_as_the_version_that_was_decided_makes_it(
    world: World, streams_now: bool
) -> None:
    """While a rollout lasts the door lists two; what leaves through a stream is masked by nobody."""
    state = world.beacons.state()
    assert state is not None
    (decided, *_) = state.catalog.methods[GET_ORDER].all()
    decided = replace(decided, server_streaming=not streams_now)
    listed = replace(decided, digest=b"n" * 32, server_streaming=streams_now)
    methods = {**state.catalog.methods, GET_ORDER: MethodVersions(listed, decided)}
    world.beacons.set(replace(state, catalog=replace(state.catalog, methods=methods)))
    sent: list[bytes] = []

    async def send(message: bytes) -> None:
        sent.append(message)

    body = b"\x0a\x02O1"
    call = request(GET_ORDER, body, ((PERMIT, world.mint.permit(GET_ORDER, body)),), peer=AGENT)
    streamed = replace(call, send=send)
    wrong, right = (streamed, call) if streams_now else (call, streamed)
    assert reason(await world.door.handle(wrong)) == "METHOD_SUPERSEDED"
    assert (world.tool.got, sent) == ([], [])
    assert reason(await world.door.handle(right)) == "passed"
