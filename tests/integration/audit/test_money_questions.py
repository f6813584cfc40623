"""What questions of money answer: sums that no 64 bits hold."""

from typing import Any

from audit.asking.ask import ask


def test_sums_of_money_are_exact_beyond_64_bits(store: Any) -> None:
    """Two refunds of 2^63-1 once wrapped around to -2: a budget that looks untouched."""
    most = (1 << 63) - 1
    names = ["kind", "finding", "tenant", "agent", "currency", "amount_minor", "bundle_version", "time_us"]
    at = 1_790_000_000_000_000
    rows = [("decision.allowed", "", "t1", "bot", "USD", most, 3, at + number) for number in range(3)]
    rows += [
        ("finding.raised", "ALLOWED_EXECUTED", "t1", "bot", "USD", most, 3, at + number) for number in (5, 6)
    ]
    rows += [("decision.denied", "", "t1", "bot", "USD", most, 3, at + 9)]
    rows += [("decision.allowed", "", "t1", "bot", "EUR", -most - 1, 3, at + number) for number in (1, 2)]
    store.client.insert("events", [(*row, at) for row in rows], column_names=[*names, "js_time_us"])
    since = {"since": "2026-01-01 00:00:00"}
    burn = ask(store.client, "budget-burn", since)
    found = {row[burn.names.index("currency")]: dict(zip(burn.names, row, strict=True)) for row in burn.rows}
    assert found["USD"]["announced_minor"] == 3 * most
    assert found["USD"]["executed_minor"] == 2 * most
    assert (found["USD"]["allowed"], found["USD"]["denied"]) == (3, 1)
    assert found["EUR"]["announced_minor"] == -2 * (most + 1)
    by_bundle = ask(store.client, "money-by-bundle", since)
    assert [row[by_bundle.names.index("moved_minor")] for row in by_bundle.rows] == [2 * most]
    assert str(3 * most) in burn.text("json")
