"""Signed webhooks: each notice as one POST, tried again for a while, in an order of its own.

Signed as Standard Webhooks says: `webhook-id`, `webhook-timestamp`, `webhook-signature` over
`id.timestamp.body`, `v1` by HMAC-SHA-256 or `v1a` by Ed25519. The id stays the same over tries, so a receiver
can drop a second copy. Guarantees: addresses come from the file alone, nobody waits for a delivery, and a
queue that is full or a server that stays away costs notices and nothing else; both are logged.
"""

import asyncio
import base64
import hashlib
import hmac
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from nacl.signing import SigningKey

from decider.https import Endpoint, HttpsError, Question, ask, check_url
from decider.notices.notice import Notice, NoticeKind
from decider.source import Section, read
from licet.clock import wall_ms
from licet.keyfile import KeyFileError, read_secret
from licet.log import log

logger = logging.getLogger(__name__)

RETRY_S: Final = (1.0, 5.0, 30.0, 120.0, 600.0)
"""How long to wait before each new try, in s."""

MAX_WAITING: Final = 1_000
"""Notices that wait for one webhook; beyond it new ones are dropped."""

MAX_ANSWER_BYTES: Final = 16 << 10
SCHEMES: Final = ("hmac", "ed25519")


@dataclass(frozen=True, slots=True)
class Hook:
    """Where notices go, which, and how they are signed."""

    name: str
    endpoint: Endpoint
    scheme: str
    secret: bytes = field(repr=False)
    kinds: frozenset[NoticeKind] = frozenset(NoticeKind)


def signature(hook: Hook, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of `webhook-signature`."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    if hook.scheme == "ed25519":
        made, version = SigningKey(hook.secret).sign(signed).signature, "v1a"
    else:
        made, version = hmac.new(hook.secret, signed, hashlib.sha256).digest(), "v1"
    return f"{version},{base64.b64encode(made).decode()}"


class Webhook:
    """Delivers the notices of one hook, one after another. `pause` is how it waits before a new try."""

    def __init__(
        self,
        hook: Hook,
        *,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        retry_s: Sequence[float] = RETRY_S,
    ) -> None:
        self._hook, self._pause, self._retry_s = hook, pause, tuple(retry_s)
        self._waiting: asyncio.Queue[Notice] = asyncio.Queue(MAX_WAITING)

    def tell(self, notice: Notice) -> None:
        """Take a notice to deliver; returns at once."""
        if notice.kind not in self._hook.kinds:
            return
        try:
            self._waiting.put_nowait(notice)
        except asyncio.QueueFull:
            log(logger, logging.ERROR, "webhook.full", webhook=self._hook.name, hold_id=notice.hold_id)

    async def run(self) -> None:
        """Deliver until cancelled."""
        while True:
            await self._deliver(await self._waiting.get())

    async def _deliver(self, notice: Notice) -> None:
        message_id, body = f"msg_{secrets.token_hex(16)}", notice.body()
        for wait_s in (*self._retry_s, None):
            why = await self._post(message_id, body)
            if not why:
                return
            if wait_s is None:
                log(
                    logger, logging.ERROR, "webhook.given_up", webhook=self._hook.name, hold_id=notice.hold_id
                )
                return
            log(logger, logging.WARNING, "webhook.failed", webhook=self._hook.name, detail=why[:300])
            await self._pause(wait_s)

    async def _post(self, message_id: str, body: bytes) -> str:
        """Send it once; return why it was not taken, empty where it was."""
        timestamp = wall_ms() // 1_000
        headers = {
            "content-type": "application/json",
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signature(self._hook, message_id, timestamp, body),
        }
        try:
            status, _ = await asyncio.to_thread(ask, self._hook.endpoint, Question(body, headers))
        except HttpsError as error:
            return str(error)
        return "" if 200 <= status < 300 else f"it answers {status}"


def read_hooks(path: Path | None) -> tuple[Hook, ...]:
    """Return the webhooks of a file; none without one. Raises `SourceError` with every fault."""
    if path is None:
        return ()
    top, faults = read(path)
    listed = top.section("webhooks", required=True)
    hooks = []
    for name in listed.names() if listed is not None else ():
        section = listed.section(name) if listed is not None else None
        if section is not None:
            hooks.append(_hook(name, section, path.parent))
            section.close()
    top.close()
    faults.raise_any()
    return tuple(hooks)


def _hook(name: str, section: Section, directory: Path) -> Hook:
    url, ca_file = section.text("url"), section.text("ca_file", "")
    scheme, key_file = section.text("signature", "hmac"), section.text("key_file")
    secret = bytes(32)
    try:
        check_url(url)
    except HttpsError as error:
        section.refuse("url", str(error))
    if scheme not in SCHEMES:
        section.refuse("signature", f"must be one of {', '.join(SCHEMES)}")
    try:
        secret = read_secret(directory / key_file)
    except KeyFileError as error:
        section.refuse("key_file", str(error))
    wanted = section.texts("events") or tuple(NoticeKind)
    unknown = [kind for kind in wanted if kind not in set(NoticeKind)]
    if unknown:
        section.refuse("events", f"`{unknown[0]}` must be one of {', '.join(NoticeKind)}")
    authority = directory / ca_file if ca_file else None
    private = section.flag("private", default=False)
    endpoint = Endpoint(url, authority, max_bytes=MAX_ANSWER_BYTES, private=private)
    kinds = frozenset(kind for kind in NoticeKind if kind in wanted)
    return Hook(name, endpoint, scheme, secret, kinds)
