"""A refusal as `google.rpc.Status`: the one place where reasons become what a caller reads.

Guaranteed: what leaves is the reason's name, its fixed sentence, and what the core declared safe; `detail`
never leaves. Every refusal has an ErrorInfo of domain `licet`; UNAVAILABLE a RetryInfo, RESOURCE_EXHAUSTED
a QuotaFailure, INVALID_ARGUMENT a BadRequest, FAILED_PRECONDITION a PreconditionFailure (AIP-193).
"""

from functools import cache
from typing import Final

from google.protobuf.message import DecodeError, Message
from google.rpc import code_pb2, error_details_pb2, status_pb2

from licet.refusal import DOMAIN, Reason, Refusal, Status

RETRY_AFTER_S: Final = 1
"""What RetryInfo asks for: one beacon."""

CODES: Final = {status: code_pb2.Code.Value(status.value) for status in Status}
"""Status name to its number in `google.rpc.Code`; gRPC uses the same numbers."""


def status_of(refusal: Refusal, safe: tuple[tuple[str, str], ...] = ()) -> status_pb2.Status:
    """Return what the caller reads of `refusal`."""
    status = status_pb2.Status(code=CODES[refusal.status], message=refusal.message)
    info = error_details_pb2.ErrorInfo(reason=refusal.reason.value, domain=DOMAIN, metadata=dict(safe))
    status.details.add().Pack(info)
    beside = _beside(refusal)
    if beside is not None:
        status.details.add().Pack(beside)
    return status


def _beside(refusal: Refusal) -> Message | None:
    beside: Message | None = None
    match refusal.status:
        case Status.UNAVAILABLE:
            beside = error_details_pb2.RetryInfo(retry_delay={"seconds": RETRY_AFTER_S})
        case Status.RESOURCE_EXHAUSTED:
            beside = error_details_pb2.QuotaFailure(
                violations=[{"subject": refusal.reason.value, "description": refusal.message}]
            )
        case Status.INVALID_ARGUMENT:
            beside = error_details_pb2.BadRequest(
                field_violations=[{"field": "request", "description": refusal.message}]
            )
        case Status.FAILED_PRECONDITION:
            violation = {
                "type": refusal.reason.value,
                "subject": "permit",
                "description": refusal.message,
            }
            beside = error_details_pb2.PreconditionFailure(violations=[violation])
        case _:
            pass
    return beside


def details_of(refusal: Refusal, safe: tuple[tuple[str, str], ...] = ()) -> bytes:
    """Return `status_of` as the bytes of the `grpc-status-details-bin` trailer."""
    return _details(refusal, safe) if safe or refusal.argument else _plain_details(refusal.reason)


@cache
def _plain_details(reason: Reason) -> bytes:
    """A flood of refusals gives few reasons, and each always the same words."""
    return _details(Refusal(reason), ())


def _details(refusal: Refusal, safe: tuple[tuple[str, str], ...]) -> bytes:
    details: bytes = status_of(refusal, safe).SerializeToString()
    return details


def licet_reason(details: bytes) -> str:
    """Return the reason of domain `licet` in the bytes of a google.rpc.Status; empty when there is none."""
    status = status_pb2.Status()
    try:
        status.ParseFromString(details)
        for detail in status.details:
            info = error_details_pb2.ErrorInfo()
            if detail.Is(info.DESCRIPTOR) and detail.Unpack(info) and info.domain == DOMAIN:
                return str(info.reason)
    except DecodeError:  # broken details say nothing
        return ""
    return ""
