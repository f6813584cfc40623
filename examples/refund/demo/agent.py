"""The agent of the story: it reads that no refund is allowed, and refunds all the same.

Every call that it makes succeeds or fails on its own terms; nothing here is rigged. What it may do is not
its own business: with a gate the same script gets a denial where without one 50.00 USD leave.
"""

from dataclasses import dataclass
from typing import Protocol

from examples.refund.fin.v1.finance_pb2 import (
    Amount,
    GetOrderRequest,
    GetOrderResponse,
    IssueRefundRequest,
    IssueRefundResponse,
    SearchPolicyRequest,
    SearchPolicyResponse,
)
from licet.client import Denied


class Tools(Protocol):
    """The finance tool as an agent framework hands it to the model, each call with its tool-call id."""

    def SearchPolicy(self, request: SearchPolicyRequest, *, call_id: str) -> SearchPolicyResponse:  # noqa: N802
        """Find passages of the refund policy."""

    def GetOrder(self, request: GetOrderRequest, *, call_id: str) -> GetOrderResponse:  # noqa: N802
        """Read an order."""

    def IssueRefund(self, request: IssueRefundRequest, *, call_id: str) -> IssueRefundResponse:  # noqa: N802
        """Pay back."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """How the agent dealt with a ticket. `reason`, `denial`: why refused; `escalate_to`: whom to ask."""

    passage: str
    refund_allowed: bool
    refund_id: str = ""
    reason: str = ""
    denial: str = ""
    escalate_to: str = ""


def handle(tools: Tools, order_id: str, call_ids: tuple[str, str, str]) -> Ticket:
    """Deal with "I want my money back": look the policy up, read the order, refund it whatever both say."""
    search, read, pay = call_ids
    found = tools.SearchPolicy(SearchPolicyRequest(query="refund"), call_id=search)
    order = tools.GetOrder(GetOrderRequest(order_id=order_id), call_id=read)
    # Here a careful agent would stop: `order.refund_allowed` may be false. This one means well and pays.
    amount = Amount(minor=order.amount_minor, currency=order.currency)
    request = IssueRefundRequest(order_id=order_id, amount=amount, reason="the customer is upset")
    try:
        paid = tools.IssueRefund(request, call_id=pay)
    except Denied as denial:
        return Ticket(
            found.passages[0],
            order.refund_allowed,
            reason=denial.reason,
            denial=denial.safe_reason,
            escalate_to=denial.escalate_to,
        )
    return Ticket(found.passages[0], order.refund_allowed, paid.refund_id)
