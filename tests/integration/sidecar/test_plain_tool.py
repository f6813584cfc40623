"""A tool without a guard behind a real door and a real store: streams to their end, and JSON arguments."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from grpc import aio

import sidecar.entrance.grpc_door
import sidecar.entrance.outlet
from examples.refund.fin.v1 import finance_pb2
from licet.catalog.mcp import mcp_path
from licet.metadata import DEV_IDENTITY, PERMIT
from licet.statement import PayloadType, canonical
from licet.v1 import catalog_pb2, decision_pb2, spend_pb2
from licet.v1.statement_pb2 import Signed
from tests.worlds import http2
from tests.worlds.mint import AGENT, OTHER_AGENT, SEARCH
from tests.worlds.rig import Rig, answer_of, well

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("sidecar_plain_tool")]

NOTE = mcp_path("finance", "note")
SCHEMA = (
    '{"type":"object","additionalProperties":false,"required":["order_id"],"properties":{'
    '"order_id":{"type":"string"},"lines":{"type":"integer"},"text":{"type":"string"}}}'
)
SPENDING = {"decide_on_call": False, "server_streaming": True, "spends": True, "no_effect_codes": [9]}


def with_json(rig: Rig) -> None:
    """Put a method with JSON arguments into the catalog, as its key would."""
    signed = Signed.FromString(rig.mint.catalog_file.read_bytes())
    catalog = catalog_pb2.Catalog.FromString(signed.payload)
    method = catalog_pb2.Method(
        path=NOTE,
        codec=decision_pb2.CODEC_JSON_MCP,
        json_schema=SCHEMA,
        tier=2,
        operation="note",
        resource="order:{order_id}",
        say="Note on order {order_id}",
    )
    catalog.entries.add(path=NOTE, current=canonical(method))
    again = rig.mint.key("catalog").sign(PayloadType.CATALOG, canonical(catalog))
    rig.mint.catalog_file.write_bytes(canonical(again))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path_factory.mktemp("rig"), tool="tests.worlds.plain_tool")
    rig.mint.write_catalog(SearchPolicy=SPENDING)
    with_json(rig)
    await rig.start()
    yield rig
    await rig.stop()


def ask(**words: object) -> bytes:
    query = " ".join(f"{name}={value}" for name, value in words.items())
    return finance_pb2.SearchPolicyRequest(query=query).SerializeToString()


LAZY = (("grpc.use_local_subchannel_pool", 1), ("grpc.http2.bdp_probe", 0))
"""A caller whose library takes no more for it than what HTTP/2 begins with."""


def opened(rig: Rig, body: bytes, *permits: bytes, lazy: bool = False) -> Any:
    rig.made += 1
    pairs = ((DEV_IDENTITY, AGENT), *((PERMIT, permit) for permit in permits))
    port = rig.sidecars[0].port
    channel = aio.insecure_channel(f"127.0.0.1:{port}", options=LAZY) if lazy else rig.channel(port)
    return channel.unary_stream(SEARCH)(body, metadata=pairs)


async def told(call: Any) -> tuple[list[bytes], str]:
    """Read a stream to its end; return its parts, and how it ended."""
    parts: list[bytes] = []
    try:
        while (part := await call.read()) is not aio.EOF:
            parts.append(part)
    except aio.AioRpcError as error:
        return parts, answer_of(error)
    return parts, "passed"


def spend_of(permit: bytes) -> str:
    return decision_pb2.Decision.FromString(Signed.FromString(permit).payload).spend_id


async def recorded(rig: Rig, permit: bytes, count: int) -> list[str]:
    """What the store has of a step: its records, and the outcome's name; waits until there are `count`."""
    found: list[str] = []
    for _ in range(600):
        records = await rig.spends(spend_of(permit))
        found = [
            spend_pb2.Outcome.Name(one.outcome.outcome) if one.HasField("outcome") else "reserve"
            for one in records
        ]
        if len(found) >= count:
            break
        await asyncio.sleep(0.1)
    return found


async def door_event(rig: Rig) -> tuple[str, str, str]:
    (event,) = await rig.door_events(1, within_s=60)
    return event.kind, event.reason, event.outcome


async def whole(rig: Rig, body: bytes, *permits: bytes) -> tuple[list[bytes], str]:
    """Make a call and wait for its event, so that it is not taken for the next one's."""
    await rig.mark()
    parts, end = await told(opened(rig, body, *permits))
    kind, reason, _ = await door_event(rig)
    assert (kind == "door.refused") is (end == reason != "")
    return parts, end


async def test_an_allowed_stream_comes_part_by_part_and_is_executed_once(rig: Rig) -> None:
    body, calls = ask(parts=3), rig.calls()
    permit = rig.mint.permit(SEARCH, body)
    await rig.mark()
    assert await told(opened(rig, body, permit)) == ([b"part-0", b"part-1", b"part-2"], "passed")
    assert await door_event(rig) == ("door.passed", "", "EXECUTED")
    assert await recorded(rig, permit, 2) == ["reserve", "OUTCOME_EXECUTED"]
    assert await whole(rig, body, permit) == ([], "SPENT")
    assert rig.calls() == calls + 2, "one call, and the tool's own line at its end"


async def test_a_denied_stream_has_no_part(rig: Rig) -> None:
    body, calls = ask(parts=3), rig.calls()
    permit = rig.mint.permit(SEARCH, body)
    for sent, permits, reason in (
        (body, (), "NO_PERMIT"),
        (ask(parts=4), (permit,), "DIGEST_MISMATCH"),
        (body, (permit, permit), "PERMIT_AMBIGUOUS"),
    ):
        assert await whole(rig, sent, *permits) == ([], reason)
    assert (rig.calls(), await recorded(rig, permit, 0)) == (calls, [])
    assert (await whole(rig, body, permit))[1] == "passed"


async def test_a_stream_that_its_tool_cuts_is_unknown(rig: Rig) -> None:
    body = ask(parts=2, hold=rig.directory / "never")
    permit = rig.mint.permit(SEARCH, body)
    await rig.mark()
    call = opened(rig, body, permit)
    assert await call.read() == b"part-0"
    await asyncio.to_thread(rig.kill_tool)
    parts, end = await told(call)
    assert (parts, end) == ([], "UNAVAILABLE")
    assert await door_event(rig) == ("door.passed", "", "UNKNOWN")
    assert await recorded(rig, permit, 1) == ["reserve"]
    await asyncio.to_thread(rig.start_tool)
    await rig.until(lambda: well(rig.sidecars[0]), within_s=60)
    assert await whole(rig, body, permit) == ([], "SPENT"), "nobody sends it again"


@pytest.mark.parametrize(("code", "outcome"), [(9, "OUTCOME_FAILED_NO_EFFECT"), (2, "")])
async def test_a_stream_that_ends_badly_is_what_its_code_proves(rig: Rig, code: int, outcome: str) -> None:
    body = ask(parts=1, code=code)
    permit = rig.mint.permit(SEARCH, body)
    await rig.mark()
    parts, end = await told(opened(rig, body, permit))
    assert (parts, end) == ([b"part-0"], {9: "FAILED_PRECONDITION", 2: "UNKNOWN"}[code])
    (event,) = await rig.door_events(1, within_s=60)
    assert event.outcome == (outcome.removeprefix("OUTCOME_") or "UNKNOWN")
    records = ["reserve", *([outcome] if outcome else [])]
    assert await recorded(rig, permit, len(records)) == records


async def test_a_caller_that_leaves_a_stream_does_not_cut_it(rig: Rig, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    body, calls = ask(parts=5, hold=gate), rig.calls()
    permit = rig.mint.permit(SEARCH, body)
    await rig.mark()
    call = opened(rig, body, permit)
    assert await call.read() == b"part-0"
    call.cancel()
    gate.touch()
    assert await door_event(rig) == ("door.passed", "", "EXECUTED")
    assert await recorded(rig, permit, 2) == ["reserve", "OUTCOME_EXECUTED"]
    assert rig.calls() == calls + 2


async def test_a_caller_that_does_not_read_holds_nothing_back_and_takes_no_part_for_the_whole(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sidecar.entrance.outlet, "READ_S", 0.3)
    body, calls = ask(parts=8, size=1 << 20), rig.calls()
    permit = rig.mint.permit(SEARCH, body)
    await rig.mark()
    call = opened(rig, body, permit, lazy=True)
    assert await door_event(rig) == ("door.passed", "", "EXECUTED")
    assert await recorded(rig, permit, 2) == ["reserve", "OUTCOME_EXECUTED"]
    assert rig.calls() == calls + 2
    parts, end = await told(call)
    assert (len(parts) < 8, end) == (True, "OUTCOME_UNKNOWN")
    monkeypatch.undo()  # a lawful caller on a busy machine has the time that it has
    whole_body = ask(parts=2, size=1 << 20)
    parts, end = await whole(rig, whole_body, rig.mint.permit(SEARCH, whole_body))
    assert ([len(part) for part in parts], end) == ([(1 << 20) + 6] * 2, "passed")


async def test_large_replies_that_a_caller_leaves_unread_are_bounded_for_it_alone(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sidecar.entrance.outlet, "MAX_UNREAD_BYTES", 1_000_000)
    large = b'{"order_id":"O1","text":"%s"}' % (b"x" * 500_000)
    lazy = aio.insecure_channel(f"127.0.0.1:{rig.sidecars[0].port}", options=LAZY)
    unread = []
    for _ in range(2):
        await rig.mark()
        rig.made += 1
        pairs = ((DEV_IDENTITY, AGENT), (PERMIT, rig.mint.permit(NOTE, large)))
        unread.append(lazy.unary_stream(NOTE)(large, metadata=pairs))
        assert await door_event(rig) == ("door.passed", "", "EXECUTED")
    assert await rig.call(rig.mint.permit(NOTE, large), body=large, path=NOTE) == "OUTCOME_UNKNOWN"
    other = rig.mint.permit(NOTE, large, caller=OTHER_AGENT)
    assert await rig.call(other, body=large, path=NOTE, identity=OTHER_AGENT) == "passed"
    assert await rig.call(rig.mint.permit(NOTE, ORDER), body=ORDER, path=NOTE) == "passed"
    await lazy.close()
    answer = ""
    for _ in range(600):  # until the server has seen that the connection is gone
        answer = await rig.call(rig.mint.permit(NOTE, large), body=large, path=NOTE)
        if answer == "passed":
            break
        await asyncio.sleep(0.1)
    assert answer == "passed"


async def test_half_a_message_and_silence_ends_by_the_doors_limit_without_a_spend(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sidecar.entrance.grpc_door, "BODY_TIMEOUT_S", 0.3)
    body, calls = ask(parts=1), rig.calls()
    permit = rig.mint.permit(SEARCH, body)
    assert await _half(rig, permit, body) == ("door.refused", "DEADLINE", "")
    assert (rig.calls(), await recorded(rig, permit, 0)) == (calls, [])
    assert (await whole(rig, body, permit))[1] == "passed"


async def test_half_a_message_and_silence_ends_by_the_callers_deadline(rig: Rig) -> None:
    body, calls = ask(parts=1), rig.calls()
    permit = rig.mint.permit(SEARCH, body)
    assert await _half(rig, permit, body, ("grpc-timeout", "300m")) == ("door.refused", "DEADLINE", "")
    assert (rig.calls(), await recorded(rig, permit, 0)) == (calls, [])
    assert (await whole(rig, body, permit))[1] == "passed"


async def _half(rig: Rig, permit: bytes, body: bytes, *more: tuple[str, str]) -> tuple[str, str, str]:
    await rig.mark()
    wire = await http2.Wire.open(rig.sidecars[0].port)
    stream = wire.next_stream()
    pairs = ((DEV_IDENTITY, AGENT), (PERMIT, http2.binary(permit)), *more)
    await wire.send(http2.frame(http2.HEADERS, http2.END_HEADERS, stream, http2.call_headers(SEARCH, *pairs)))
    await wire.send(http2.frame(http2.DATA, 0, stream, http2.message(body)[:-3]))
    rig.made += 1
    event = await door_event(rig)
    assert await wire.closed(stream)
    await wire.close()
    return event


# --- row 21: JSON that two readers read in two ways


ORDER = b'{"order_id":"O1","lines":1,"text":"late"}'
HOSTILE: Mapping[str, bytes] = {
    "duplicate key": b'{"order_id":"O2","order_id":"O1","lines":1,"text":"late"}',
    "duplicate key, escaped": b'{"order_id":"O1","order\\u005fid":"O1","lines":1,"text":"late"}',
    "NaN": b'{"order_id":"O1","lines":NaN,"text":"late"}',
    "Infinity": b'{"order_id":"O1","lines":Infinity,"text":"late"}',
    "2^53+1": b'{"order_id":"O1","lines":9007199254740993,"text":"late"}',
    "lone surrogate": b'{"order_id":"O1","lines":1,"text":"\\ud800"}',
    "-0": b'{"order_id":"O1","lines":-0,"text":"late"}',
    "batch": b"[%s,%s]" % (ORDER, ORDER),
    "byte order mark": b"\xef\xbb\xbf" + ORDER,
    "not UTF-8": ORDER.replace(b"late", b"\xff"),
    "two values": ORDER + ORDER,
}


@pytest.mark.negative(21)
@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
async def test_json_that_could_be_read_in_two_ways_is_refused(rig: Rig, body: bytes) -> None:
    calls = rig.calls()
    permit = rig.mint.permit(NOTE, ORDER)
    await rig.mark()
    answer = await rig.call(permit, body=body, path=NOTE)
    (event,) = await rig.door_events(1, within_s=60)
    assert (answer, event.kind, event.reason) == ("JSON_STRICT", "door.refused", "JSON_STRICT")
    assert (rig.calls(), await recorded(rig, permit, 0)) == (calls, [])
    twin = b'{ "text" : "l\\u0061te", "lines": 1, "order_id": "O1" }'
    await rig.mark()
    assert await rig.call(permit, body=twin, path=NOTE) == "passed"
    assert await door_event(rig) == ("door.passed", "", "EXECUTED")
    assert rig.calls() == calls + 1
    assert rig.calls_file.read_text().splitlines()[-1] == b'{"lines":1,"order_id":"O1","text":"late"}'.hex()


async def test_every_call_left_exactly_one_door_event(rig: Rig) -> None:
    assert await rig.all_door_events(rig.made) == rig.made
