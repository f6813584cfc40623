import pytest
from google.rpc import error_details_pb2, status_pb2
from hypothesis import given
from hypothesis import strategies as st

from licet.refusal import DOMAIN, STATUS, Reason, Refusal, Status
from sidecar.status import CODES, details_of, licet_reason, status_of

BESIDE = {
    Status.UNAVAILABLE: error_details_pb2.RetryInfo,
    Status.RESOURCE_EXHAUSTED: error_details_pb2.QuotaFailure,
    Status.INVALID_ARGUMENT: error_details_pb2.BadRequest,
    Status.FAILED_PRECONDITION: error_details_pb2.PreconditionFailure,
}


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_its_status_and_says_its_name(reason: Reason) -> None:
    status = status_of(Refusal(reason, detail="secret limit 4999"))
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert (info.reason, info.domain) == (reason.value, DOMAIN)
    assert status.code == CODES[STATUS[reason]]
    wanted = BESIDE.get(STATUS[reason])
    assert [detail.Is(wanted.DESCRIPTOR) for detail in status.details[1:]] == ([True] if wanted else [])


@pytest.mark.parametrize("reason", Reason)
def test_what_only_operators_may_see_never_leaves(reason: Reason) -> None:
    assert b"4999" not in details_of(Refusal(reason, detail="secret limit 4999"))


@pytest.mark.parametrize("reason", Reason)
def test_details_stay_small_enough_for_trailers(reason: Reason) -> None:
    assert len(details_of(Refusal(reason))) < 1_024


def test_what_was_declared_safe_leaves() -> None:
    status = status_of(Refusal(Reason.HELD), (("holdId", "h1"),))
    info = error_details_pb2.ErrorInfo()
    status.details[0].Unpack(info)
    assert dict(info.metadata) == {"holdId": "h1"}


@pytest.mark.parametrize("reason", Reason)
def test_a_reason_reads_back(reason: Reason) -> None:
    assert licet_reason(details_of(Refusal(reason))) == reason.value


def test_a_reason_of_another_domain_is_not_ours() -> None:
    status = status_pb2.Status(code=9)
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason="SPENT", domain="example.com"))
    assert licet_reason(status.SerializeToString()) == ""


@given(st.binary(max_size=200))
def test_broken_details_say_nothing_and_raise_nothing(raw: bytes) -> None:
    assert isinstance(licet_reason(raw), str)


@given(st.data())
def test_mutated_details_say_a_text_or_nothing(data: st.DataObject) -> None:
    raw = bytearray(details_of(Refusal(Reason.SPENT)))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    assert isinstance(licet_reason(bytes(raw)), str)
