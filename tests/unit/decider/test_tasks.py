"""Tasks: an agent can only name what was registered for it."""

from pathlib import Path

import pytest

from decider.source import SourceError
from decider.task.tasks import HOUR_MS, read_tasks

GOOD = (
    "tasks:\n"
    '  task_1: {caller: agent/bot, agent: bot, principal: "ana@example.com", tenant: t1,'
    ' intent: "refunds", hours: 2}\n'
)


def read(path: Path, text: str) -> dict[str, object]:
    path = path / "tasks.yaml"
    path.write_text(text)
    return dict(read_tasks(path, trust_domain="licet.local", environment="dev", now_ms=1_000))


def test_caller_is_completed_and_the_end_is_counted_from_reading(tmp_path: Path) -> None:
    task = read(tmp_path, GOOD)["task_1"]
    assert task.caller == "spiffe://licet.local/dev/agent/bot"  # type: ignore[attr-defined]
    assert task.not_after_ms == 1_000 + 2 * HOUR_MS  # type: ignore[attr-defined]


def test_hours_count_from_the_tasks_own_start_whenever_the_file_is_read(tmp_path: Path) -> None:
    """A restart of the decider must not give a task its time again."""
    text = GOOD.replace("hours: 2", "hours: 2, started: 1969-12-31T23:00:00Z")
    assert read(tmp_path, text)["task_1"].not_after_ms == HOUR_MS  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("hours: 2", "hours: 24", "from 1 to 23"),
        ("hours: 2", "hours: 0", "from 1 to 23"),
        ("hours: 2", "not_after: tomorrow", "must be a time with its offset"),
        ("hours: 2", "not_after: 2030-01-01T00:00:00", "must be a time with its offset"),
        ("hours: 2", "hours: 2, not_after: 2030-01-01T00:00:00Z", "not both"),
        ("hours: 2", "started: 1969-12-31T00:00:00Z, not_after: 2030-01-01T00:00:00Z", "not both"),
        ("hours: 2", "hours: 2, started: yesterday", "must be a time with its offset"),
        ("hours: 2", "hours: 2, started: 1970-01-01T02:00:00Z", "is in the future"),
        ("caller: agent/bot", "caller: 'agent/../decider'", "no SPIFFE id"),
        ("caller: agent/bot", "caller: 'http://x/y'", "no SPIFFE id"),
        ("caller: agent/bot, ", "", "is required"),
        ("agent: bot", "agent: Bot", "must be 1 to 64"),
        ("tenant: t1", 'tenant: " t1"', "must be printable"),
        ("tenant: t1", 'tenant: ""', "must be printable"),
        ("tenant: t1", 'tenant: "t\\u202e1"', "must be printable"),
        ("task_1:", '"task 1":', "a task id"),
        ("intent:", "budget: 5, intent:", "unknown field"),
        ("intent:", "contract: 5, intent:", "must be a mapping"),
        ("intent:", "contract: {alow: [a]}, intent:", "unknown field"),
        ("intent:", "contract: {allow: [a], approve: [b]}, intent:", "must be allowed, too"),
        ("intent:", "contract: {autonomy: wild}, intent:", "must be one of observe"),
        ("intent:", "contract: {approver: Boss}, intent:", "must be 1 to 64"),
    ],
)
def test_bad_task_is_refused_by_name(tmp_path: Path, old: str, new: str, why: str) -> None:
    assert old in GOOD
    with pytest.raises(SourceError, match=why):
        read(tmp_path, GOOD.replace(old, new))


def test_same_task_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="given twice"):
        read(tmp_path, GOOD + GOOD.partition("\n")[2])


def test_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be read"):
        read_tasks(tmp_path / "none.yaml", trust_domain="licet.local", environment="dev", now_ms=0)


def test_contract_is_read_and_a_task_without_one_has_none(tmp_path: Path) -> None:
    assert read(tmp_path, GOOD)["task_1"].contract is None  # type: ignore[attr-defined]
    text = GOOD.replace(
        "hours: 2",
        "hours: 2, contract: {allow: [send], approve: [send], autonomy: act,"
        " addresses: ['https://A.example/'], values: {send: {to: [ada]}}}",
    )
    contract = read(tmp_path, text)["task_1"].contract  # type: ignore[attr-defined]
    assert contract.allowed == contract.needs_approval == {"send"}
    assert (contract.autonomy, contract.addresses) == (3, {"a.example"})
    assert contract.values == {"send": {"to": {"ada"}}}
    empty = read(tmp_path, GOOD.replace("hours: 2", "hours: 2, contract: {}"))["task_1"].contract  # type: ignore[attr-defined]
    assert (empty.allowed, empty.addresses) == (frozenset(), None)
