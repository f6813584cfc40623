"""What stands around the sidecar in the benchmark, each a process of its own: the tool, the yardstick.

`python bench/enforcing/processes.py tool|proxy|collector|profiled ...`
"""

import asyncio
import cProfile
import signal
import sys
import time
from pathlib import Path
from typing import Any

import grpc
import nacl.signing
from grpc import aio
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc


class Echo(grpc.GenericRpcHandler):
    """A tool that answers at once, with its guard's word."""

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        if details.method.startswith("/licet.v1."):
            return None
        return grpc.unary_unary_rpc_method_handler(self.answer)

    async def answer(self, body: bytes, context: Any) -> bytes:
        context.set_trailing_metadata((("licet-effect", "executed"),))
        return body


async def serve_tool(socket: str) -> None:
    server = aio.server()
    server.add_generic_rpc_handlers((Echo(),))
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    await server.wait_for_termination()


class Proxy(grpc.GenericRpcHandler):
    """The yardstick: verifies one Ed25519 signature over the permit, forwards the caller's bytes."""

    def __init__(self, channel: aio.Channel, key: bytes) -> None:
        self._channel = channel
        self._key = nacl.signing.VerifyKey(key)
        self._methods: dict[str, Any] = {}

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        path = details.method

        async def forward(body: bytes, context: Any) -> bytes:
            permit = next(value for key, value in context.invocation_metadata() if key == "licet-permit-bin")
            self._key.verify(permit[:-64], permit[-64:])
            method = self._methods.get(path)
            if method is None:
                method = self._methods[path] = self._channel.unary_unary(path)
            return bytes(await method(body, metadata=(("licet-permit-bin", permit),)))

        return grpc.unary_unary_rpc_method_handler(forward)


def listen(server: aio.Server, tls: list[str]) -> int:
    if not tls:
        return int(server.add_insecure_port("127.0.0.1:0"))
    certificate, private, authority = (Path(part).read_bytes() for part in tls)
    credentials = grpc.ssl_server_credentials([(private, certificate)], authority, require_client_auth=True)
    return int(server.add_secure_port("127.0.0.1:0", credentials))


async def serve_proxy(socket: str, port_file: str, key: str, tls: list[str]) -> None:
    server = aio.server()
    server.add_generic_rpc_handlers((Proxy(aio.insecure_channel(f"unix:{socket}"), bytes.fromhex(key)),))
    port = listen(server, tls)
    await server.start()
    await asyncio.to_thread(Path(port_file).write_text, str(port))
    await server.wait_for_termination()


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Takes spans and forgets them."""

    async def Export(self, _request: Any, _context: Any) -> Any:  # noqa: N802 - as the service spells it
        return trace_service_pb2.ExportTraceServiceResponse()


async def serve_collector(port_file: str) -> None:
    server = aio.server()
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Collector(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    await asyncio.to_thread(Path(port_file).write_text, str(port))
    await server.wait_for_termination()


def profiled(target: str) -> None:
    """Run the sidecar; between SIGUSR1 and SIGUSR2 its main thread is profiled by CPU time, into `target`."""
    from sidecar.cli import app

    profile = cProfile.Profile(time.thread_time)

    def end(*_: Any) -> None:
        profile.disable()
        profile.dump_stats(f"{target}.partial")
        Path(f"{target}.partial").rename(target)

    signal.signal(signal.SIGUSR1, lambda *_: profile.enable())
    signal.signal(signal.SIGUSR2, end)
    app(["serve"])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["tool", socket]:
            import uvloop

            uvloop.run(serve_tool(socket))
        case ["proxy", socket, port_file, key, *tls]:
            import uvloop

            uvloop.run(serve_proxy(socket, port_file, key, tls))
        case ["collector", port_file]:
            asyncio.run(serve_collector(port_file))
        case ["profiled", target]:
            profiled(target)
