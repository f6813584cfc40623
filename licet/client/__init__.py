"""The agent's side: a stub that fetches a permit and makes the call.

Start at `Client` or `AsyncClient`. Neither takes anything from the model but the call itself.
"""

from licet.client.aio import AsyncClient
from licet.client.client import Client
from licet.client.errors import Denied, GateError, Held, OutcomeUnknown, Refused, Unavailable
from licet.client.exchange import Permitted, Step

__all__ = [
    "AsyncClient",
    "Client",
    "Denied",
    "GateError",
    "Held",
    "OutcomeUnknown",
    "Permitted",
    "Refused",
    "Step",
    "Unavailable",
]
