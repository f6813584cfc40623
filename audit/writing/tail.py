"""Reads a JetStream stream in order from any sequence, with no state on the server that decides anything.

Guarantees: `read(first)` returns messages with ascending sequences, the first of them at or after `first`,
none left out by this client: a lost delivery or a vanished consumer starts a new one. What the server itself
no longer has shows as a jump in the sequences; telling it is the caller's part. Memory: at most MAX_BYTES
and `rows` messages at a time; nothing is asked for before it is wanted.

The consumer is ephemeral and takes no acks; it is a cursor that may be dropped at any moment.
"""

import asyncio
import secrets
from typing import TYPE_CHECKING, Final

from nats.errors import Error as NatsError

from audit.store.stored import Stored
from licet.streams import StoreUnavailable
from licet.streams.api import SOURCE_HEADER, call

if TYPE_CHECKING:
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

    from licet.streams import Connection

MAX_BYTES: Final = 16 << 20
"""Bytes of one read; a batch of ordinary events is far below."""
WAIT_S: Final = 1.0
"""How long a read at the stream's end waits for a message."""
GRACE_S: Final = 3.0
"""An answer of which nothing came for so long past its time counts as lost."""
INACTIVE_NS: Final = 30_000_000_000
_SOURCE: Final = f"\r\n{SOURCE_HEADER}:".encode()
_ACK_TOKENS: Final = 9
"""`$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>`; newer servers put
two tokens before the stream."""


class Tail:
    """One cursor on one stream."""

    def __init__(self, nc: "Connection", stream: str) -> None:
        self._nc = nc
        self._stream = stream
        self._consumer = ""
        self._subscription: Subscription | None = None
        self._inbox = ""
        self._next = 0
        self._delivered = 0
        self._messages: list[Stored] = []
        self._wanted = 0
        self._done = asyncio.Event()
        self._lost = False

    @property
    def stream(self) -> str:
        """The stream's name."""
        return self._stream

    async def read(self, first: int, rows: int, wait_s: float = WAIT_S) -> list[Stored]:
        """Return up to `rows` messages from `first` on; an empty list after `wait_s` seconds without one.

        Raises StoreUnavailable; the next call starts afresh.
        """
        try:
            if not self._consumer or first != self._next:
                await self._open(first)
            found = await self._ask(rows, wait_s=0)
            if not found:
                found = await self._ask(1, wait_s=wait_s)
        except (NatsError, TimeoutError) as error:
            await self.close()
            raise StoreUnavailable(
                f"stream `{self._stream}` gave no answer: {type(error).__name__}"
            ) from error
        except StoreUnavailable:
            await self.close()
            raise
        if found:
            self._next = found[-1].seq + 1
        return found

    async def close(self) -> None:
        """Drop the cursor; the server forgets it by itself."""
        subscription, self._subscription, self._consumer = self._subscription, None, ""
        if subscription is not None:
            self._nc.leave(subscription)
        if subscription is not None and not self._nc.is_closed:
            try:
                await subscription.unsubscribe()
            except NatsError:
                return

    async def _open(self, first: int) -> None:
        await self.close()
        self._inbox = self._nc.new_inbox()
        self._subscription = await self._nc.subscribe(self._inbox, cb=_unheard)
        self._nc.take_whole(self._subscription, self._take)
        name = f"tail-{secrets.token_hex(8)}"
        config = {
            "name": name,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": max(first, 1),
            "ack_policy": "none",
            "replay_policy": "instant",
            "inactive_threshold": INACTIVE_NS,
            "mem_storage": True,
            "num_replicas": 1,
        }
        body = {"stream_name": self._stream, "config": config}
        await call(self._nc, f"CONSUMER.CREATE.{self._stream}.{name}", body)
        self._consumer, self._next, self._delivered = name, first, 0

    async def _ask(self, rows: int, wait_s: float) -> list[Stored]:
        self._messages, self._wanted, self._lost = [], rows, False
        self._done.clear()
        limits = f'{{"batch":{rows},"max_bytes":{MAX_BYTES}'
        limits += f',"expires":{int(wait_s * 1e9)}}}' if wait_s else ',"no_wait":true}'
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._consumer}"
        await self._nc.publish(subject, limits.encode(), reply=self._inbox)
        await self._all(wait_s + GRACE_S)
        if self._lost:
            raise StoreUnavailable(f"the cursor on `{self._stream}` was lost")
        return self._messages

    async def _all(self, grace_s: float) -> None:
        """Wait for the end of an answer; TimeoutError when nothing more of it comes for `grace_s` seconds.

        The time runs anew with each message: a slow machine may take long for a batch, and must get it.
        """
        while not self._done.is_set():
            before = self._delivered
            try:
                async with asyncio.timeout(grace_s):  # wait_for of 3.11 may swallow a cancel (bpo-37658)
                    await self._done.wait()
            except TimeoutError:
                if self._delivered == before:
                    raise

    def _take(self, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        tokens = reply.split(b".")
        if len(tokens) < _ACK_TOKENS or tokens[1] != b"ACK":
            status, _, description = headers.partition(b"\r\n")[0].partition(b" ")[2].partition(b" ")
            self._lost = status not in {b"404", b"408", b"409"} or b"consumer deleted" in description.lower()
            self._done.set()
            return
        shift = 0 if len(tokens) == _ACK_TOKENS else 2
        self._delivered += 1
        if int(tokens[6 + shift]) != self._delivered:
            self._lost = True  # a delivery did not arrive: start again where we stand
            self._done.set()
            return
        self._messages.append(
            Stored(
                self._stream,
                subject.decode("utf-8", "surrogateescape"),
                int(tokens[5 + shift]),
                int(tokens[7 + shift]) // 1000,
                data,
                _origin(headers) if headers else 0,
            )
        )
        if len(self._messages) >= self._wanted:
            self._done.set()


async def _unheard(_: "Msg") -> None:
    """What nats-py wants for a subscription; messages take the short way."""


def _origin(headers: bytes) -> int:
    """Return which sequence of the spend stream a message of the log copies; 0 if it says none."""
    words = headers.partition(_SOURCE)[2].partition(b"\r\n")[0].split()
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
