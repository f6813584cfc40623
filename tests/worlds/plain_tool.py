"""A tool without a guard, as a process: any method, over its Unix socket; it counts calls itself.

`python -m tests.worlds.plain_tool`, settings from the environment as the example's. A body is JSON, or the
query of `fin.v1.SearchPolicy`; its words say what is done: `parts=N` streams N parts, `size=N` fills each
with N bytes, `hold=PATH` waits until a file is there after the first part, `code=N` ends with that status.
Everything else is answered with itself.
"""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
from grpc import aio

SEARCH = "/fin.v1.Finance/SearchPolicy"
_CODES = {code.value[0]: code for code in grpc.StatusCode}


def _word(body: bytes, name: str) -> str:
    found = re.search(rb"%s=([^ \"]+)" % name.encode(), body)
    return found[1].decode() if found else ""


def _is_there(path: str) -> bool:
    return Path(path).exists()


class Plain(grpc.GenericRpcHandler):
    def __init__(self, calls: Path) -> None:
        self._calls = os.open(calls, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        path: Any = handler_call_details.method
        if path.startswith("/licet."):
            return None  # no guard
        if path == SEARCH:
            return grpc.unary_stream_rpc_method_handler(self._stream)
        return grpc.unary_unary_rpc_method_handler(self._answer)

    def _note(self, body: bytes) -> None:
        os.write(self._calls, body.hex().encode() + b"\n")

    async def _answer(self, body: bytes, context: Any) -> bytes:
        self._note(body)
        return body

    async def _stream(self, body: bytes, context: Any) -> AsyncIterator[bytes]:
        self._note(body)
        for number in range(int(_word(body, "parts") or 1)):
            yield b"part-%d" % number + b"." * int(_word(body, "size") or 0)
            gate = _word(body, "hold")
            while gate and not number and not _is_there(gate):  # noqa: ASYNC110 # a test's signal is a file
                await asyncio.sleep(0.02)
        code = _CODES[int(_word(body, "code") or 0)]
        if code is not grpc.StatusCode.OK:
            context.set_code(code)
            context.set_details("as told")
        self._note(b"end")


async def _main() -> None:
    server = aio.server(options=(("grpc.max_send_message_length", -1),))
    server.add_generic_rpc_handlers((Plain(Path(os.environ["LICET_TOOL_CALLS_FILE"])),))
    server.add_insecure_port(f"unix:{os.environ['LICET_TOOL_SOCKET']}")
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    sys.exit(asyncio.run(_main()))
