"""A refusal as `google.rpc.Status`: what a caller reads when no decision could be made.

Guaranteed: what leaves is the reason's name, its fixed sentence and whom a caller can ask, never `detail`.
"""

from typing import Final

from google.protobuf import duration_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2

from licet.refusal import DOMAIN, Refusal, Status

RETRY_AFTER_S: Final = 1
"""What RetryInfo asks for: one beacon."""


ESCALATE_TO: Final = "escalateTo"
"""The key of ErrorInfo's metadata under which stands who can be asked."""


def status_of(refusal: Refusal, escalate_to: str = "") -> status_pb2.Status:
    """Return what the caller reads of `refusal`, and who can be asked about it."""
    status = status_pb2.Status(code=code_pb2.Code.Value(refusal.status.value), message=refusal.message)
    told = {ESCALATE_TO: escalate_to} if escalate_to else {}
    info = error_details_pb2.ErrorInfo(reason=refusal.reason.value, domain=DOMAIN, metadata=told)
    status.details.add().Pack(info)
    if refusal.status is Status.UNAVAILABLE:
        delay = duration_pb2.Duration(seconds=RETRY_AFTER_S)
        status.details.add().Pack(error_details_pb2.RetryInfo(retry_delay=delay))
    return status
