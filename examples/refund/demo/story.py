"""The opening: the same agent with the same order, first without a gate, then with one."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import grpc
from google.protobuf.message import Message
from opentelemetry.trace import SpanKind

from examples.refund.demo.agent import Ticket, handle
from examples.refund.demo.attempt import DENIED, SPANS_OF_DECISION, Case, stopped
from examples.refund.demo.gated import handle_gated
from examples.refund.demo.house import House, balance_minor, refund_calls
from examples.refund.demo.play import Play
from examples.refund.demo.wire import OPTIONS
from examples.refund.fin.v1.finance_pb2_grpc import FinanceStub
from licet import telemetry
from licet.embedded.process import Process
from licet.tracing import OK, Recording, Span, inject, rpc

ORDER: Final = "O3"
"""Its `refund_allowed` is false."""


@dataclass(frozen=True, slots=True)
class Told:
    """How one telling went."""

    ticket: Ticket
    refund_calls: int
    ledger_minor: int
    trace_id: str


class Ungated:
    """The tool without a gate, as a process of its own on its own copy of the ledger."""

    def __init__(self, directory: Path, otlp_endpoint: str) -> None:
        self._directory = directory
        directory.mkdir(parents=True)
        self.ledger = directory / "ledger.db"
        self.calls = directory / "calls.log"
        self._port_file = directory / "port"
        environment = {
            "REFUND_LEDGER": str(self.ledger),
            "LICET_TOOL_CALLS_FILE": str(self.calls),
            "LICET_PORT_FILE": str(self._port_file),
            "LICET_OTLP_ENDPOINT": otlp_endpoint,
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        self._process = Process(
            "ungated-tool",
            (sys.executable, "-m", "examples.refund.service", "--ungated"),
            log=directory / "tool.log",
            environment=environment,
            ready=lambda: self._port_file.exists() and self._port_file.read_text().endswith("\n"),
        )

    def __enter__(self) -> Self:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stop()

    def address(self) -> str:
        """Wait until the tool listens and return where."""
        self._process.wait_ready()
        return f"127.0.0.1:{self._port_file.read_text().strip()}"


class _PlainTools:
    """The tool's stub as an agent without a gate has it: the tool-call id is only written down."""

    def __init__(self, stub: FinanceStub, address: str, recording: Recording, root: Span) -> None:
        self._stub, self._address = stub, address
        self._recording, self._root = recording, root

    def __getattr__(self, name: str) -> Any:
        def call(request: Message, *, call_id: str) -> Any:
            recording, under = self._recording, self._root
            attributes = {
                telemetry.GEN_AI_OPERATION_NAME: telemetry.EXECUTE_TOOL,
                telemetry.GEN_AI_TOOL_NAME: name,
                telemetry.GEN_AI_TOOL_CALL_ID: call_id,
            }
            tool = recording.span(f"{telemetry.SPAN_EXECUTE_TOOL} {name}", under=under, attributes=attributes)
            method = f"fin.v1.Finance/{name}"
            asked = rpc(method, self._address)
            with tool, recording.span(method, kind=SpanKind.CLIENT, under=tool, attributes=asked) as span:
                reply = getattr(self._stub, name)(request, timeout=10, metadata=inject(span.context))
                span.answered(OK)
            return reply

        return call


def tell_ungated(house: House, tool: Ungated) -> Told:
    """Let the agent deal with the order, no gate before the tool."""
    address = tool.address()
    calls, balance = refund_calls(tool.calls), balance_minor(tool.ledger)
    step = house.wire.step(house.call_id(), "", "invoke_agent refund-bot")
    with grpc.insecure_channel(address, options=OPTIONS) as channel:
        tools = _PlainTools(FinanceStub(channel), address, step.recording, step.root)
        ticket = handle(tools, ORDER, ("call_a", "call_b", "call_c"))
    step.recording.close()
    return Told(
        ticket,
        refund_calls(tool.calls) - calls,
        balance_minor(tool.ledger) - balance,
        step.trace_id,
    )


def tell_gated(house: House) -> tuple[Told, Case]:
    """Let the same agent deal with the same order, the gate before the tool."""
    case = Case("gated", "The same agent, gated")
    play = Play(house, case)
    expected = stopped("POLICY_DENIED", {DENIED: 1}, "DENIED_STOPPED", spans=SPANS_OF_DECISION)
    with play.attack("O3, refund_allowed=false", expected) as attempt:
        ticket = handle_gated(play, ORDER)
    seen = attempt.seen
    return Told(ticket, seen.refund_calls, seen.ledger_minor, attempt.steps[0].trace_id), case
