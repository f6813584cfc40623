"""Refusals of the guard as gRPC statuses.

Guarantees: every refusal ends the call with its status, `google.rpc.ErrorInfo` (domain `licet`) and no
detail. The trailer `licet-effect` says `none` only when the step has had no effect at all, in this call or
before; when the guard cannot know, or the step had one, it is missing: then only a fence can tell.
"""

import logging
from typing import Final, NoReturn

import grpc
from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from licet import metadata
from licet.log import log
from licet.refusal import DOMAIN, Refusal

EXECUTED: Final = "executed"
STORED: Final = "stored"
NONE: Final = "none"
"""Values of the trailer `licet-effect`."""

_logger = logging.getLogger(__name__)


def abort(context: grpc.ServicerContext, refusal: Refusal, *, no_effect: bool = False) -> NoReturn:
    """End the call with a refusal: status, reason, one safe sentence; `no_effect` where that is sure."""
    log(_logger, logging.INFO, "guard.refused", reason=refusal.reason, detail=refusal.detail)
    detail = any_pb2.Any()
    detail.Pack(error_details_pb2.ErrorInfo(reason=refusal.reason, domain=DOMAIN))
    code = code_pb2.Code.Value(refusal.status)
    status = rpc_status.to_status(status_pb2.Status(code=code, message=refusal.message, details=[detail]))
    trailers = tuple(status.trailing_metadata)
    if no_effect:
        trailers = (*trailers, (metadata.EFFECT, NONE))
    context.set_trailing_metadata(trailers)
    context.abort(status.code, status.details)
    raise AssertionError("abort raises")
