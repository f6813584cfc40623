"""No metadata value makes its reader raise; what is read spells back to the very bytes that came.

Every reader gets the same bytes: the permit's envelope, an approval, the peer's id, a call id, a name for a
subject.
"""

from licet.hold import Vote, read_approval
from licet.identity import parse_spiffe_id, subject_token
from licet.permit import is_identifier, verify_permit
from licet.refusal import Refusal
from licet.statement import canonical, parse_signed
from tests.worlds import permit as world
from tests.worlds.permit import ENVIRONMENT, KEYS, NOW

INSTRUMENT = ["licet.permit", "licet.hold", "licet.identity", "licet.strict"]

MADE = world.approved_wipe()


def check_binary(data: bytes) -> None:
    signed = parse_signed(data)
    assert isinstance(signed, Refusal) or canonical(signed) == data
    decision = verify_permit(data, KEYS, now_ms=NOW)
    assert isinstance(decision, Refusal) or data in MADE.permits
    vote = read_approval(data, KEYS, environment=ENVIRONMENT, now_ms=NOW)
    assert isinstance(vote, Vote | Refusal)


def check_text(text: str) -> None:
    peer = parse_spiffe_id(text)
    assert peer is None or str(peer) == text
    if is_identifier(text):
        assert 1 <= len(text) <= 128
        assert text.isascii()
        assert text.isprintable()
    try:
        token = subject_token(text)
    except ValueError:
        return
    assert token == text
    assert not set(token) & set(".*> \t\r\n/")


def seeds() -> list[bytes]:
    return [*MADE.permits, *MADE.approvals, world.AGENT.encode(), b"call_1", b"finance", b"spiffe://a/../b"]


def check(data: bytes) -> None:
    check_binary(data)
    check_text(data.decode(errors="replace"))
    check_text(data.decode("latin-1"))
