"""A ClickHouse-HTTP front over the embedded engine: one client path, embedded and in production.

Guarantees: clickhouse-connect (sync and async) runs unmodified; a password is always demanded, except for
`/ping`; it listens on loopback only; an insert is one statement over the whole body, so a client that dies
midway inserts nothing; errors carry ClickHouse's code. Does not offer: TLS, sessions (`session_id` is
ignored), external tables, users beyond the one, progress headers. It is an SQL endpoint: whoever has the
password may do everything.

Limits: MAX_BODY bytes a request, before and after decompression; WORKERS statements at a time, the rest wait.
"""

import asyncio
import base64
import gzip
import hmac
import io
import ipaddress
import json
import logging
import signal
import uuid
import zlib
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import lz4.frame  # type: ignore[import-untyped] # ships none
from aiohttp import web
from backports import zstd

from audit.store.engine import Answer, Engine, EngineError, Statement, statement
from licet.log import log
from licet.port_file import tell_port

LOG: Final = logging.getLogger(__name__)
MAX_BODY: Final = 256 << 20
MAX_URL: Final = 64 << 10
"""Settings travel in the URL; a protobuf schema is one of them."""
MAX_QUERY_ID: Final = 128
WORKERS: Final = 8
COMPRESS_FROM: Final = 64 << 10
"""Answers from this many bytes are compressed when the client takes lz4; below, it costs more than it
saves."""
AUTHENTICATION_FAILED: Final = 516
TOO_LARGE: Final = 307
NOT_IMPLEMENTED: Final = 48
HTTP_STATUS: Final = {
    62: 400,
    47: 404,
    60: 404,
    81: 404,
    497: 403,
    AUTHENTICATION_FAILED: 401,
    NOT_IMPLEMENTED: 501,
}
TRANSPORT: Final = frozenset(
    {
        "query",
        "database",
        "default_format",
        "user",
        "password",
        "buffer_size",
        "session_id",
        "session_timeout",
        "session_check",
        "query_id",
        "quota_key",
        "compress",
        "decompress",
        "wait_end_of_query",
        "role",
        "client_protocol_version",
        "stacktrace",
        "send_progress_in_http_headers",
        "http_headers_progress_interval_ms",
        "enable_http_compression",
        "cancel_http_readonly_queries_on_client_close",
    }
)
"""Parameters of the transport; every other one is a setting, or a `param_…`."""


@dataclass(frozen=True, slots=True)
class Account:
    """The one user of the front."""

    user: str
    password: str

    def demand(self, request: web.Request) -> None:
        """Raise EngineError unless the request shows user and password, by any of ClickHouse's three ways."""
        user, password = _credentials(request)
        # a header that is no UTF-8 comes with surrogates in it: just another wrong name
        same_user = hmac.compare_digest(_octets(user), _octets(self.user))
        if not (hmac.compare_digest(_octets(password), _octets(self.password)) and same_user):
            raise EngineError(f"Code: {AUTHENTICATION_FAILED}. authentication failed")


def _octets(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _credentials(request: web.Request) -> tuple[str, str]:
    if "X-ClickHouse-User" in request.headers:
        return request.headers["X-ClickHouse-User"], request.headers.get("X-ClickHouse-Key", "")
    scheme, _, value = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "basic":
        try:
            user, _, password = base64.b64decode(value, validate=True).decode().partition(":")
        except ValueError:
            return "", ""
        return user, password
    return request.query.get("user", ""), request.query.get("password", "")


def unpack(body: bytes, encoding: str) -> bytes:
    """Return `body` decompressed; raises EngineError for a body that is not `encoding`, or past MAX_BODY."""
    try:
        unpacked = _unpack(body, encoding)
    except (RuntimeError, OSError, EOFError, zlib.error, ValueError) as error:
        raise EngineError(f"Code: 354. cannot decompress the body as `{encoding}`: {error}") from error
    if len(unpacked) > MAX_BODY:
        raise EngineError(f"Code: {TOO_LARGE}. the body is over {MAX_BODY} bytes")
    return unpacked


def _unpack(body: bytes, encoding: str) -> bytes:
    if encoding in {"", "identity"}:
        return body
    if encoding == "gzip":
        with gzip.GzipFile(fileobj=io.BytesIO(body)) as file:
            return file.read(MAX_BODY + 1)  # raises EOFError for a part of a body
    decompressor: Any
    if encoding == "lz4":
        decompressor = lz4.frame.LZ4FrameDecompressor()
    elif encoding == "zstd":
        decompressor = zstd.ZstdDecompressor()
    elif encoding == "deflate":
        decompressor = zlib.decompressobj()
    else:
        raise EngineError(f"Code: {NOT_IMPLEMENTED}. no decompressor for `{encoding}`")
    unpacked = bytes(decompressor.decompress(body, MAX_BODY + 1))
    if not decompressor.eof and len(unpacked) <= MAX_BODY:
        raise EOFError("it is only a part")
    return unpacked


class Front:
    """The HTTP application over one engine."""

    def __init__(self, engine: Engine, account: Account) -> None:
        self._engine = engine
        self._account = account
        self._threads = ThreadPoolExecutor(WORKERS, thread_name_prefix="engine")
        self.application = web.Application(client_max_size=MAX_BODY)
        self.application.router.add_get("/ping", _ping)
        self.application.router.add_route("*", "/{path:(query)?}", self._serve)

    def close(self) -> None:
        """Wait for the statements that run, then give the threads back."""
        self._threads.shutdown(wait=True)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        query_id = request.query.get("query_id", "")
        if not (query_id.isascii() and query_id.isprintable() and 0 < len(query_id) <= MAX_QUERY_ID):
            query_id = str(uuid.uuid4())  # it goes back in a header
        try:
            self._account.demand(request)
            asked = await _read(request)
            if not asked.sql.strip():
                return web.Response(text="Ok.\n")
            if asked.streams and request.query.get("wait_end_of_query") != "1":
                return await self._stream(request, asked, query_id)
            loop = asyncio.get_running_loop()
            answer = await loop.run_in_executor(self._threads, self._engine.run, asked)
            return _response(request, answer, query_id)
        except EngineError as error:
            return _failure(error, query_id)

    async def _stream(self, request: web.Request, asked: Statement, query_id: str) -> web.StreamResponse:
        """Answer chunk by chunk; an error before the first is ordinary, a later one cuts the answer."""
        loop = asyncio.get_running_loop()
        chunks = self._engine.stream(asked)
        try:
            first = await loop.run_in_executor(self._threads, next, chunks, None)
            if first is None:  # no row: the plain way sends the header that names the columns
                return _response(
                    request, await loop.run_in_executor(self._threads, self._engine.run, asked), query_id
                )
            response = web.StreamResponse(headers=_headers(asked.format, query_id))
            await response.prepare(request)
            await response.write(first)
            await self._send(request, response, chunks)
            return response
        finally:
            await loop.run_in_executor(self._threads, _close, chunks)

    async def _send(
        self, request: web.Request, response: web.StreamResponse, chunks: Iterator[bytes]
    ) -> None:
        """Send what remains; an error cuts the connection, so that the client cannot take a part for all."""
        loop = asyncio.get_running_loop()
        try:
            while (chunk := await loop.run_in_executor(self._threads, next, chunks, None)) is not None:
                await response.write(chunk)
            await response.write_eof()
        except EngineError as error:
            log(LOG, logging.WARNING, "front.answer_cut", error=str(error))
            response.force_close()
            if request.transport is not None:
                request.transport.abort()


def _close(chunks: Iterator[bytes]) -> None:
    close = getattr(chunks, "close", None)
    if close is not None:
        close()


async def _ping(_: web.Request) -> web.Response:
    return web.Response(text="Ok.\n")


async def _read(request: web.Request) -> Statement:
    try:
        asked: dict[str, str] = {name: str(value) for name, value in request.query.items()}
        if request.content_type == "multipart/form-data":
            asked.update(await _form(request))
            body = b""
        else:
            body = unpack(await request.read(), request.headers.get("Content-Encoding", "").lower())
    except web.HTTPRequestEntityTooLarge as error:
        raise EngineError(f"Code: {TOO_LARGE}. the body is over {MAX_BODY} bytes") from error
    settings = {k: v for k, v in asked.items() if k not in TRANSPORT and not k.startswith("param_")}
    if request.method == "GET":
        settings["readonly"] = "2"  # as the server does: GET must change nothing; 2 leaves settings free
    return statement(
        asked.get("query", "").encode(),
        body,
        default_format=asked.get("default_format", "TabSeparated"),
        database=asked.get("database") or request.headers.get("X-ClickHouse-Database") or "",
        settings=settings,
        parameters={k[6:]: v for k, v in asked.items() if k.startswith("param_")},
    )


async def _form(request: web.Request) -> dict[str, str]:
    fields = {}
    for name, value in (await request.post()).items():
        if not isinstance(value, str):
            raise EngineError(f"Code: {NOT_IMPLEMENTED}. external tables are not offered")
        fields[name] = value
    return fields


def _headers(output: str, query_id: str) -> dict[str, str]:
    return {
        "Content-Type": "application/octet-stream" if output == "Native" else "text/plain; charset=UTF-8",
        "X-ClickHouse-Format": output,
        "X-ClickHouse-Query-Id": query_id,
        "X-ClickHouse-Server-Display-Name": "licet",
        "X-ClickHouse-Timezone": "UTC",
    }


def _response(request: web.Request, answer: Answer, query_id: str) -> web.Response:
    headers = _headers(answer.format, query_id)
    read = {"read_rows": str(answer.read_rows), "read_bytes": str(answer.read_bytes)}
    headers["X-ClickHouse-Summary"] = json.dumps({**read, "written_rows": str(answer.written_rows)})
    body = answer.body
    wanted = request.query.get("enable_http_compression") == "1" and len(body) >= COMPRESS_FROM
    if wanted and "lz4" in request.headers.get("Accept-Encoding", ""):
        headers["Content-Encoding"] = "lz4"
        body = lz4.frame.compress(body, store_size=False)
    return web.Response(body=body, headers=headers)


def _failure(error: EngineError, query_id: str) -> web.Response:
    headers = _headers("TabSeparated", query_id) | {"X-ClickHouse-Exception-Code": str(error.code)}
    return web.Response(text=f"{error}\n", status=HTTP_STATUS.get(error.code, 500), headers=headers)


@asynccontextmanager
async def serving(
    directory: Path, account: Account, host: str, port: int, backups: Path | None = None
) -> AsyncIterator[int]:
    """Serve `directory` on `host`:`port` (0: a free one) and yield the port; ValueError off loopback."""
    if not ipaddress.ip_address(host).is_loopback:
        raise ValueError(f"the front listens on loopback only, not on `{host}`")
    with Engine(directory, backups) as engine:
        front = Front(engine, account)
        runner = web.AppRunner(
            front.application,
            auto_decompress=False,
            max_line_size=MAX_URL,
            access_log=None,
            handler_cancellation=False,
            shutdown_timeout=10,
        )
        await runner.setup()
        try:
            site = web.TCPSite(runner, host, port)
            await site.start()
            yield int(runner.addresses[0][1])
        finally:
            await runner.cleanup()
            front.close()


async def serve(
    directory: Path,
    account: Account,
    host: str,
    port: int,
    port_file: Path | None,
    *,
    backups: Path | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; the port goes to `port_file`, complete or not at all."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with serving(directory, account, host, port, backups) as bound:
        tell_port(port_file, bound)
        log(LOG, logging.INFO, "front.listening", host=host, port=bound, directory=str(directory))
        await stop.wait()
