"""An attempt is right only when reply, tool, ledger, events, finding and trace are all as expected."""

from dataclasses import replace

import pytest

from examples.refund.demo.attempt import EVIDENCE_OF_EFFECT, SPANS_OF_EFFECT, Attempt, Case, Seen, effect
from examples.refund.demo.cases.moment import LIFE_S
from examples.refund.demo.report import WIDTH, case_json, case_lines, money
from examples.refund.orders import LOCK_WAIT_S

RIGHT = Seen(
    replies=("OK",),
    refund_calls=1,
    ledger_minor=-5000,
    events=dict(EVIDENCE_OF_EFFECT),
    findings=("ALLOWED_EXECUTED",),
    spans=SPANS_OF_EFFECT,
)


def test_tool_waits_longer_for_its_lock_than_a_short_lived_permit_lives() -> None:
    """A slow machine needs the longer lives; it would see a ledger that is away and no permit that ended."""
    assert max(LIFE_S) + 1 < LOCK_WAIT_S


def _attempt(seen: Seen) -> Attempt:
    return Attempt("50.00", lawful=True, expected=effect(), seen=seen)


def test_what_is_as_expected_has_no_differences() -> None:
    assert _attempt(RIGHT).differences() == ()


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (replace(RIGHT, replies=("SPENT",)), "replies"),
        (replace(RIGHT, replies=("OK", "OK")), "replies"),
        (replace(RIGHT, refund_calls=2), "calls in the tool process"),
        (replace(RIGHT, ledger_minor=-10000), "ledger"),
        (replace(RIGHT, events={**EVIDENCE_OF_EFFECT, "door.passed": 2}), "events"),
        (replace(RIGHT, events={**EVIDENCE_OF_EFFECT, "door.refused SPENT": 1}), "events"),
        (replace(RIGHT, findings=("DENIED_BUT_BYPASSED",)), "finding"),
        (replace(RIGHT, spans=SPANS_OF_EFFECT - {"ledger.commit"}), "ledger.commit"),
    ],
)
def test_anything_else_is_told(wrong: Seen, told: str) -> None:
    (difference,) = _attempt(wrong).differences()
    assert told in difference


def test_case_without_attempts_is_not_right() -> None:
    assert not Case("empty", "Nothing was tried").right


def test_case_that_broke_is_not_right_whatever_its_attempts_were() -> None:
    case = Case("c", "A case", [_attempt(RIGHT)])
    assert case.right
    case.broke = "TimeoutError: the call in the tool"
    assert not case.right
    assert case_json(case)["broke"]


def test_rows_fit_cut_no_name_and_mark_what_is_wrong() -> None:
    long = {
        "replies": ("DEADLINE_EXCEEDED",) * 200 + ("SPENT",) * 200,
        "findings": ("ALLOWED_EXECUTED", "ALLOWED_NOT_EXECUTED"),
    }
    attempt = _attempt(replace(RIGHT, refund_calls=200, ledger_minor=-1000000, **long))
    attempt.label = "a label that is far longer than its column is"
    attempt.steps.append(_Step())  # type: ignore[arg-type] # all that a row shows of one
    lines = list(case_lines(7, Case("c", "A case", [attempt])))
    assert any(line.startswith(" !!") for line in lines)
    rows = [line for line in lines if not line.startswith("    !!")]
    assert all(len(line) <= WIDTH for line in rows)
    words = " ".join(rows).split()
    assert "…" not in " ".join(words)
    assert {*attempt.label.split(), "DEADLINE_EXCEEDED", "+200", "SPENT", "+ALLOWED_NOT_EXECUTED"} <= {*words}
    assert case_json(Case("c", "A case", [attempt]))["right"] is False


class _Step:
    trace_id = "ab" * 16


@pytest.mark.parametrize(
    ("minor", "text"), [(-5000, "-50.00"), (0, "0.00"), (5, "0.05"), (-5, "-0.05"), (123456, "1234.56")]
)
def test_money_is_exact(minor: int, text: str) -> None:
    assert money(minor) == text
