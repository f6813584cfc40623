"""The agent's side against a real decider and a door that says what doors say; sync and aio alike."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import grpc.aio
import pytest
import pytest_asyncio
from google.rpc import error_details_pb2, status_pb2

from examples.refund.fin.v1 import finance_pb2, finance_pb2_grpc
from licet.client import AsyncClient, Client, Denied, Held, OutcomeUnknown, Refused, Unavailable
from licet.client.settings import ClientSettings
from licet.metadata import DEV_IDENTITY, PERMIT
from licet.permit import verify_permit
from licet.refusal import DOMAIN, MESSAGE, Reason, Refusal
from licet.v1.decision_pb2 import Decision
from tests.worlds.decisions import REFUND_BOT, SUPPORT_BOT, House, order

pytestmark = pytest.mark.asyncio


class Door(finance_pb2_grpc.FinanceServicer):
    """Verifies the permit as a door does and then answers what the test wants."""

    def __init__(self, keys: Any) -> None:
        self.keys = keys
        self.permits: list[Decision] = []
        self.bodies: list[Any] = []
        self.refusals: list[tuple[Reason, dict[str, str]]] = []
        self.break_off = False

    async def IssueRefund(self, request: Any, context: Any) -> Any:  # noqa: N802 - the name of the RPC
        metadata = list(context.invocation_metadata())
        [permit] = [value for key, value in metadata if key == PERMIT]
        decision = verify_permit(permit, self.keys, now_ms=time.time_ns() // 1_000_000)
        assert not isinstance(decision, Refusal), decision
        assert [value for key, value in metadata if key == DEV_IDENTITY] == [decision.caller]
        self.permits.append(decision)
        self.bodies.append(request)
        if self.break_off:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "socket closed")
        if self.refusals:
            reason, told = self.refusals.pop(0)
            await abort(context, reason, told)
        return finance_pb2.IssueRefundResponse(refund_id="r1", order_id=request.order_id)

    async def GetOrder(self, request: Any, context: Any) -> Any:  # noqa: N802 - the name of the RPC
        await context.abort(grpc.StatusCode.NOT_FOUND, "no such order")

    async def SearchPolicy(self, request: Any, context: Any) -> Any:  # noqa: N802 - the name of the RPC
        found = ["30 days"] if request.query == "refunds" else []
        return finance_pb2.SearchPolicyResponse(passages=found)


async def abort(context: Any, reason: Reason, told: dict[str, str]) -> None:
    from grpc_status import rpc_status

    codes = {"UNAVAILABLE": 14, "FAILED_PRECONDITION": 9, "ALREADY_EXISTS": 6, "UNKNOWN": 2}
    from licet.refusal import STATUS

    status = status_pb2.Status(code=codes[STATUS[reason]], message=MESSAGE[reason])
    info = error_details_pb2.ErrorInfo(reason=reason.value, domain=DOMAIN, metadata=told)
    status.details.add().Pack(info)
    await context.abort_with_status(rpc_status.to_status(status))


@pytest_asyncio.fixture
async def door(house: House) -> AsyncIterator[Any]:
    servicer = Door(house.ground.keys)
    server = grpc.aio.server()
    finance_pb2_grpc.add_FinanceServicer_to_server(servicer, server)
    servicer.port = server.add_insecure_port("127.0.0.1:0")  # type: ignore[attr-defined]
    await server.start()
    yield servicer
    await server.stop(0)


def request(order_id: str = "O1", minor: int = 5000) -> Any:
    amount = finance_pb2.Amount(minor=minor, currency="USD")
    return finance_pb2.IssueRefundRequest(order_id=order_id, amount=amount)


Call = Callable[..., Any]


@pytest_asyncio.fixture(params=["sync", "aio"])
async def gated(request: pytest.FixtureRequest, house: House, door: Any) -> AsyncIterator[Call]:
    """Call a method of a gated stub, through either client, as `await gated("IssueRefund", request, …)`."""
    where: dict[str, Any] = {
        "decider": f"127.0.0.1:{house.process.port}",
        "tools": {"finance": f"127.0.0.1:{door.port}"},
        "identity": REFUND_BOT,
    }
    if request.param == "aio":
        async with AsyncClient(**where) as client:
            stub: Any = client.stub(finance_pb2_grpc.FinanceStub, task="task_789")

            async def call(name: str, *args: Any, **fields: Any) -> Any:
                return await getattr(stub, name)(*args, **fields)

            yield call
        return
    blocking = Client(**where)
    plain: Any = blocking.stub(finance_pb2_grpc.FinanceStub, task="task_789")

    async def call_in_thread(name: str, *args: Any, **fields: Any) -> Any:
        return await asyncio.to_thread(getattr(plain, name), *args, **fields)

    yield call_in_thread
    await asyncio.to_thread(blocking.close)


async def test_call_goes_through_with_a_permit_for_its_exact_bytes(gated: Call, door: Any) -> None:
    answer = await gated("IssueRefund", request(), call_id="s1")
    assert answer.refund_id == "r1"
    assert (door.permits[0].call_id, door.permits[0].resource) == ("s1", "order:O1")
    assert door.bodies == [request()]


async def test_denial_says_why_and_whom_to_ask_and_sends_nothing(gated: Call, door: Any) -> None:
    with pytest.raises(Denied) as denied:
        await gated("IssueRefund", request("O3"), call_id="s1")
    assert denied.value.reason == "POLICY_DENIED"
    assert denied.value.safe_reason == "this order's terms do not allow a refund"
    assert denied.value.escalate_to == "refund-exceptions@example.com"
    assert len(denied.value.decision_id) == 32
    assert not door.permits


@pytest.mark.parametrize("fields", [{}, {"call_id": ""}, {"call_id": "a b"}, {"call_id": 7}])
async def test_step_without_a_usable_call_id_is_a_clear_error_before_anything_is_sent(
    gated: Call, door: Any, fields: dict[str, Any]
) -> None:
    with pytest.raises((TypeError, ValueError), match="call_id"):
        await gated("IssueRefund", request(), **fields)
    assert not door.permits


async def test_searches_that_find_nothing_in_a_row_are_stopped(gated: Call, house: House) -> None:
    """Only the client sees answers: it counts the empty ones, and can only stop itself by that."""
    manifest = house.ground.policy / "bundle.yaml"
    manifest.write_text(manifest.read_text().replace("version: 1", "version: 2") + "loops: {empty: 2}\n")
    await house.ground.activate()
    deadline = time.monotonic() + 60
    while house.permit(await house.decide()).bundle_version != 2:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)

    async def search(number: int, query: str) -> Any:
        return await gated("SearchPolicy", finance_pb2.SearchPolicyRequest(query=query), call_id=f"s{number}")

    for number, query in enumerate(("a", "refunds", "b", "c")):  # one that finds something begins anew
        await search(number, query)
    with pytest.raises(Denied) as denied:
        await search(9, "d")
    assert denied.value.reason == "LOOP_BROKEN"


async def test_superseded_bundle_is_decided_again_under_the_same_step(gated: Call, door: Any) -> None:
    door.refusals = [(Reason.BUNDLE_SUPERSEDED, {}), (Reason.BEACON_BEHIND, {})]
    await gated("IssueRefund", request(), call_id="s1")
    assert len({permit.decision_id for permit in door.permits}) == 3
    assert len({permit.spend_id for permit in door.permits}) == 1


@pytest.mark.parametrize(
    ("reason", "told", "outcome"),
    [
        (Reason.SPENT, {"outcome": "EXECUTED"}, "EXECUTED"),
        (Reason.SPENT, {}, "NONE"),
        (Reason.PRECONDITION_FAILED, {}, ""),
        (Reason.STORE_UNAVAILABLE, {}, ""),
    ],
)
async def test_doors_refusal_is_typed_and_not_retried(
    gated: Call, door: Any, reason: Reason, told: dict[str, str], outcome: str
) -> None:
    door.refusals = [(reason, told)]
    with pytest.raises(Refused) as refused:
        await gated("IssueRefund", request(), call_id="s1")
    assert (refused.value.reason, refused.value.outcome) == (reason, outcome)
    assert len(door.permits) == 1


async def test_unknown_outcome_and_broken_connection_are_no_failure(gated: Call, door: Any) -> None:
    door.refusals = [(Reason.OUTCOME_UNKNOWN, {})]
    with pytest.raises(OutcomeUnknown):
        await gated("IssueRefund", request(), call_id="s1")
    door.break_off = True
    with pytest.raises(OutcomeUnknown):
        await gated("IssueRefund", request(), call_id="s1")
    assert len(door.permits) == 2


async def test_tools_own_error_stays_the_tools_own(gated: Call) -> None:
    with pytest.raises(grpc.RpcError) as error:
        await gated("GetOrder", finance_pb2.GetOrderRequest(order_id="O9"), call_id="s1")
    assert error.value.code() is grpc.StatusCode.NOT_FOUND  # type: ignore[attr-defined]


async def test_no_decision_is_unavailable_and_sends_nothing(gated: Call, door: Any, house: House) -> None:
    await house.finance.server.stop(0)
    with pytest.raises(Unavailable) as error:
        await gated("IssueRefund", request(), call_id="s1", timeout=3)
    assert error.value.reason == "FACTS_UNAVAILABLE"
    assert error.value.escalate_to == "finance-desk@example.com"
    assert not door.permits


async def test_hold_is_an_exception_that_can_be_waited_for(gated: Call, door: Any, house: House) -> None:
    policy = house.ground.policy
    hold = (
        '@id("large") @hold("finance-lead:2") forbid (principal, action == Action::"refund", resource)'
        " when { context.amount_minor > 10000 };\n"
    )
    (policy / "rules.cedar").write_text((policy / "rules.cedar").read_text() + hold)
    (policy / "bundle.yaml").write_text('version: 2\nescalate_to: "x"\n')
    await house.ground.activate()
    house.finance.orders["O1"] = order(amount_minor=50_000)
    await asyncio.sleep(1.5)
    with pytest.raises(Held) as held:
        await gated("IssueRefund", request(minor=20_000), call_id="s1")
    assert held.value.requirements == (("large", "finance-lead", 2),)
    assert held.value.text == "Refund 200.00 USD for order O1"
    assert held.value.escalate_to == "2 × finance-lead"
    assert not door.permits
    with pytest.raises(TimeoutError):
        await waited(held.value)


async def waited(hold: Held) -> None:
    result = await asyncio.to_thread(hold.wait, 0.1)
    if asyncio.iscoroutine(result):
        await result


async def test_model_is_shown_what_some_rule_could_allow_and_hiding_is_no_boundary(
    house: House, door: Any
) -> None:
    where: dict[str, Any] = {
        "decider": f"127.0.0.1:{house.process.port}",
        "tools": {"finance": f"127.0.0.1:{door.port}"},
        "identity": SUPPORT_BOT,
    }
    shown = {"/fin.v1.Finance/GetOrder", "/fin.v1.Finance/SearchPolicy"}
    async with AsyncClient(**where) as client:
        assert await client.visible_tools("task_790") == shown
        with pytest.raises(Refused, match="TASK_UNKNOWN"):
            await client.visible_tools("task_789")
        stub: Any = client.stub(finance_pb2_grpc.FinanceStub, task="task_790")
        with pytest.raises(Denied):
            await stub.IssueRefund(request(), call_id="a-cached-list")
    with Client(**where | {"identity": REFUND_BOT}) as blocking:
        listed = await asyncio.to_thread(blocking.visible_tools, "task_789")
    assert listed == shown | {"/fin.v1.Finance/IssueRefund"}


async def test_client_without_an_identity_hears_so_at_once(house: House, door: Any) -> None:
    where = {"decider": f"127.0.0.1:{house.process.port}", "tools": {"finance": f"127.0.0.1:{door.port}"}}
    async with AsyncClient(**where) as client:  # type: ignore[arg-type]
        stub: Any = client.stub(finance_pb2_grpc.FinanceStub, task="task_789")
        with pytest.raises(Refused, match="CALLER_UNKNOWN"):
            await stub.IssueRefund(request(), call_id="s1")
    assert not door.permits


async def test_settings_name_every_bad_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LICET_DECIDER", "127.0.0.1:1")
    monkeypatch.setenv("LICET_TOOLS", "finance")
    with pytest.raises(ValueError, match="tool=host:port"):
        ClientSettings()
    monkeypatch.setenv("LICET_TOOLS", "finance=127.0.0.1:2")
    with pytest.raises(ValueError, match="LICET_IDENTITY"):
        ClientSettings()
    monkeypatch.setenv("LICET_IDENTITY", REFUND_BOT)
    assert ClientSettings().tools == {"finance": "127.0.0.1:2"}
    client = Client.from_env()
    with pytest.raises(ValueError, match="known: finance"):
        client.stub(finance_pb2_grpc.FinanceStub, task="t", tool="crm")
    client.close()
