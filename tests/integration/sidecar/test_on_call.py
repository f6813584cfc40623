"""Decide on call, and masking, at a real door: the decider's answers are real messages under real keys."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
from google.rpc import error_details_pb2, status_pb2
from grpc import aio

from examples.refund.fin.v1 import finance_pb2
from licet import telemetry
from licet.embedded.otlp_receiver import OtlpReceiver
from licet.embedded.trace_store import TraceStore
from licet.metadata import CALL_ID, DEV_IDENTITY, PERMIT, TASK_ID
from licet.statement import PayloadType
from licet.tracing import TraceContext, extract, inject
from licet.v1 import decider_pb2, decision_pb2, hold_pb2
from licet.v1.statement_pb2 import Signed
from tests.worlds import http2
from tests.worlds.mint import AGENT, GET_ORDER, OTHER_AGENT, REFUND, refund
from tests.worlds.rig import AMOUNT, Rig, answer_of

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("sidecar_on_call")]

Decide = Callable[[Any, Any], Awaitable[Any]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path_factory.mktemp("rig"))
    rig.mint.write_catalog(IssueRefund={"decide_on_call": True}, GetOrder={"decide_on_call": False})
    await rig.start()
    yield rig
    await rig.stop()


class Asked:
    """A decider that remembers what it was asked, and answers as told."""

    def __init__(self, rig: Rig, answer: Callable[[Any], Any]) -> None:
        self.requests: list[Any] = []
        self.identities: list[str] = []
        self._answer = answer
        rig.word.decide = self

    async def __call__(self, request: Any, context: Any) -> Any:
        self.requests.append(request)
        self.identities += [value for key, value in context.invocation_metadata() if key == DEV_IDENTITY]
        answer = self._answer(request)
        if isinstance(answer, grpc.StatusCode):
            await context.abort(answer, "as told")
        return answer


def allow(rig: Rig, **changes: Any) -> Callable[[Any], Any]:
    def answer(request: Any) -> Any:
        body = finance_pb2.IssueRefundRequest.FromString(request.request)
        permit = rig.permit(body, call_id=request.call_id, task_id=request.task_id, **changes)
        return decider_pb2.DecideResponse(
            decision=decision_pb2.DECISION_TYPE_ALLOW, signed=Signed.FromString(permit)
        )

    return answer


async def call(
    rig: Rig,
    order: str,
    *pairs: tuple[str, str],
    path: str = REFUND,
    body: bytes | None = None,
    door: int = 0,
) -> tuple[str, dict[str, Any], bytes]:
    """Call without permit; return the answer, the trailers and the reply."""
    metadata = ((DEV_IDENTITY, AGENT), (TASK_ID, "task_789"), *pairs)
    body = refund(order).SerializeToString() if body is None else body
    rpc = rig.channel(rig.sidecars[door].port).unary_unary(path)(body, metadata=metadata)
    rig.made += 1
    try:
        reply = await rpc
    except aio.AioRpcError as error:
        return answer_of(error), dict(error.trailing_metadata() or ()), b""
    return "passed", dict(await rpc.trailing_metadata()), reply


def told(trailers: dict[str, Any]) -> dict[str, str]:
    """What a refusal says beside its reason."""
    info = error_details_pb2.ErrorInfo()
    status_pb2.Status.FromString(trailers["grpc-status-details-bin"]).details[0].Unpack(info)
    return dict(info.metadata)


async def test_the_decider_is_asked_with_the_exact_bytes_and_the_authenticated_caller(rig: Rig) -> None:
    asked, order = Asked(rig, allow(rig)), rig.order()
    await rig.mark()
    answer, trailers, _ = await call(rig, order, (CALL_ID, f"step-{order}"))
    assert (answer, trailers[CALL_ID], rig.refunded(order)) == ("passed", f"step-{order}", AMOUNT)
    request = asked.requests[0]
    assert request.request == refund(order).SerializeToString()
    assert (request.method, request.on_behalf_of, request.audience) == (REFUND, AGENT, rig.mint.audience)
    assert (request.task_id, request.call_id) == ("task_789", f"step-{order}")
    assert asked.identities == ["spiffe://licet.local/dev/sidecar/finance"]
    events = await rig.door_events()
    assert [(event.kind, event.call_id) for event in events] == [("door.passed", f"step-{order}")]


async def test_the_same_step_again_has_no_second_effect(rig: Rig) -> None:
    Asked(rig, allow(rig))
    order, other = rig.order(), rig.order()
    assert (await call(rig, order, (CALL_ID, f"step-{order}")))[0] == "passed"
    assert (await call(rig, other, (CALL_ID, f"step-{order}")))[0] == "SPENT"
    assert rig.refunded(other) == 0


async def test_without_an_id_each_request_is_a_step_and_says_which(rig: Rig) -> None:
    asked = Asked(rig, allow(rig))
    orders = (rig.order(), rig.order())
    ids = [(await call(rig, order))[1][CALL_ID] for order in orders]
    assert len(set(ids)) == 2
    assert [request.call_id for request in asked.requests] == ids
    assert [rig.refunded(order) for order in orders] == [AMOUNT, AMOUNT]


@pytest.mark.parametrize(
    "lines",
    [
        (b"",),
        (b"caf\xc3\xa9",),
        (b"\xff",),
        (b"a b",),
        (b"a\rb",),
        (b"a\0b",),
        (b"x" * 129,),
        (b"one", b"two"),
        (b"one", b"one"),
    ],
    ids=["empty", "not ASCII", "not UTF-8", "a space", "a return", "a zero", "too long", "two", "one twice"],
)
async def test_a_step_that_is_not_named_by_one_plain_id_is_not_asked_for(
    rig: Rig, lines: tuple[bytes, ...]
) -> None:
    """Its reply could not come back: the id goes into the trailers, and such a trailer ends the call."""
    asked, order = Asked(rig, allow(rig)), rig.order()
    await rig.mark()
    rig.made += 1
    wire = await http2.Wire.open(rig.sidecars[0].port)
    pairs = ((DEV_IDENTITY, AGENT), (TASK_ID, "task_789"), *((CALL_ID, line) for line in lines))
    stream = await wire.call(REFUND, refund(order).SerializeToString(), *pairs)
    assert await wire.closed(stream)
    await wire.close()
    assert [event.reason for event in await rig.door_events(1, within_s=60)] == ["CALL_ID_INVALID"]
    assert (asked.requests, rig.refunded(order)) == ([], 0)
    await rig.mark()
    longest = f"{order}-{'x' * 128}"[:128]
    assert (await call(rig, order, (CALL_ID, longest)))[:1] == ("passed",)
    assert len(await rig.door_events(1, within_s=60)) == 1
    assert (len(asked.requests), rig.refunded(order)) == (1, AMOUNT)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"caller": OTHER_AGENT}, "CALLER_MISMATCH"),
        ({"environment": "staging"}, "ENVIRONMENT_MISMATCH"),
        ({"audience": "spiffe://licet.local/dev/tool/other"}, "AUDIENCE_MISMATCH"),
        ({"call_digest": b"d" * 32}, "DIGEST_MISMATCH"),
        ({"decision": decision_pb2.DECISION_TYPE_DENY}, "DECISION_INVALID"),
    ],
)
async def test_what_comes_back_is_checked_like_what_is_presented(rig: Rig, changes: Any, reason: str) -> None:
    order, calls = rig.order(), rig.calls()
    Asked(rig, allow(rig, **changes))
    assert (await call(rig, order))[0] == reason
    assert (rig.calls(), rig.refunded(order)) == (calls, 0)
    Asked(rig, allow(rig))
    assert (await call(rig, order))[0] == "passed"


async def test_a_denial_says_what_is_safe_and_no_more(rig: Rig) -> None:
    denied = decider_pb2.DecideResponse(
        decision=decision_pb2.DECISION_TYPE_DENY,
        refusal=decider_pb2.Refusal(
            reason="POLICY_DENIED",
            safe_reason="this order cannot be refunded",
            escalate_to="refunds",
            decision_id="d1",
        ),
    )
    Asked(rig, lambda _: denied)
    order = rig.order()
    await rig.mark()
    answer, trailers, _ = await call(rig, order)
    assert answer == "POLICY_DENIED"
    assert told(trailers) == {
        "safeReason": "this order cannot be refunded",
        "escalateTo": "refunds",
        "decisionId": "d1",
    }
    assert [event.reason for event in await rig.door_events()] == ["POLICY_DENIED"]
    assert rig.refunded(order) == 0


async def test_a_signed_denial_that_says_allow_lets_nothing_through(rig: Rig) -> None:
    order = rig.order()

    def answer(request: Any) -> Any:
        lawful = allow(rig)(request)
        denial = rig.mint.key("decider").sign(PayloadType.DECISION, lawful.signed.payload)
        lawful.signed.CopyFrom(denial)
        return lawful

    Asked(rig, answer)
    assert (await call(rig, order))[0] == "SIGNATURE_INVALID"
    assert rig.refunded(order) == 0


async def test_a_narrowed_request_comes_back_to_be_sent_and_is_not_sent_for_the_caller(rig: Rig) -> None:
    order, calls = rig.order(), rig.calls()
    narrowed = refund(order, minor=4_000).SerializeToString()
    Asked(
        rig,
        lambda _: decider_pb2.DecideResponse(
            decision=decision_pb2.DECISION_TYPE_MODIFY, effective_request=narrowed
        ),
    )
    answer, trailers, _ = await call(rig, order)
    assert (answer, trailers["licet-effective-request-bin"]) == ("MODIFIED", narrowed)
    assert (rig.calls(), rig.refunded(order)) == (calls, 0)


async def test_a_hold_names_itself(rig: Rig) -> None:
    held = decider_pb2.DecideResponse(
        decision=decision_pb2.DECISION_TYPE_HOLD, hold=hold_pb2.Hold(hold_id="h" * 32)
    )
    Asked(rig, lambda _: held)
    answer, trailers, _ = await call(rig, rig.order())
    assert (answer, told(trailers)["holdId"]) == ("HELD", "h" * 32)


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL, grpc.StatusCode.OK])
async def test_a_decider_that_fails_denies(rig: Rig, code: grpc.StatusCode) -> None:
    empty = decider_pb2.DecideResponse()
    Asked(rig, lambda _: empty if code is grpc.StatusCode.OK else code)
    order, calls = rig.order(), rig.calls()
    answer, _, _ = await call(rig, order)
    assert answer == ("DECISION_INVALID" if code is grpc.StatusCode.OK else "EVALUATION_FAILED")
    assert (rig.calls(), rig.refunded(order)) == (calls, 0)


async def test_the_request_to_the_decider_is_a_span_between_the_doors_and_the_deciders(
    rig: Rig, tmp_path: Path
) -> None:
    """Without it a slow or silent decider looks like a slow door."""
    store = TraceStore(tmp_path / "traces.db")
    receiver = OtlpReceiver(store)
    receiver.start()
    sidecar = await rig.add_sidecar(otlp_endpoint=receiver.endpoint)
    denied = decider_pb2.DecideResponse(
        decision=decision_pb2.DECISION_TYPE_DENY, refusal=decider_pb2.Refusal(reason="POLICY_DENIED")
    )
    told_to: list[TraceContext | None] = []

    class Traced(Asked):
        async def __call__(self, request: Any, context: Any) -> Any:
            told_to.append(extract(tuple(context.invocation_metadata())))
            return await super().__call__(request, context)

    said = {"passed": allow(rig), "POLICY_DENIED": lambda _: denied}
    said["EVALUATION_FAILED"] = lambda _: grpc.StatusCode.UNAVAILABLE
    said["DECISION_INVALID"] = lambda _: decider_pb2.DecideResponse()
    try:
        for number, (answer, given) in enumerate(said.items()):
            Traced(rig, given)
            pairs = inject(TraceContext(f"{number + 1:032x}", "5" * 16))
            assert (await call(rig, rig.order(), *pairs, door=-1))[0] == answer
    finally:
        rig.sidecars.remove(sidecar)
        await sidecar.stop()
        receiver.stop()
    ended = {
        "passed": ("OK", ""),
        "POLICY_DENIED": ("OK", ""),
        "DECISION_INVALID": ("OK", "DECISION_INVALID"),
    }
    ended["EVALUATION_FAILED"] = ("UNAVAILABLE", "EVALUATION_FAILED")
    for number, (answer, context) in enumerate(zip(said, told_to, strict=True)):
        spans = store.trace(f"{number + 1:032x}")
        (asked,) = (one for one in spans if one.name == telemetry.SPAN_DECIDE)
        (door,) = (one for one in spans if one.name == REFUND[1:] and one.kind == "server")
        assert context is not None
        assert (asked.kind, asked.span_id, asked.parent_id) == ("client", context.span_id, door.span_id)
        assert asked.attributes[telemetry.SERVER_PORT] == rig.decider_port
        assert (asked.attributes[telemetry.RPC_RESPONSE_STATUS_CODE], asked.error) == ended[answer]
        assert asked.attributes.get(telemetry.REASON, "passed") == answer
        assert door.error == "", "the door itself failed in nothing"
    store.close()


async def test_a_method_the_catalog_does_not_name_is_not_asked_for(rig: Rig) -> None:
    asked = Asked(rig, allow(rig))
    assert (await call(rig, "O1", path=GET_ORDER, body=b"\n\x02O1"))[0] == "NO_PERMIT"
    assert asked.requests == []


async def test_masked_fields_do_not_leave(rig: Rig) -> None:
    body = b"\n\x02O1"
    mask = decision_pb2.Obligation(id="mask_reply", paths=["tenant", "amount_minor"])
    plain, masked = rig.mint.permit(GET_ORDER, body), rig.mint.permit(GET_ORDER, body, obligations=[mask])
    replies = []
    for permit in (plain, masked):
        answer, _, reply = await call(rig, "O1", (PERMIT, permit), path=GET_ORDER, body=body)  # type: ignore[arg-type]
        assert answer == "passed"
        replies.append(finance_pb2.GetOrderResponse.FromString(reply))
    assert (replies[0].tenant, replies[0].amount_minor) == ("t1", AMOUNT)
    assert (replies[1].tenant, replies[1].amount_minor, replies[1].order_id) == ("", 0, "O1")


async def test_a_masked_methods_error_says_nothing_but_its_status(rig: Rig) -> None:
    body = b"\n\x05ORDER"
    mask = decision_pb2.Obligation(id="mask_reply", paths=["tenant"])
    for obligations, says in (((), "no order `ORDER`"), ((mask,), "")):
        permit = rig.mint.permit(GET_ORDER, body, obligations=obligations)
        with pytest.raises(aio.AioRpcError) as caught:
            await rig.channel(rig.sidecars[0].port).unary_unary(GET_ORDER)(
                body, metadata=((DEV_IDENTITY, AGENT), (PERMIT, permit))
            )
        rig.made += 1
        assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.NOT_FOUND, says)


async def test_a_mask_that_cannot_be_applied_shows_nothing(rig: Rig) -> None:
    body = b"\n\x02O1"
    mask = decision_pb2.Obligation(id="mask_reply", paths=["no_such_field"])
    permit = rig.mint.permit(GET_ORDER, body, obligations=[mask])
    assert (await call(rig, "O1", (PERMIT, permit), path=GET_ORDER, body=body))[0] == "OUTCOME_UNKNOWN"  # type: ignore[arg-type]


async def test_an_obligation_nobody_knows_refuses(rig: Rig) -> None:
    order = rig.order()
    unknown = decision_pb2.Obligation(id="sing_a_song")
    permit = rig.permit(refund(order), obligations=[unknown])
    assert await rig.call(permit, body=refund(order).SerializeToString()) == "OBLIGATION_UNKNOWN"
    assert await rig.call(rig.permit(refund(order)), body=refund(order).SerializeToString()) == "passed"


async def test_every_call_left_exactly_one_door_event(rig: Rig) -> None:
    assert await rig.all_door_events(rig.made) == rig.made
