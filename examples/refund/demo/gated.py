"""The same agent, gated: its tools are `licet.client` stubs, its steps have the framework's tool-call ids."""

from typing import Any

from opentelemetry import trace as otel

from examples.refund.demo.agent import Ticket, handle
from examples.refund.demo.house import TASK, TOOL
from examples.refund.demo.play import Play
from examples.refund.demo.wire import OK, Reply
from examples.refund.fin.v1.finance_pb2_grpc import FinanceStub
from licet.client import Client
from licet.tracing import TraceContext


def handle_gated(play: Play, order_id: str) -> Ticket:
    """Let the agent deal with a ticket, gated, as one step of the attempt that runs: its refund."""
    house = play.house
    step = play.step(span="invoke_agent refund-bot")
    call_ids = (house.call_id(), house.call_id(), step.call_id)
    sidecars = {TOOL: house.stack.sidecar(TOOL)}
    client = Client(
        decider=house.stack.decider, tools=sidecars, identity=house.identity, tracing=house.tracing
    )
    with otel.use_span(_as_parent(step.root.context)):
        gated: Any = client.stub(FinanceStub, task=TASK)  # its methods take `call_id=` beside what they took
        ticket = handle(gated, order_id, call_ids)
    step.replies.append(Reply(ticket.reason or OK, "", message=ticket.denial))
    return ticket


def _as_parent(context: TraceContext) -> otel.Span:
    ids = int(context.trace_id, 16), int(context.span_id, 16)
    flags = otel.TraceFlags(otel.TraceFlags.SAMPLED)
    return otel.NonRecordingSpan(otel.SpanContext(*ids, is_remote=False, trace_flags=flags))
