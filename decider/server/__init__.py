"""gRPC's unary calls over ngh2: what `grpc.aio` is to our services, at a fraction of its CPU."""

from decider.server.connection import Limits
from decider.server.server import UnaryServer
from decider.server.tls import mutual_tls

__all__ = ["Limits", "UnaryServer", "mutual_tls"]
