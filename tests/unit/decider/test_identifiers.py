"""Identifiers that look like another one, in calls, tasks and rules."""

from pathlib import Path
from urllib.parse import quote

import pytest

from decider.decision.envelope import Envelope, Refused, build_envelope
from decider.identifiers import misleads, printable
from licet.refusal import Reason
from tests.unit.decider.test_decide import NOW, house, request
from tests.worlds.decisions import REFUND_BOT, refund

MISLEADING = {
    "a Cyrillic letter among Latin ones": "\u041erder1",
    "a Cyrillic letter that looks Latin, alone": "\u041e1",
    "a Greek one": "\u0391\u0392-7",
    "an accent of its own": "cafe\u0301",
    "a space that nobody sees": "O\u200b1",
    "a letter that turns the line": "O\u202e1",
    "a private letter": "O\ue0001",
    "a soft hyphen": "O\u00ad1",
}
HONEST = (
    "O1",
    "order-7_x",
    "caf\u00e9",
    "\u0437\u0430\u043a\u0430\u0437-7",
    "\u6ce8\u6587\u4e00",
    "\u05d4\u05d6\u05de\u05e0\u05d4",
)


@pytest.mark.parametrize("text", MISLEADING.values(), ids=list(MISLEADING))
def test_identifier_that_may_be_taken_for_another_is_refused(tmp_path: Path, text: str) -> None:
    """An approver would read one order number, the tool another."""
    assert misleads(text)
    denied = build_envelope(request(request=refund(text)), REFUND_BOT, house(tmp_path), now_ms=NOW)
    assert isinstance(denied, Refused)
    assert denied.refusal.reason is Reason.ARGUMENTS_MALFORMED
    assert text not in denied.refusal.detail


@pytest.mark.parametrize("text", HONEST)
def test_identifier_in_any_one_script_passes(tmp_path: Path, text: str) -> None:
    envelope = build_envelope(request(request=refund(text)), REFUND_BOT, house(tmp_path), now_ms=NOW)
    assert isinstance(envelope, Envelope)
    assert envelope.resource == f"order:{quote(text, safe='-_')}"


@pytest.mark.parametrize("text", ["", "O 1", "a/b", "\U0001f6d2"])
def test_what_is_merely_odd_is_left_to_others(text: str) -> None:
    assert not misleads(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("paid", "paid"),
        ("caf\u00e9 \u6ce8\u6587", "caf\u00e9 \u6ce8\u6587"),
        ("paid\n  risk_flags  none", "paid\\n  risk_flags  none"),
        ("\x1b[2K\rRefund 1.00", "\\x1b[2K\\rRefund 1.00"),
        ("\x9b2K", "\\x9b2K"),
        ("O\u202e1", "O\\u202e1"),
    ],
)
def test_text_for_a_terminal_stays_in_its_line_and_moves_nothing(text: str, shown: str) -> None:
    """What a tool's facts say is read by approvers: it must not write lines of its own into their screen."""
    assert printable(text) == shown
