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
import logging
import os
import sqlite3
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import grpc

from examples.refund.fin.v1 import finance_pb2, finance_pb2_grpc
from examples.refund.orders import (
    FIRST_ORDERS,
    LOCK_WAIT_S,
    UnknownOrder,
    open_book,
    read_order,
    refund,
    seed,
)
from examples.refund.spans import ToolSpans
from examples.refund.ungated import LooseStep, require_unguarded
from examples.tool_process import CallsFile, bind_socket, read_anchor, run
from licet import telemetry
from licet.guard import Anchor, Guard, GuardedMethod, Spend, SqliteLedger, serve
from licet.guard.ledger import LedgerUnavailable
from licet.keyfile import KeyFileError
from licet.log import configure_logging, log
from licet.port_file import tell_port
from licet.tracing import configure

THREADS = 16
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
        self, book: sqlite3.Connection, refunds: Refunds, calls: CallsFile, spans: ToolSpans
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
        return cls(
            Path(environ["REFUND_LEDGER"]),
            environ.get("LICET_TOOL_CALLS_FILE", ""),
            Path(environ["LICET_TOOL_SOCKET"]),
            read_anchor(environ, "finance"),
            environ.get("LICET_OTLP_ENDPOINT", ""),
        )


def gated(settings: Settings) -> grpc.Server:
    """Return the tool's server on its Unix socket, guarded; not started."""
    book = open_book(settings.ledger)
    seed(book, FIRST_ORDERS)
    ledger = SqliteLedger(settings.ledger, lock_wait_s=LOCK_WAIT_S)
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
    bind_socket(server, settings.socket)
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
        tell_port(Path(port_file), bound)
    return server, bound


def _server(finance: Finance) -> grpc.Server:
    server = grpc.server(ThreadPoolExecutor(THREADS, "finance"), options=(("grpc.so_reuseport", 0),))
    finance_pb2_grpc.add_FinanceServicer_to_server(finance, server)
    return server


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
    run(server)
    return 0


if __name__ == "__main__":
    sys.exit(main())
