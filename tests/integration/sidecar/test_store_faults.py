"""A store that loses what it said, or what it had, behind a real door: what caller, tool and ledger see."""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from licet.embedded.nats_accounts import SETUP
from licet.streams import EMBEDDED_SIZES, apply_streams, connect
from licet.v1 import decision_pb2
from licet.v1.statement_pb2 import Signed
from sidecar.process import Sidecar
from tests.worlds.mint import ENVIRONMENT, refund
from tests.worlds.nats import Proxy
from tests.worlds.rig import AMOUNT, Rig

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path_factory.mktemp("rig"))
    await rig.start(sidecars=0)
    yield rig
    await rig.stop()


def spend_of(permit: bytes) -> str:
    return decision_pb2.Decision.FromString(Signed.FromString(permit).payload).spend_id


async def ready(rig: Rig, sidecar: Sidecar) -> None:
    await rig.until(lambda: not any(sidecar.reasons().values()), lambda: str(sidecar.reasons()), 60)


@pytest.mark.negative(26)
@pytest.mark.chaos
async def test_a_reserve_whose_ack_was_lost_is_one_reserve_and_one_execution(rig: Rig) -> None:
    proxy = Proxy(rig.nats.port)
    await proxy.start()
    sidecar = await rig.add_sidecar(nats_url=proxy.url)
    order, calls = rig.order(), rig.calls()
    permit = rig.permit(refund(order))
    proxy.swallow = True
    call = asyncio.create_task(rig.call(permit, body=refund(order).SerializeToString(), timeout=60))
    ends = time.monotonic() + 60
    while not await rig.spends(spend_of(permit)):
        assert time.monotonic() < ends
        await asyncio.sleep(0.05)
    assert (rig.calls(), call.done()) == (calls, False), "stored, but the door does not know yet"
    proxy.swallow = False
    proxy.cut()
    assert await call == "passed"
    assert (rig.calls(), rig.refunded(order)) == (calls + 1, AMOUNT)
    records = [one.WhichOneof("record") for one in await rig.spends(spend_of(permit))]
    assert records.count("reserve") == 1
    events = await rig.door_events(1, within_s=60)
    assert [(event.kind, event.outcome) for event in events] == [("door.passed", "EXECUTED")]
    await rig.mark()
    assert await rig.call(permit, body=refund(order).SerializeToString()) == "SPENT"
    assert [event.reason for event in await rig.door_events(1, within_s=60)] == ["SPENT"]
    assert rig.calls() == calls + 1
    await ready(rig, sidecar)
    twin = rig.order()
    assert await rig.call(rig.permit(refund(twin)), body=refund(twin).SerializeToString()) == "passed"
    await sidecar.stop()
    rig.sidecars.clear()
    await proxy.stop()


async def wipe(rig: Rig) -> None:
    """Take every stream away, as a volume that was made anew would."""
    await asyncio.to_thread(rig.nats.stop)
    shutil.rmtree(rig.nats.directory / "store")
    await asyncio.to_thread(rig.nats.start)
    setup = await connect(rig.nats.settings(SETUP), "setup-again")
    await apply_streams(setup, ENVIRONMENT, sizes=EMBEDDED_SIZES)
    await setup.close()
    rig.forget()


async def settled(rig: Rig, permit: bytes, body: bytes, sidecar: Sidecar) -> str:
    """Call, again while no beacon looked at the store since it came back; each leaves one event."""
    ends = time.monotonic() + 60
    while True:
        await rig.mark()
        answer = await rig.call(permit, body=body, sidecar=sidecar)
        (event,) = await rig.door_events(1, within_s=60)
        expected = ("door.passed", "") if answer == "passed" else ("door.refused", answer)
        assert (event.kind, event.reason) == expected or event.outcome == "FAILED_NO_EFFECT"
        if answer != "STORE_UNAVAILABLE":
            return answer
        assert time.monotonic() < ends
        await asyncio.sleep(0.2)


@pytest.mark.negative(25)
@pytest.mark.chaos
async def test_a_wiped_spend_stream_spends_nothing_again(rig: Rig) -> None:
    knows = await rig.add_sidecar()
    order, calls = rig.order(), rig.calls()
    body, call_id = refund(order).SerializeToString(), f"call-{order}"
    permit = rig.permit(refund(order), call_id=call_id)
    assert await rig.call(permit, body=body) == "passed"
    await rig.door_events(1, within_s=60)
    await wipe(rig)
    await ready(rig, knows)
    assert await settled(rig, permit, body, knows) == "STORE_ROLLED_BACK"
    other = rig.order()
    again = await settled(rig, rig.permit(refund(other)), refund(other).SerializeToString(), knows)
    assert (again, rig.calls()) == ("STORE_ROLLED_BACK", calls + 1), "nothing is spent until people looked"
    # The last lock: a door that lost its memory too lets it through, and the ledger has the spend row.
    new = await rig.add_sidecar()
    late = rig.permit(refund(order), call_id=call_id, round=1)
    await rig.mark()
    assert await rig.call(late, body=body, sidecar=new) in {"passed", "SPENT"}
    await rig.door_events(1, within_s=60)
    assert rig.refunded(order) == AMOUNT
    twin = rig.order()
    assert (
        await rig.call(rig.permit(refund(twin)), body=refund(twin).SerializeToString(), sidecar=new)
        == "passed"
    )
    assert rig.refunded(twin) == AMOUNT
