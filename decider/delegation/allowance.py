"""What a call uses of the calls and the money of every link it rests on, as lines of budgets. Pure.

Each link has an account of its own for its calls, and one for each currency. A call is booked on those of
every link of its chain: what the last link's agent uses, every delegator above it pays for, so two children
of one link share what it has. Guarantee: what all calls under a link use together never exceeds what the link
says, whatever hangs on it.
"""

from collections.abc import Iterable

from decider.budgets.budget import CALLS_RULE, COST_RULE, MAX_LIMIT, Account, Line, Use, account_id
from licet.delegation import Delegation
from licet.refusal import Reason, Refusal


def lines_of_links(links: Iterable[Delegation], use: Use) -> tuple[Line, ...] | Refusal:
    """Return what a call uses of each link; ARGUMENT_REFUSED for an amount that cannot be booked."""
    lines = []
    for link in links:
        lines.append(_line(link, use, "", 1, link.max_calls))
        if use.money is None:
            continue
        amount, currency = use.money
        if not 0 <= amount <= MAX_LIMIT:
            return Refusal(Reason.ARGUMENT_REFUSED, "an amount that a delegation cannot book")
        lines.append(_line(link, use, currency, amount, link.max_cost.get(currency, 0)))
    return tuple(lines)


def _line(link: Delegation, use: Use, currency: str, amount: int, limit: int) -> Line:
    account = _account(link, use, currency)
    rule_id = COST_RULE if currency else CALLS_RULE
    return Line(account, rule_id, amount, min(limit, MAX_LIMIT), unit=currency or "calls")


def _account(link: Delegation, use: Use, currency: str) -> Account:
    """Return the account of a link: its calls, or its money in one currency.

    The id is the first 16 bytes of the SHA-256 of `licet-delegation-v1`, a zero byte and these parts, each
    with its length before it: environment, generation, the link's id, currency.
    """
    parts = (use.environment, str(use.generation), link.delegation_id, currency)
    text = f"delegation {link.delegation_id}: {currency or 'calls'} of {link.delegatee} from {link.delegator}"
    return Account(account_id("licet-delegation-v1", parts), text[:300], link.not_after_ms)
