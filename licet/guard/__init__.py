"""The tool's side: a change happens in the ledger's own transaction, with its proof, once, or not at all.

    ledger = SqliteLedger("ledger.db")
    ledger.install()
    ledger.protect("ledger", "spend_id", "entry")
    guard = Guard(ledger, Anchor(environment, audience, root_public_key, catalog, tool_key))
    serve(guard, server)
    refund = GuardedMethod(guard, "/fin.v1.Finance/IssueRefund", IssueRefundResponse, entries=2)

    def IssueRefund(self, request, context):
        def change(spend: Spend) -> IssueRefundResponse:
            order = read_and_lock(spend, request.order_id)
            spend.check(tenant=order.tenant, facts={"order.version": order.version})
            number = spend.entry(account="merchant", amount_minor=-request.amount, currency="USD")
            spend.execute("INSERT INTO ledger (spend_id, entry, …) VALUES (?, ?, …)", (spend.spend_id, number,
            …)) return IssueRefundResponse(…)
        return refund(request, context, change)

What is guaranteed stands in `licet.guard.guard`; docs/guard.md is the page for authors of tools, in any
language. `PostgresLedger` lives in `licet.guard.postgres` (extra `guard-postgres`).
"""

from licet.guard.guard import Guard
from licet.guard.method import GuardedMethod
from licet.guard.service import serve
from licet.guard.sqlite import SqliteLedger
from licet.guard.standing import Anchor
from licet.guard.step import Spend

__all__ = ["Anchor", "Guard", "GuardedMethod", "Spend", "SqliteLedger", "serve"]
