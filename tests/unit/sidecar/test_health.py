import asyncio
import json

import pytest

from sidecar.entrance.health import HealthServer


async def get(port: int, raw: bytes) -> tuple[bytes, dict[str, object]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(raw)
    await writer.drain()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.split(b"\r\n")[0], json.loads(body) if body else {}


@pytest.mark.asyncio
async def test_readiness_names_each_subsystem_and_why_not() -> None:
    reasons = {"keys": "", "beacon": "no beacon yet"}
    server = HealthServer(lambda: reasons)
    port = await server.start("127.0.0.1", 0)
    head, body = await get(port, b"GET /ready HTTP/1.1\r\n\r\n")
    assert (head, body["ready"]) == (b"HTTP/1.1 503 Service Unavailable", False)
    assert body["subsystems"] == {"keys": "ok", "beacon": "no beacon yet"}
    reasons["beacon"] = ""
    head, body = await get(port, b"GET /ready HTTP/1.1\r\n\r\n")
    assert (head, body["ready"]) == (b"HTTP/1.1 200 OK", True)
    await server.stop()


@pytest.mark.asyncio
async def test_liveness_does_not_depend_on_readiness() -> None:
    server = HealthServer(lambda: {"keys": "none"})
    port = await server.start("127.0.0.1", 0)
    assert (await get(port, b"GET /live HTTP/1.1\r\n\r\n"))[0] == b"HTTP/1.1 200 OK"
    assert (await get(port, b"GET /live/ HTTP/1.1\r\n\r\n"))[0] == b"HTTP/1.1 404 Not Found"
    await server.stop()


@pytest.mark.asyncio
async def test_a_probe_that_sends_too_much_gets_no_answer() -> None:
    server = HealthServer(dict)
    port = await server.start("127.0.0.1", 0)
    assert (await get(port, b"GET /live HTTP/1.1\r\nx: " + b"a" * 10_000))[0] == b""
    await server.stop()


@pytest.mark.asyncio
async def test_silent_connections_leave_descriptors_for_calls_and_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sidecar.entrance.health.MAX_PROBES", 2)
    server = HealthServer(dict)
    port = await server.start("127.0.0.1", 0)
    silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
    reads = await asyncio.gather(*(reader.read() for reader, _ in silent))  # each is closed by the door
    assert reads == [b""] * 4
    head, _ = await get(port, b"GET /live HTTP/1.1\r\n\r\n")
    assert b"200" in head
    for _, writer in silent:
        writer.close()
    await server.stop()
