"""What every method of approvals and tasks does around its work: who asks, the caller's quota, the store.

Guaranteed: no work for a peer that the transport cannot name, or past its quota; a store or a journal that
takes nothing is STORE_UNAVAILABLE, and whatever is refused says whom to ask.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.message import Message

from decider.quota import cost_of
from decider.service import OVER_QUOTA, Context, Identify, abort
from licet.journal import SpoolError
from licet.refusal import Reason, Refusal
from licet.streams import StreamsError

Found = TypeVar("Found")


def _untold(_peer: str, _refusal: Refusal) -> None:
    """Tell nobody but the caller."""


@dataclass(frozen=True, slots=True)
class Reception:
    """`admit` takes so much of a caller's quota, `way` says whom callers can ask."""

    identify: Identify
    admit: Callable[[str, int], bool]
    way: Callable[[], str]

    async def serve(
        self,
        context: Context,
        request: Message,
        work: Callable[[str], Awaitable[Found | Refusal]],
        *,
        refused: Callable[[str, Refusal], None] = _untold,
    ) -> Found:
        """Return what `work` finds for the peer, or end the call; `refused` hears what the work refused."""
        peer = self.identify(context)
        if not peer:
            await abort(context, Refusal(Reason.CALLER_UNKNOWN))
        if not self.admit(peer, cost_of(request.ByteSize())):
            await abort(context, OVER_QUOTA, self.way())
        result: Found | Refusal
        try:
            result = await work(peer)
        except (StreamsError, SpoolError) as error:
            result = Refusal(Reason.STORE_UNAVAILABLE, str(error))
        if isinstance(result, Refusal):
            refused(peer, result)
            await abort(context, result, self.way())
        return result
