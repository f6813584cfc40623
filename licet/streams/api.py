"""JetStream's own API, as far as licet uses it: settings and leader reads, over plain requests.

Every read here is answered by the stream's leader (`STREAM.MSG.GET`, never a direct get, which any follower
answers from what it has). A leader that was cut off a moment ago may answer once more; what decides is
therefore always a write.
"""

import base64
import json
from dataclasses import dataclass
from typing import Any, Final

from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError

from licet.streams.errors import StoreRefused, StoreUnavailable
from licet.streams.subjects import stream_spend, stream_spend_log

REQUEST_TIMEOUT_S: Final = 2.0
NO_STREAM: Final = 10059
NO_MESSAGE: Final = 10037
SUBJECTS_PAGE: Final = 100_000
"""Subjects that the server lists in one answer."""
SOURCE_HEADER: Final = "Nats-Stream-Source"


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One message as a stream's leader has it. `headers` hold the last value of each name."""

    seq: int
    subject: str
    data: bytes
    headers: dict[str, str]
    time: str


@dataclass(frozen=True, slots=True)
class SpendPosition:
    """How far the spend stream and its log are; both go into the beacon."""

    last_seq: int
    """Sequence of the newest spend record ever stored; 0 for none."""
    log_origin_seq: int
    """Sequence of the newest spend record that the log holds; 0 for none."""
    used_bytes: int
    max_bytes: int


async def call(
    nc: Client, subject: str, body: dict[str, Any] | None = None, *, timeout_s: float = REQUEST_TIMEOUT_S
) -> dict[str, Any]:
    """Ask JetStream's API and return its answer.

    Raises:
        StoreRefused: it answered with an error.
        StoreUnavailable: no answer within `timeout_s` seconds, or not one that can be read.
    """
    payload = json.dumps(body).encode() if body else b""
    try:
        message = await nc.request(f"$JS.API.{subject}", payload, timeout=timeout_s)
        answer = json.loads(message.data)
    except NoRespondersError as error:
        raise StoreUnavailable("jetstream is not there, or not for this user") from error
    except (NatsError, TimeoutError, ValueError) as error:
        raise StoreUnavailable(
            f"jetstream gave no answer to `{subject}`: {str(error) or 'timeout'}"
        ) from error
    if "error" in answer:
        raise StoreRefused(
            int(answer["error"].get("err_code", 0)), str(answer["error"].get("description", ""))
        )
    return dict(answer)


async def stream_info(nc: Client, stream: str) -> dict[str, Any] | None:
    """Return STREAM.INFO of `stream`, None where there is no such stream."""
    try:
        return await call(nc, f"STREAM.INFO.{stream}")
    except StoreRefused as refused:
        if refused.err_code == NO_STREAM:
            return None
        raise


async def list_subjects(nc: Client, stream: str, pattern: str) -> tuple[str, ...]:
    """Return every subject within `pattern` that has a message, sorted."""
    found: list[str] = []
    while True:
        asked = {"subjects_filter": pattern, "offset": len(found)}
        page = (await call(nc, f"STREAM.INFO.{stream}", asked))["state"].get("subjects") or {}
        found.extend(page)
        if len(page) < SUBJECTS_PAGE:
            return tuple(sorted(set(found)))


async def read_last(nc: Client, stream: str, subject: str) -> StoredMessage | None:
    """Return the newest message of `subject`, read from the stream's leader; None where there is none."""
    return await _get(nc, stream, {"last_by_subj": subject})


async def read_seq(nc: Client, stream: str, seq: int) -> StoredMessage | None:
    """Return the message with this sequence, read from the stream's leader; None where there is none."""
    return await _get(nc, stream, {"seq": seq})


async def read_from(nc: Client, stream: str, subject: str, seq: int) -> StoredMessage | None:
    """Return the first message of `subject` at `seq` or later, read from the leader; None for none."""
    return await _get(nc, stream, {"next_by_subj": subject, "seq": seq})


async def _get(nc: Client, stream: str, body: dict[str, Any]) -> StoredMessage | None:
    try:
        message = (await call(nc, f"STREAM.MSG.GET.{stream}", body))["message"]
    except StoreRefused as refused:
        if refused.err_code == NO_MESSAGE:
            return None
        raise
    headers = _headers(base64.b64decode(message.get("hdrs", "")))
    data = base64.b64decode(message.get("data", ""))
    return StoredMessage(int(message["seq"]), message["subject"], data, headers, message.get("time", ""))


def _headers(block: bytes) -> dict[str, str]:
    lines = block.decode("utf-8", "replace").split("\r\n")[1:]
    pairs = (line.partition(":") for line in lines if line)
    return {name.strip(): value.strip() for name, _, value in pairs}


def origin_seq(headers: dict[str, str]) -> int:
    """Return which sequence of the spend stream a message of the log copies; 0 if it says none."""
    parts = headers.get(SOURCE_HEADER, "").split(" ")
    return int(parts[1]) if len(parts) > 1 and parts[1].isascii() and parts[1].isdigit() else 0


async def spend_position(nc: Client, env: str) -> SpendPosition:
    """Return how far the spend stream and its log are.

    The log's position is read from the newest copy itself, not from the server's report of its own sourcing.
    The log is asked first, so `log_origin_seq` can lag behind `last_seq` but never runs ahead of it.

    Raises:
        StoreUnavailable: no answer, or a stream is missing.
    """
    log, spend = await stream_info(nc, stream_spend_log(env)), await stream_info(nc, stream_spend(env))
    if log is None or spend is None:
        raise StoreUnavailable(f"environment `{env}` has no spend stream or no spend log")
    newest = (
        await read_seq(nc, stream_spend_log(env), log["state"]["last_seq"])
        if log["state"]["last_seq"]
        else None
    )
    return SpendPosition(
        last_seq=int(spend["state"]["last_seq"]),
        log_origin_seq=origin_seq(newest.headers) if newest else 0,
        used_bytes=int(spend["state"]["bytes"]),
        max_bytes=int(spend["config"].get("max_bytes", -1)),
    )
