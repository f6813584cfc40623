"""A question about a window reads the window alone: the table's key begins with the hour."""

from typing import Any

import pytest

from audit.asking.ask import questions

ROWS = """
INSERT INTO events (event_id, kind, tenant, agent, operation, source, time_us, js_stream, js_seq, js_time_us)
SELECT lower(hex(number)), ['decision.allowed', 'approval.voted', 'finding.raised'][number % 3 + 1], 't1',
    'bot', 'refund', 'spiffe://licet.local/dev/decider', 1790000000000000 + number * 17280000,
    'LICET_AUDIT_dev', number + 1, 1790000000000000
FROM numbers(100000)
"""
"""Twenty days from 2026-09-21 on, a row every 17.28 s, in JetStream at one moment: one partition."""
LATE, EARLY = "2026-10-10 00:00:00", "2026-09-01 00:00:00"
GIVEN = {"agent": "bot", "operation": "refund", "resource": "", "at": LATE}
WINDOWS = ("agent-window", "approvals-by-person", "bundle-at", "unauthorized-changes", "who-could")


@pytest.mark.parametrize("name", WINDOWS)
def test_question_about_a_window_does_not_read_the_other_days(store: Any, name: str) -> None:
    store.client.command(ROWS)
    question = questions()[name]

    def read(**given: str) -> int:
        needed = {one.name: given.get(one.name) or GIVEN.get(one.name) for one in question.parameters}
        values = question.values({key: value for key, value in needed.items() if value is not None})
        return int(store.client.query(question.sql, parameters=values).summary["read_rows"])

    window = read(since=LATE)
    whole = read(since=EARLY, days="900", hours="9000")
    assert 0 < window < whole / 2
