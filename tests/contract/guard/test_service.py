"""The guard on a real gRPC server on a Unix socket, synchronous and aio alike, as a sidecar meets it."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from examples.refund.fin.v1 import finance_pb2, finance_pb2_grpc
from licet import metadata
from licet.guard import GuardedMethod, serve
from licet.refusal import Refusal
from licet.tracing import Tracing
from licet.v1 import guard_pb2, guard_pb2_grpc
from tests.worlds.guarded_tool import GuardedTool, QuickMint, SqliteStore, ended
from tests.worlds.log_lines import log_lines
from tests.worlds.mint import REFUND, refund

TRACEPARENT = f"00-{'1' * 32}-{'2' * 16}-00"
TIMEOUT_S = 10.0
CANARY = "canary-in-the-tools-own-fault"


class Finance(finance_pb2_grpc.FinanceServicer):
    def __init__(self, tool: GuardedTool) -> None:
        self._tool = tool
        self.spans = InMemorySpanExporter()
        tracing = Tracing("tool", exporter=self.spans)
        self.tracing = tracing
        self._refund = GuardedMethod(
            tool.guard, REFUND, finance_pb2.IssueRefundResponse, entries=2, tracing=tracing
        )
        self.entered = 0
        self.left = threading.Semaphore(0)

    def IssueRefund(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        self.entered += 1
        try:
            return self._issue(request, context)
        finally:
            self.left.release()

    def _issue(self, request: Any, context: grpc.ServicerContext) -> Any:
        if request.order_id == "O98":
            return self._refund(request, context, lambda _: int(CANARY))
        if request.order_id == "O99":
            return self._refund(
                request, context, lambda _: context.abort(grpc.StatusCode.NOT_FOUND, "no such order")
            )
        return self._refund(request, context, self._tool.change(request))


class Rig:
    """A guarded tool behind its socket, and what a sidecar does with it."""

    def __init__(self, tool: GuardedTool, socket: Path) -> None:
        self.tool = tool
        self.finance = Finance(tool)
        self.channel = grpc.insecure_channel(f"unix:{socket}")
        self.guard = guard_pb2_grpc.GuardServiceStub(self.channel)
        self.stub = finance_pb2_grpc.FinanceStub(self.channel)

    def register(self, server: Any) -> None:
        finance_pb2_grpc.add_FinanceServicer_to_server(self.finance, server)
        serve(self.tool.guard, server)

    def refund(self, *permits: bytes, request: Any = None) -> tuple[str, str | None, Any]:
        """Status name, the trailer `licet-effect`, and the reply or the reason."""
        sent = [(metadata.ATTEMPT, "a" * 32), ("traceparent", TRACEPARENT)]
        sent += [(metadata.PERMIT, permit) for permit in permits]  # type: ignore[misc]
        try:
            reply, call = self.stub.IssueRefund.with_call(
                refund() if request is None else request, metadata=tuple(sent), timeout=TIMEOUT_S
            )
        except grpc.RpcError as error:
            return error.code().name, effect(error.trailing_metadata()), reason_of(error)
        return "OK", effect(call.trailing_metadata()), reply

    def errors(self) -> list[str]:
        """What the server's spans failed with, after one call: its answer comes before its end."""
        assert self.finance.left.acquire(timeout=TIMEOUT_S)
        self.finance.tracing.shutdown()
        spans = self.finance.spans.get_finished_spans()
        assert spans
        return [str(one.status.description) for one in spans if not one.status.is_unset]


def effect(trailers: Any) -> str | None:
    return dict(trailers).get(metadata.EFFECT)


def reason_of(error: Any) -> str:
    status = rpc_status.from_call(error)
    if status is None:
        return ""
    [detail] = status.details
    info = error_details_pb2.ErrorInfo()
    assert detail.Unpack(info)
    assert info.domain == "licet"
    assert not info.metadata
    return info.reason


@pytest.fixture(params=["grpc.server", "grpc.aio.server"])
def rig(request: pytest.FixtureRequest, mint: QuickMint, tmp_path: Path) -> Iterator[Rig]:
    made = Rig(GuardedTool(mint, SqliteStore(tmp_path / "ledger.db")), tmp_path / "tool.sock")
    run = threaded if request.param == "grpc.server" else asynchronous
    with made.channel:
        yield from run(made, tmp_path / "tool.sock")
    made.tool.store.ledger.close()


def threaded(rig: Rig, socket: Path) -> Iterator[Rig]:
    with ThreadPoolExecutor(4) as pool:
        server = grpc.server(pool)
        rig.register(server)
        server.add_insecure_port(f"unix:{socket}")
        server.start()
        yield rig
        server.stop(None).wait()


def asynchronous(rig: Rig, socket: Path) -> Iterator[Rig]:
    ready, loop = threading.Event(), asyncio.new_event_loop()
    stopping = asyncio.Event()

    async def run() -> None:
        with ThreadPoolExecutor(4) as pool:
            server = grpc.aio.server(migration_thread_pool=pool)
            rig.register(server)
            server.add_insecure_port(f"unix:{socket}")
            await server.start()
            ready.set()
            await stopping.wait()
            await server.stop(None)

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    thread.start()
    assert ready.wait(TIMEOUT_S)
    yield rig
    loop.call_soon_threadsafe(stopping.set)
    thread.join(TIMEOUT_S)
    loop.close()


@pytest.mark.negative(39)
def test_a_raw_call_on_the_tools_socket_is_refused(rig: Rig) -> None:
    assert rig.refund() == ("UNAUTHENTICATED", "none", "NO_PERMIT")
    assert rig.tool.ledger_rows() == []
    # its twin: the same call with a permit
    status, said, reply = rig.refund(rig.tool.mint.sign(rig.tool.decision()))
    assert (status, said, reply.order_version) == ("OK", "executed", 2)
    assert rig.finance.entered == 2


def test_a_refusals_log_line_leads_to_the_callers_trace(rig: Rig) -> None:
    with log_lines() as lines:
        rig.refund()
    (line,) = (one for one in lines if one["event"] == "guard.refused")
    assert line["trace_id"] == TRACEPARENT.split("-")[1]


def test_the_trailer_says_what_became_of_the_step(rig: Rig) -> None:
    permit = rig.tool.mint.sign(rig.tool.decision(call_id="step"))
    first, again = rig.refund(permit), rig.refund(permit)
    assert (first[:2], again[:2]) == (("OK", "executed"), ("OK", "stored"))
    assert first[2] == again[2]
    other = refund(minor=1)
    spent = rig.tool.mint.sign(rig.tool.decision(other, call_id="step"))
    # the step had an effect, though not this one: only a fence may say so
    assert rig.refund(spent, request=other) == ("ALREADY_EXISTS", None, "SPENT")
    stale = rig.tool.mint.sign(rig.tool.decision(call_id="other", preconditions=[], bundle_version=1))
    assert rig.refund(stale) == ("FAILED_PRECONDITION", "none", "BUNDLE_SUPERSEDED")


def test_a_refused_repeat_of_an_executed_step_does_not_deny_its_effect(rig: Rig) -> None:
    """Its sidecar must not record that nothing happened: the permit only came too late to be answered."""
    permit = rig.tool.mint.sign(rig.tool.decision())
    assert rig.refund(permit)[:2] == ("OK", "executed")
    assert not isinstance(rig.tool.beacon(bundle_version=8, config_seq=4), Refusal)
    assert rig.refund(permit) == ("FAILED_PRECONDITION", None, "BUNDLE_SUPERSEDED")


def test_a_ledger_that_cannot_be_used_is_unavailable_and_says_nothing_of_the_effect(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rig.tool.store.ledger, "_lock_wait_s", 0.1)
    writer = rig.tool.store.connect()
    permit = rig.tool.mint.sign(rig.tool.decision())
    rig.tool.store.ledger.close()
    writer.execute("BEGIN IMMEDIATE")
    assert rig.refund(permit) == ("UNAVAILABLE", None, "STORE_UNAVAILABLE")
    writer.execute("ROLLBACK")
    writer.close()
    assert rig.refund(permit)[:2] == ("OK", "executed")


def test_what_the_tool_itself_refuses_is_its_own_status_and_had_no_effect(rig: Rig) -> None:
    request = refund("O99")
    permit = rig.tool.mint.sign(rig.tool.decision(request))
    assert rig.refund(permit, request=request) == ("NOT_FOUND", "none", "")
    assert rig.tool.spend_rows() == []
    assert rig.errors() == [], "the caller's mistake is no error of the tool's span"


def test_a_fault_of_the_tools_code_is_logged_without_what_it_quotes(rig: Rig) -> None:
    """Python's errors quote what they could not read, and grpcio logs them."""
    request = refund("O98")
    permit = rig.tool.mint.sign(rig.tool.decision(request))
    with log_lines() as lines:
        assert rig.refund(permit, request=request) == ("UNKNOWN", "none", "")
    (fault,) = (one for one in lines if one.get("error") == "ValueError")
    assert any(" IssueRefund" in one for one in fault["frames"])
    assert CANARY not in str(lines)
    assert rig.tool.spend_rows() == []
    assert rig.errors() == ["UNKNOWN"]


def test_a_field_the_catalog_does_not_know_is_refused_though_the_tools_parser_takes_it(rig: Rig) -> None:
    permit = rig.tool.mint.sign(rig.tool.decision())
    grown = finance_pb2.IssueRefundRequest.FromString(refund().SerializeToString() + b"\xba\x3e\x01x")
    assert rig.refund(permit, request=grown) == ("INVALID_ARGUMENT", "none", "UNKNOWN_FIELD")
    assert rig.tool.ledger_rows() == []
    assert rig.refund(permit)[:2] == ("OK", "executed")


def test_a_refusal_says_nothing_of_limits_or_values(rig: Rig) -> None:
    late = rig.tool.mint.sign(rig.tool.decision(preconditions=rig.tool.decision(refund("O4")).preconditions))
    with pytest.raises(grpc.RpcError) as refused:
        rig.stub.IssueRefund(refund(), metadata=((metadata.PERMIT, late),), timeout=TIMEOUT_S)
    said = str(refused.value)
    assert "t1" not in said
    assert "version" not in said


def test_beacons_come_with_what_they_name_and_the_guard_says_what_it_holds(rig: Rig) -> None:
    mint = rig.tool.mint
    answer = rig.guard.Beacon(guard_pb2.BeaconRequest(beacon=mint.beacon()), timeout=TIMEOUT_S)
    assert (answer.accepted, answer.reason, answer.keyset_version) == (True, "", mint.keyset.version)
    forged = mint.beacon()
    forged.signature = bytes(64)
    answer = rig.guard.Beacon(guard_pb2.BeaconRequest(beacon=forged), timeout=TIMEOUT_S)
    assert (answer.accepted, answer.reason) == (False, "SIGNATURE_INVALID")
    older = mint.beacon(config_seq=1)
    answer = rig.guard.Beacon(guard_pb2.BeaconRequest(beacon=older), timeout=TIMEOUT_S)
    assert (answer.accepted, answer.reason) == (False, "BEACON_STALE")


def test_the_outbox_is_served_and_joined_to_the_trace(rig: Rig) -> None:
    decision = rig.tool.decision()
    assert rig.refund(rig.tool.mint.sign(decision))[0] == "OK"
    first, second = rig.guard.Outbox(guard_pb2.OutboxRequest(limit=10), timeout=TIMEOUT_S).changes
    assert (first.outbox_seq, first.entry, first.amount_minor, first.currency) == (1, 1, -5000, "USD")
    assert (second.outbox_seq, second.entry, second.amount_minor) == (2, 2, 5000)
    assert (first.audience, first.spend_id) == (decision.audience, decision.spend_id)
    assert (first.decision_id, first.call_digest) == (decision.decision_id, decision.call_digest)
    assert (first.resource, first.tenant, first.account) == ("order:O1", "t1", "merchant")
    assert (first.attempt, first.issuer) == ("a" * 32, "permit")
    assert first.change_id == f"{decision.spend_id}/1"
    assert first.trace_id == "1" * 32
    assert len(first.span_id) == 16
    assert first.span_id != "2" * 16  # ledger.commit's own, not its caller's
    assert not rig.guard.Outbox(guard_pb2.OutboxRequest(acked=2, limit=10), timeout=TIMEOUT_S).changes


def test_a_guard_without_a_beacon_knows_no_key_to_fence_by(rig: Rig) -> None:
    rig.tool.guard._standing = None
    request = guard_pb2.FenceRequest(reserve=rig.tool.reserve(rig.tool.decision(**ended())))
    with pytest.raises(grpc.RpcError) as refused:
        rig.guard.Fence(request, timeout=TIMEOUT_S)
    assert (refused.value.code(), reason_of(refused.value)) == (
        grpc.StatusCode.UNAVAILABLE,
        "BEACON_STALE",
    )


def test_a_fence_answers_over_the_socket(rig: Rig) -> None:
    lost = rig.tool.decision(**ended())
    request = guard_pb2.FenceRequest(reserve=rig.tool.reserve(lost))
    answer = rig.guard.Fence(request, timeout=TIMEOUT_S)
    assert (answer.state, answer.spend_id) == (guard_pb2.FENCE_STATE_VOIDED, lost.spend_id)
    assert (answer.attempt, answer.call_digest) == ("", b"")
    early = guard_pb2.FenceRequest(reserve=rig.tool.reserve(rig.tool.decision()))
    with pytest.raises(grpc.RpcError) as refused:
        rig.guard.Fence(early, timeout=TIMEOUT_S)
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert reason_of(refused.value) == "NOT_YET_VALID"
