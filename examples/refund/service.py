"""The finance tool as a process: `python -m examples.refund.service`, settings from the environment.

Gated (the default), it listens on a Unix socket only and refunds through the guard:

  LICET_TOOL_SOCKET      path of the socket; made with mode 0660, replaced when it is there
  LICET_TOOL_CALLS_FILE  one JSON line for each call that enters a handler, written before any work; optional
  REFUND_LEDGER          the SQLite file; tables, triggers and the first orders are made when missing
  LICET_ENVIRONMENT LICET_TRUST_DOMAIN LICET_TOOL   which tool of which environment it is (dev, licet.local,
  finance) LICET_CATALOG LICET_ROOT_KEY_FILE LICET_TOOL_KEY_FILE   signed catalog, root.pub, the tool's digest
  key LICET_GENERATION       of the stores that the tool's key was derived for (1) LICET_OTLP_ENDPOINT
  where its spans go; none: nowhere

Ungated (REFUND_UNGATED=1 or --ungated) it shows what a tool does without a gate: the same handlers on a
loopback port (LICET_LISTEN, 127.0.0.1:0; the port goes to LICET_PORT_FILE), no permit asked for. It says so
at every start, and refuses a ledger that has ever been guarded.
"""

import argparse
import json
import logging
import os
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import grpc
from google.protobuf.message import DecodeError

from examples.refund.fin.v1 import finance_pb2, finance_pb2_grpc
from examples.refund.orders import FIRST_ORDERS, UnknownOrder, open_book, read_order, refund, seed
from examples.refund.spans import ToolSpans
from examples.refund.ungated import LooseStep, require_unguarded
from licet import metadata, telemetry
from licet.guard import Anchor, Guard, GuardedMethod, Spend, SqliteLedger, serve
from licet.guard.ledger import LedgerUnavailable
from licet.identity import TRUST_DOMAIN_DEV, audience_of
from licet.keyfile import KeyFileError, read_public, read_secret, read_signed
from licet.log import configure_logging, log
from licet.tracing import configure
from licet.v1 import decision_pb2, statement_pb2

THREADS = 16
STOP_S = 3.0
MAX_SOCKET_BYTES = 107  # sun_path of Linux, less its end
REFUND = "/fin.v1.Finance/IssueRefund"
POLICY_TEXT = (
    "Refunds are paid only for orders whose refund_allowed is true.",
    "Never refund more than was paid for the order, and only in the order's own currency.",
    "When refund_allowed is false, hand the customer to refund-exceptions@example.com.",
)

_logger = logging.getLogger("refund")

Refunds = Callable[[finance_pb2.IssueRefundRequest, grpc.ServicerContext], finance_pb2.IssueRefundResponse]


class Finance(finance_pb2_grpc.FinanceServicer):
    """The handlers, with or without a gate: only how a refund is run differs."""

    def __init__(
        self, book: sqlite3.Connection, refunds: Refunds, calls: "CallsFile", spans: ToolSpans
    ) -> None:
        self._book, self._refunds, self._calls, self._spans = book, refunds, calls, spans
        self._reading = threading.Lock()

    def IssueRefund(  # noqa: N802 - the proto's name
        self, request: finance_pb2.IssueRefundRequest, context: grpc.ServicerContext
    ) -> finance_pb2.IssueRefundResponse:
        """Pay back."""
        self._calls.note("IssueRefund", context)
        try:
            return self._refunds(request, context)
        except UnknownOrder:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no order `{request.order_id}`")

    def GetOrder(  # noqa: N802 - the proto's name
        self, request: finance_pb2.GetOrderRequest, context: grpc.ServicerContext
    ) -> finance_pb2.GetOrderResponse:
        """Say how the order is now."""
        self._calls.note("GetOrder", context)
        try:
            with self._spans.call("GetOrder", context), self._reading:
                return read_order(self._book, request.order_id).response()
        except UnknownOrder:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no order `{request.order_id}`")

    def SearchPolicy(  # noqa: N802 - the proto's name
        self, request: finance_pb2.SearchPolicyRequest, context: grpc.ServicerContext
    ) -> finance_pb2.SearchPolicyResponse:
        """Find passages that hold any of the words; all of them when none does."""
        self._calls.note("SearchPolicy", context)
        with self._spans.call("SearchPolicy", context):
            words = request.query.lower().split()
            found = [text for text in POLICY_TEXT if any(word in text.lower() for word in words)]
            return finance_pb2.SearchPolicyResponse(passages=found or POLICY_TEXT)


class CallsFile:
    """The tool's own count of calls: one line each, before any work, whatever comes of it."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600) if path else -1

    def note(self, method: str, context: grpc.ServicerContext) -> None:
        """Write method, attempt and the spend id that the permit claims; nothing is verified here."""
        if self._file < 0:
            return
        sent = dict(context.invocation_metadata())
        line = {
            "method": method,
            "attempt": sent.get(metadata.ATTEMPT, ""),
            "spend_id": _claimed_spend_id(sent.get(metadata.PERMIT, b"")),
        }
        os.write(self._file, json.dumps(line).encode() + b"\n")  # one write with O_APPEND: lines never mix


def _claimed_spend_id(permit: str | bytes) -> str:
    try:
        signed = statement_pb2.Signed.FromString(permit if isinstance(permit, bytes) else b"")
        return decision_pb2.Decision.FromString(signed.payload).spend_id
    except DecodeError:
        return ""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment says.

    Reading raises KeyError for what is missing, KeyFileError and ValueError for what is wrong.
    """

    ledger: Path
    calls_file: str
    socket: Path
    anchor: Anchor
    otlp_endpoint: str

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> "Settings":
        """Read everything that the gated tool needs."""
        environment = environ.get("LICET_ENVIRONMENT", "dev")
        trust_domain = environ.get("LICET_TRUST_DOMAIN", TRUST_DOMAIN_DEV)
        anchor = Anchor(
            environment=environment,
            audience=audience_of(trust_domain, environment, environ.get("LICET_TOOL", "finance")),
            root_public_key=read_public(Path(environ["LICET_ROOT_KEY_FILE"])),
            catalog=read_signed(Path(environ["LICET_CATALOG"])),
            tool_key=read_secret(Path(environ["LICET_TOOL_KEY_FILE"])),
            generation=int(environ.get("LICET_GENERATION", "1")),
        )
        return cls(
            Path(environ["REFUND_LEDGER"]),
            environ.get("LICET_TOOL_CALLS_FILE", ""),
            Path(environ["LICET_TOOL_SOCKET"]),
            anchor,
            environ.get("LICET_OTLP_ENDPOINT", ""),
        )


def gated(settings: Settings) -> grpc.Server:
    """Return the tool's server on its Unix socket, guarded; not started."""
    book = open_book(settings.ledger)
    seed(book, FIRST_ORDERS)
    ledger = SqliteLedger(settings.ledger)
    ledger.install()
    ledger.protect("ledger", "spend_id", "entry")
    guard = Guard(ledger, settings.anchor)
    tracing = configure("finance", settings.otlp_endpoint)
    method = GuardedMethod(guard, REFUND, finance_pb2.IssueRefundResponse, entries=2, tracing=tracing)

    def refunds(
        request: finance_pb2.IssueRefundRequest, context: grpc.ServicerContext
    ) -> finance_pb2.IssueRefundResponse:
        def change(spend: Spend) -> finance_pb2.IssueRefundResponse:
            return refund(request, spend)

        return method(request, context, change)

    server = _server(Finance(book, refunds, CallsFile(settings.calls_file), ToolSpans(tracing)))
    serve(guard, server)
    _bind_socket(server, settings.socket)
    return server


def ungated(environ: Mapping[str, str]) -> tuple[grpc.Server, int]:
    """Return the tool's server without any gate, and its loopback port; not started. Raises ValueError."""
    path = Path(environ["REFUND_LEDGER"])
    book = open_book(path)
    require_unguarded(book)
    seed(book, FIRST_ORDERS)
    host, _, port = environ.get("LICET_LISTEN", "127.0.0.1:0").rpartition(":")
    if host not in {"127.0.0.1", "localhost", "[::1]"}:
        raise ValueError(f"ungated, the tool listens on loopback only, not on `{host}`")
    lock = threading.Lock()
    spans = ToolSpans(configure("finance", environ.get("LICET_OTLP_ENDPOINT", "")))

    def refunds(
        request: finance_pb2.IssueRefundRequest, context: grpc.ServicerContext
    ) -> finance_pb2.IssueRefundResponse:
        with (
            spans.call("IssueRefund", context) as (recording, span),
            lock,
            recording.span(telemetry.SPAN_LEDGER_COMMIT, under=span),
            LooseStep(book) as step,
        ):
            return refund(request, step)

    server = _server(Finance(book, refunds, CallsFile(environ.get("LICET_TOOL_CALLS_FILE", "")), spans))
    bound = server.add_insecure_port(f"{host}:{port}")
    if port_file := environ.get("LICET_PORT_FILE"):
        Path(port_file).write_text(f"{bound}\n")
    return server, bound


def _server(finance: Finance) -> grpc.Server:
    server = grpc.server(ThreadPoolExecutor(THREADS, "finance"), options=(("grpc.so_reuseport", 0),))
    finance_pb2_grpc.add_FinanceServicer_to_server(finance, server)
    return server


def _bind_socket(server: grpc.Server, path: Path) -> None:
    """Bind with mode 0660: owner and group (the sidecar's) only. Raises ValueError, RuntimeError."""
    if len(os.fsencode(path)) > MAX_SOCKET_BYTES:
        raise ValueError(f"the path of the socket is longer than {MAX_SOCKET_BYTES} bytes: `{path}`")
    path.unlink(missing_ok=True)
    mask = os.umask(0o117)
    try:
        server.add_insecure_port(f"unix:{path}")
    finally:
        os.umask(mask)


def _run(server: grpc.Server) -> None:
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    server.start()
    stopping.wait()
    server.stop(STOP_S).wait()


def main() -> int:
    """Serve until SIGTERM; returns 2 when the settings are wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ungated", action="store_true", help="show what the tool does without a gate")
    loose = parser.parse_args().ungated or os.environ.get("REFUND_UNGATED") == "1"
    configure_logging("finance")
    try:
        if loose:
            server, port = ungated(os.environ)
            log(_logger, logging.WARNING, "tool.ungated", calls="every one is executed", port=port)
        else:
            settings = Settings.read(os.environ)
            server = gated(settings)
            log(_logger, logging.INFO, "tool.serving", socket=str(settings.socket))
    except KeyError as error:
        print(f"set {error.args[0]}: see python -m examples.refund.service --help", file=sys.stderr)
        return 2
    except (KeyFileError, ValueError, sqlite3.Error, LedgerUnavailable, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 2
    _run(server)
    return 0


if __name__ == "__main__":
    sys.exit(main())
