import pytest
from hypothesis import given
from hypothesis import strategies as st

from licet.streams import (
    PubAck,
    StoreRefused,
    StoreUnavailable,
    parse_ack,
    stream_spend,
    subject_artifact,
    subject_audit,
    subject_delegation,
    subject_delegation_revoked,
    subject_ledger,
    subject_spend,
)

SPEND_ID = "0123456789abcdef" * 2


def test_subjects_are_spelled_as_documented() -> None:
    assert subject_spend("prod", "finance", SPEND_ID, 2, "reserve") == (
        f"licet.spend.prod.finance.{SPEND_ID}.2.reserve"
    )
    assert subject_audit("prod", "sidecar", "finance") == "licet.audit.prod.sidecar.finance"
    assert subject_ledger("prod", "finance", 7) == "licet.ledger.prod.finance.7"
    assert subject_artifact("prod", "a" * 64) == f"licet.config.prod.artifact.{'a' * 64}"
    assert subject_delegation("prod", SPEND_ID) == f"licet.config.prod.delegation.{SPEND_ID}.link"
    assert subject_delegation_revoked("prod", SPEND_ID) == f"licet.config.prod.delegation.{SPEND_ID}.revoked"
    assert stream_spend("prod") == "LICET_SPEND_prod"


@pytest.mark.parametrize("hostile", ["", "a.b", "*", ">", "a b", "A", "é", "a\n", "x" * 65, "a>", "$SYS"])
def test_no_name_reaches_another_subject(hostile: str) -> None:
    for make in (
        lambda: subject_spend(hostile, "finance", SPEND_ID, 0, "reserve"),
        lambda: subject_spend("prod", hostile, SPEND_ID, 0, "reserve"),
        lambda: subject_spend("prod", "finance", hostile, 0, "reserve"),
        lambda: subject_spend("prod", "finance", SPEND_ID, 0, hostile),
        lambda: subject_audit("prod", "sidecar", hostile),
        lambda: subject_audit("prod", hostile, "x"),
        lambda: subject_artifact("prod", hostile),
        lambda: subject_delegation("prod", hostile),
        lambda: subject_delegation_revoked(hostile, SPEND_ID),
    ):
        with pytest.raises(ValueError):
            make()


@pytest.mark.parametrize("number", [-1, -(2**63)])
def test_numbers_are_not_negative(number: int) -> None:
    with pytest.raises(ValueError):
        subject_spend("prod", "finance", SPEND_ID, number, "reserve")
    with pytest.raises(ValueError):
        subject_ledger("prod", "finance", number)


def test_an_ack_is_read() -> None:
    assert parse_ack(b'{"stream":"S","seq":4}', {}) == PubAck("S", 4)
    assert parse_ack(b'{"stream":"S","seq":4,"duplicate": true}', {}) == PubAck("S", 4, duplicate=True)
    refused = parse_ack(b'{"error":{"code":503,"err_code":10077,"description":"d"},"stream":"S","seq":0}', {})
    assert isinstance(refused, StoreRefused)
    assert (refused.err_code, refused.description) == (10077, "d")
    nobody = parse_ack(b"", {"Status": "503"})
    assert isinstance(nobody, StoreUnavailable)
    assert not nobody.maybe_stored


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"7",
        b'"x"',
        b"{}",
        b'{"stream":"S"}',
        b'{"stream":"S","seq":0}',
        b'{"stream":"S","seq":-1}',
        b'{"stream":"S","seq":"4"}',
        b'{"stream":"S","seq":true}',
        b'{"stream":5,"seq":4}',
        b'{"stream":"S","seq":4,"duplicate":"no"}',
        b'{"error":null,"stream":"S","seq":4}',
        b'{"error":{"err_code":"x"}}',
    ],
)
def test_what_is_no_ack_is_never_taken_for_one(data: bytes) -> None:
    assert isinstance(parse_ack(data, {}), StoreUnavailable)


@given(st.binary(max_size=80))
def test_no_bytes_crash_the_reader_or_pass_by_accident(data: bytes) -> None:
    answer = parse_ack(data, {})
    assert not isinstance(answer, PubAck) or answer.seq >= 1
