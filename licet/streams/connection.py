"""A connection to NATS that notices a dead link within about 3 s and says why a publish was forbidden.

nats-py's defaults noticed a black-holed link only after minutes, report a forbidden publish as nothing but
a timeout, and try wrong credentials again and again. Here pings go out every second and two lost ones end
the link; permission violations reach listeners at once; refused credentials raise.

Not promised: that a publish reached the server. Only an ack says so (`publisher.py`).

Two of nats-py's inner steps have a short way here, `post` and `take`: each call at a door sends up to three
messages and reads as many acks, and the long ways cost it more than its checks
(docs/adr/0183-short-ways-through-nats-py.md).
"""

import asyncio
import logging
import re
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nats.aio.client import Client
from nats.errors import BadSubjectError, MaxPayloadError, NoServersError
from nats.errors import Error as NatsError

from licet.clock import wall_ms
from licet.log import log
from licet.streams.errors import CredentialsRefused, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from nats.aio.subscription import Subscription

logger = logging.getLogger(__name__)

PING_INTERVAL_S: Final = 1
MAX_OUTSTANDING_PINGS: Final = 2
CONNECT_TIMEOUT_S: Final = 2
_CANCEL_AGAIN_S: Final = 0.5
RECONNECT_WAIT_S: Final = 0.2
"""Short, because beacons end writes after 5 s."""

COMMAND_ATTEMPTS: Final = 3
"""A command gives up; a service never does."""

_WORDS: Final = re.compile(r"[!-~]+ [!-~]+ [!-~]+")
_REFUSED: Final = ("authorization violation", "authentication")


@dataclass(frozen=True, slots=True)
class NatsSettings:
    """Where NATS is and who we are there. Secrets are paths of files, never values."""

    url: str
    """One or more `nats://host:port`, separated by commas."""
    user: str = ""
    password_file: Path | None = None
    ca_file: Path | None = None
    """Set for TLS: who vouches for the server."""
    certificate_file: Path | None = None
    key_file: Path | None = None

    @property
    def servers(self) -> list[str]:
        """The addresses, as a list for nats-py."""
        return [part.strip() for part in self.url.split(",") if part.strip()]

    def password(self) -> str | None:
        """Return the password; read at each connect, so a rotated file needs no restart."""
        return self.password_file.read_text("utf-8").strip() if self.password_file else None

    def tls(self) -> ssl.SSLContext | None:
        """Return the TLS context, None where TLS is off."""
        if self.ca_file is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=str(self.ca_file))
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        if self.certificate_file is not None:
            context.load_cert_chain(str(self.certificate_file), str(self.key_file) if self.key_file else None)
        return context


class Connection(Client):
    """A nats-py client that tells its listeners about errors, permission violations above all."""

    def __init__(self, *, quiet: bool = False) -> None:
        super().__init__()
        self._quiet = quiet
        self.listeners: list[Callable[[Exception], None]] = []
        self._logged = ""
        self.reconnected_at_ms = 0
        """When the connection last came back, Unix ms; 0 while it has never been lost."""
        self._takers: dict[int, Callable[[bytes, bytes], None]] = {}
        self._whole: dict[int, Callable[[bytes, bytes, bytes, bytes], None]] = {}

    async def post(self, subject: str, reply: str, body: bytes, msg_id: str) -> None:
        """Publish as `publish` does, with `Nats-Msg-Id` as the one header.

        Raises:
            BadSubjectError: a subject that would be read as more than one word of the protocol.
            MaxPayloadError: more bytes than the server takes.
        """
        if _WORDS.fullmatch(f"{subject} {reply} {msg_id}") is None:
            raise BadSubjectError
        size = len(body)
        if size > self.max_payload:
            raise MaxPayloadError
        header = f"NATS/1.0\r\nNats-Msg-Id: {msg_id}\r\n\r\n"
        line = f"HPUB {subject} {reply} {len(header)} {len(header) + size}\r\n{header}".encode()
        self.stats["out_msgs"] += 1
        self.stats["out_bytes"] += size
        await self._send_command(line + body + b"\r\n")
        if self._flush_queue is not None and self._flush_queue.empty():
            await self._flush_pending()

    def take(self, subscription: "Subscription", taker: "Callable[[bytes, bytes], None]") -> None:
        """Hand subject and data of each message of `subscription` to `taker`, as soon as it is read.

        What has headers still goes to the subscription's own callback. What `taker` raises, listeners hear.
        """
        self._takers[subscription._id] = taker  # noqa: SLF001 - nats-py names it to nobody else

    def take_whole(
        self, subscription: "Subscription", taker: "Callable[[bytes, bytes, bytes, bytes], None]"
    ) -> None:
        """Hand subject, reply, data and header block of each message to `taker`, as soon as it is read.

        Nothing goes to the subscription's own callback. What `taker` raises, listeners hear.
        """
        self._whole[subscription._id] = taker  # noqa: SLF001 - as above

    def leave(self, subscription: "Subscription") -> None:
        """End what `take_whole` began; what still comes goes to the subscription itself."""
        self._whole.pop(subscription._id, None)  # noqa: SLF001 - as above

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        taker, whole = self._takers.get(sid), self._whole.get(sid)
        if whole is None and (taker is None or headers):
            await super()._process_msg(sid, subject, reply, data, headers)
            return
        self.stats["in_msgs"] += 1
        self.stats["in_bytes"] += len(data)
        try:
            if whole is not None:
                whole(subject, reply, data, headers or b"")
            elif taker is not None:
                taker(subject, data)
        except Exception as error:  # noqa: BLE001 - it must not end the reading of this connection
            await self.on_error(error)

    async def on_error(self, error: Exception) -> None:
        """Hand `error` to every listener; registered as nats-py's error callback."""
        text = str(error)[:300]
        if text != self._logged and not self._quiet:  # every failed reconnect says the same again
            log(logger, logging.WARNING, "nats.error", detail=text)
            self._logged = text
        for listener in tuple(self.listeners):
            listener(error)

    async def on_reconnected(self) -> None:
        """Note that the server may be another one now, or the same on another disk."""
        self.reconnected_at_ms = wall_ms()


def inbox_prefix(user: str) -> str:
    """Return the prefix of a user's replies; its allow-list lets it read no other."""
    return f"_INBOX_{user}" if user else "_INBOX"


async def connect(
    settings: NatsSettings, name: str, *, forever: bool = True, within_s: float | None = 10.0
) -> Connection:
    """Connect as `settings.user`, shown to operators as `name`.

    Args:
        settings: where and who.
        name: what the server lists the connection as.
        forever: reconnect without end (a service); False gives up after a few tries (a command).
        within_s: how long the first connection may take, seconds; None waits without end.

    Raises:
        CredentialsRefused: the server does not accept the user or the password.
        StoreUnavailable: no server answered within `within_s`.
    """
    connection = Connection(quiet=not forever)  # a command tells its user itself
    refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def watch(error: Exception) -> None:
        if any(word in str(error).lower() for word in _REFUSED) and not refused.done():
            refused.set_result(None)

    connection.listeners.append(watch)
    attempt = asyncio.ensure_future(_open(connection, settings, name, forever=forever))
    try:
        await asyncio.wait({attempt, refused}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        if refused.done():
            raise CredentialsRefused(f"nats at `{settings.url}` does not accept user `{settings.user}`")
        if not attempt.done():
            raise StoreUnavailable(f"no nats server answered at `{settings.url}` within {within_s} s")
        attempt.result()
    except (OSError, NatsError, TimeoutError) as error:
        raise StoreUnavailable(
            f"no nats server at `{settings.url}`: {str(error) or type(error).__name__}"
        ) from error
    finally:
        connection.listeners.remove(watch)
        if not connection.is_connected:
            await _abandon(connection, attempt)
    return connection


async def _open(connection: Connection, settings: NatsSettings, name: str, *, forever: bool) -> None:
    await connection.connect(
        servers=settings.servers,
        name=name,
        user=settings.user or None,
        password=settings.password(),
        tls=settings.tls(),
        error_cb=connection.on_error,
        reconnected_cb=connection.on_reconnected,
        inbox_prefix=inbox_prefix(settings.user),
        ping_interval=PING_INTERVAL_S,
        max_outstanding_pings=MAX_OUTSTANDING_PINGS,
        connect_timeout=CONNECT_TIMEOUT_S,
        reconnect_time_wait=RECONNECT_WAIT_S,  # type: ignore[arg-type]  # a float works; it is passed to asyncio.sleep
        max_reconnect_attempts=-1 if forever else COMMAND_ATTEMPTS,
    )


async def _abandon(connection: Connection, attempt: "asyncio.Future[None]") -> None:
    while not attempt.done():  # nats-py at times takes a cancellation for a failed try, and tries again
        attempt.cancel()
        await asyncio.wait({attempt}, timeout=_CANCEL_AGAIN_S)
    if not attempt.cancelled():
        attempt.exception()  # seen: whoever gave up has said why
    try:
        await connection.close()
    except (NoServersError, NatsError, OSError, AssertionError):  # the last: it never began to connect
        logger.debug("nats.not_closed")
