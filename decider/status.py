"""A refusal as `google.rpc.Status`: what a caller reads when no decision could be made.

Guaranteed: what leaves is the reason's name and its fixed sentence; `detail` never does.
"""

from typing import Final

from google.protobuf import duration_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2

from licet.refusal import DOMAIN, Refusal, Status

RETRY_AFTER_S: Final = 1
"""What RetryInfo asks for: one beacon."""


def status_of(refusal: Refusal) -> status_pb2.Status:
    """Return what the caller reads of `refusal`."""
    status = status_pb2.Status(code=code_pb2.Code.Value(refusal.status.value), message=refusal.message)
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason=refusal.reason.value, domain=DOMAIN))
    if refusal.status is Status.UNAVAILABLE:
        delay = duration_pb2.Duration(seconds=RETRY_AFTER_S)
        status.details.add().Pack(error_details_pb2.RetryInfo(retry_delay=delay))
    return status
