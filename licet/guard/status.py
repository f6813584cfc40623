"""Refusals of the guard as gRPC statuses.

Guarantees: every refusal ends the call with its status, `google.rpc.ErrorInfo` (domain `licet`) and no
detail; the trailer `licet-effect` says `none`, and is missing exactly when the guard does not know or when
the step had another effect before: then only a fence can tell.
"""

import logging
from typing import Final, NoReturn

import grpc
from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from licet import metadata
from licet.refusal import DOMAIN, Reason, Refusal

EXECUTED: Final = "executed"
STORED: Final = "stored"
NONE: Final = "none"
"""Values of the trailer `licet-effect`."""

_UNSAID: Final = frozenset({Reason.SPENT, Reason.OUTCOME_UNKNOWN})
"""Refusals after which the step may have had an effect all the same."""

_logger = logging.getLogger(__name__)


def abort(context: grpc.ServicerContext, refusal: Refusal) -> NoReturn:
    """End the call with a refusal: status, reason, one safe sentence, and what is known of the effect."""
    _logger.info(
        "guard.refused", extra={"licet_fields": {"reason": refusal.reason, "detail": refusal.detail}}
    )
    detail = any_pb2.Any()
    detail.Pack(error_details_pb2.ErrorInfo(reason=refusal.reason, domain=DOMAIN))
    code = code_pb2.Code.Value(refusal.status)
    status = rpc_status.to_status(status_pb2.Status(code=code, message=refusal.message, details=[detail]))
    trailers = tuple(status.trailing_metadata)
    if refusal.reason not in _UNSAID:
        trailers = (*trailers, (metadata.EFFECT, NONE))
    context.set_trailing_metadata(trailers)
    context.abort(status.code, status.details)
    raise AssertionError("abort raises")
