"""Publishes to JetStream and waits for the ack, many at once over one inbox.

One subscription takes every ack of a connection; a publish costs one future and one publish of nats-py with
`reply`. Works through a service import too, since the server maps the reply back.

Guaranteed: `publish` returns only what the server acked. Not guaranteed: after StoreUnavailable the message
may or may not be stored; repeat it with the same `msg_id` to find out.
"""

import asyncio
import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol, Self

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from licet.streams.connection import Connection
from licet.streams.errors import StoreRefused, StoreUnavailable

if TYPE_CHECKING:
    from nats.aio.subscription import Subscription

MSG_ID: Final = "Nats-Msg-Id"
MAX_IN_FLIGHT: Final = 8_192
"""Acks waited for at once; one more is refused, so a dead server cannot fill our memory."""
DEFAULT_TIMEOUT_S: Final = 2.0

_PLAIN_ACK: Final = re.compile(rb'\{"stream":"([A-Za-z0-9_-]{1,255})","seq":([1-9][0-9]{0,18})\}')
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
_FORBIDDEN: Final = re.compile(r'permissions violation for publish to "([^"]*)"', re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PubAck:
    """The server's word that a message is stored; `duplicate`: it was, under this `Nats-Msg-Id`."""

    stream: str
    seq: int
    duplicate: bool = False


class Publishing(Protocol):
    """What a durable queue and a spend client need of a publisher."""

    @property
    def connected(self) -> bool:
        """Whether a publish has a chance right now."""

    @property
    def reconnected_at_ms(self) -> int:
        """When the connection last came back, Unix ms; 0 while it has never been lost."""

    async def begin(
        self, subject: str, body: bytes, *, msg_id: str | None = None
    ) -> "asyncio.Future[PubAck]":
        """Publish and return the future of the ack."""

    async def publish(
        self, subject: str, body: bytes, *, msg_id: str | None = None, timeout: float = DEFAULT_TIMEOUT_S
    ) -> PubAck:
        """Publish and return the ack."""


class Publisher:
    """One muxed inbox on one connection. `open` makes one; `close` fails what still waits."""

    def __init__(self, nc: Client, inbox: str) -> None:
        self._nc = nc
        self._inbox = inbox
        self._tokens = itertools.count()
        self._waiting: dict[str, tuple[str, asyncio.Future[PubAck]]] = {}
        self._subscription: Subscription | None = None
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def open(cls, nc: Client) -> Self:
        """Subscribe the inbox on `nc`; a `Connection` also reports forbidden publishes at once."""
        publisher = cls(nc, nc.new_inbox())
        publisher._subscription = await nc.subscribe(f"{publisher._inbox}.*", cb=publisher._on_ack)
        if isinstance(nc, Connection):
            nc.listeners.append(publisher._on_error)
            nc.take(publisher._subscription, publisher._take)
        return publisher

    @property
    def nc(self) -> Client:
        """The connection, for reads."""
        return self._nc

    @property
    def in_flight(self) -> int:
        """How many acks are being waited for."""
        return len(self._waiting)

    @property
    def connected(self) -> bool:
        """Whether a publish has a chance right now."""
        return bool(self._nc.is_connected)

    @property
    def reconnected_at_ms(self) -> int:
        """When the connection last came back, Unix ms; 0 while it has never been lost."""
        return self._nc.reconnected_at_ms if isinstance(self._nc, Connection) else 0

    async def publish(
        self,
        subject: str,
        body: bytes,
        *,
        msg_id: str | None = None,
        headers: dict[str, str] | None = None,
        timeout: float = DEFAULT_TIMEOUT_S,
    ) -> PubAck:
        """Publish `body` and return the ack.

        Raises:
            StoreRefused: the server answered no; nothing was stored.
            StoreUnavailable: no ack in time, not connected, forbidden, or no stream has the subject.
        """
        future = await self.begin(subject, body, msg_id=msg_id, headers=headers)
        # Not `asyncio.timeout`: it costs as much again as the publish itself, on every call that spends.
        late = self._loop.call_later(timeout, _give_up, future, f"no ack for `{subject}` within {timeout} s")
        try:
            return await future
        finally:
            late.cancel()

    async def begin(
        self, subject: str, body: bytes, *, msg_id: str | None = None, headers: dict[str, str] | None = None
    ) -> "asyncio.Future[PubAck]":
        """Publish `body` and return the future of its ack, for callers that keep many on their way.

        The caller bounds the wait and cancels what it gives up on: a future nobody cancels stays in the
        table.

        Raises:
            StoreUnavailable: not connected, or the client's buffer is full.
        """
        if not self._nc.is_connected:
            raise StoreUnavailable("not connected to nats", maybe_stored=False)
        if len(self._waiting) >= MAX_IN_FLIGHT:
            raise StoreUnavailable(f"{MAX_IN_FLIGHT} publishes wait for their acks", maybe_stored=False)
        token = format(next(self._tokens), "x")
        future: asyncio.Future[PubAck] = self._loop.create_future()
        self._waiting[token] = (subject, future)
        future.add_done_callback(partial(self._waiting.pop, token))  # the future itself is pop's default
        try:
            await self._send(subject, body, f"{self._inbox}.{token}", msg_id, headers)
        except NatsError as error:
            future.cancel()
            cause = str(error) or type(error).__name__
            raise StoreUnavailable(f"could not publish to `{subject}`: {cause}") from error
        except BaseException:
            future.cancel()
            raise
        return future

    async def _send(
        self, subject: str, body: bytes, reply: str, msg_id: str | None, headers: dict[str, str] | None
    ) -> None:
        if msg_id is not None and not headers and isinstance(self._nc, Connection):
            await self._nc.post(subject, reply, body, msg_id)
            return
        sent = dict(headers or {})
        if msg_id is not None:
            sent[MSG_ID] = msg_id
        await self._nc.publish(subject, body, reply=reply, headers=sent or None)

    async def close(self) -> None:
        """Stop listening; whoever still waits gets StoreUnavailable. The connection stays open."""
        if isinstance(self._nc, Connection) and self._on_error in self._nc.listeners:
            self._nc.listeners.remove(self._on_error)
        for _, future in self._waiting.values():
            if not future.done():
                future.set_exception(StoreUnavailable("the publisher was closed"))
        if self._subscription is not None and not self._nc.is_closed:
            await self._subscription.unsubscribe()

    async def _on_ack(self, message: Msg) -> None:
        self._answer(message.subject, message.data, dict(message.headers or {}))

    def _take(self, subject: bytes, data: bytes) -> None:
        self._answer(subject.decode("utf-8", "replace"), data, _NO_HEADERS)

    def _answer(self, subject: str, data: bytes, headers: Mapping[str, str]) -> None:
        waiting = self._waiting.get(subject.rpartition(".")[2])
        if waiting is None or waiting[1].done():
            return  # came too late; its publisher has given up
        answer = parse_ack(data, headers)
        if isinstance(answer, PubAck):
            waiting[1].set_result(answer)
        else:
            waiting[1].set_exception(answer)

    def _on_error(self, error: Exception) -> None:
        forbidden = _FORBIDDEN.search(str(error))
        if forbidden is None:
            return
        subject = forbidden[1].lower()  # nats-py hands the server's text on in lower case
        for waited, future in self._waiting.values():
            if waited.lower() == subject and not future.done():
                forbids = f"this nats user may not publish to `{waited}`"
                future.set_exception(StoreUnavailable(forbids, maybe_stored=False))


def _give_up(ack: "asyncio.Future[PubAck]", why: str) -> None:
    if not ack.done():
        ack.set_exception(StoreUnavailable(why))


def parse_ack(data: bytes, headers: Mapping[str, str]) -> PubAck | StoreRefused | StoreUnavailable:
    """Read a JetStream publish ack; anything that is not exactly one is StoreUnavailable."""
    if not data and headers.get("Status") == "503":
        return StoreUnavailable("no stream takes this subject", maybe_stored=False)
    plain = _PLAIN_ACK.fullmatch(data)
    if plain is not None:  # nearly every one; anything else is read in full
        return PubAck(plain[1].decode("ascii"), int(plain[2]))
    try:
        answer = json.loads(data)
        if "error" in answer:
            return StoreRefused(
                int(answer["error"].get("err_code", 0)), str(answer["error"].get("description", ""))
            )
        stream, seq, duplicate = answer["stream"], answer["seq"], answer.get("duplicate", False)
    except (ValueError, KeyError, TypeError, AttributeError):
        return StoreUnavailable("the ack cannot be read")
    if not isinstance(stream, str) or type(seq) is not int or seq < 1 or not isinstance(duplicate, bool):
        return StoreUnavailable("the ack cannot be read")
    return PubAck(stream, seq, duplicate)
