"""Makes the seven streams what they must be, and says what of them is not."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from nats.aio.client import Client

from licet.streams.api import call, stream_info
from licet.streams.errors import StoreRefused, UnsafeChange
from licet.streams.settings import Problem, StreamConfig, StreamSizes, problems, stream_configs

_FREE: Final = ("max_bytes", "num_replicas", "max_age")


@dataclass(frozen=True, slots=True)
class Applied:
    """What was done to one stream. `repaired` lists settings that were unsafe until now.

    After a repair of the spend stream the operator must bump the generation: messages may have gone while
    it was unsafe.
    """

    stream: str
    action: Literal["created", "updated", "unchanged"]
    repaired: tuple[Problem, ...] = ()


async def apply_streams(
    nc: Client,
    env: str,
    *,
    replicas: int = 1,
    sizes: StreamSizes = StreamSizes(),  # noqa: B008 - frozen
) -> tuple[Applied, ...]:
    """Create what is missing and bring the rest to the wanted settings; a second run changes nothing.

    A stream is never deleted or recreated, and where messages are stored a longer `max_age` stays.

    Raises:
        UnsafeChange: the change would evict stored messages, or the server cannot make it in place.
        StoreRefused, StoreUnavailable: as everywhere.
    """
    return tuple([await _apply(nc, wanted) for wanted in stream_configs(env, replicas=replicas, sizes=sizes)])


async def _apply(nc: Client, wanted: StreamConfig) -> Applied:
    info = await stream_info(nc, wanted.name)
    if info is None:
        await call(nc, f"STREAM.CREATE.{wanted.name}", wanted.request())
        return Applied(wanted.name, "created")
    found = info["config"]
    merged = _without_loss(wanted, found, info["state"])
    unsafe = problems(wanted, found)
    if not unsafe and all(found.get(setting) == merged[setting] for setting in _FREE):
        return Applied(wanted.name, "unchanged")
    try:
        await call(nc, f"STREAM.UPDATE.{wanted.name}", merged)
    except StoreRefused as refused:
        raise UnsafeChange(
            f"stream `{wanted.name}` cannot be changed in place: {refused.description}"
        ) from refused
    return Applied(wanted.name, "updated", unsafe)


def _without_loss(wanted: StreamConfig, found: Mapping[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
    """Merge sizes so that nothing stored goes; settings the server filled in by itself are kept out."""
    merged = wanted.request()
    if merged["max_age"] and state["messages"] and _shorter(merged["max_age"], found.get("max_age", 0)):
        merged["max_age"] = found.get("max_age", 0)
    if merged["max_bytes"] < state["bytes"]:
        more = f"{state['bytes']} bytes, more than its new limit {merged['max_bytes']}"
        raise UnsafeChange(f"stream `{wanted.name}` holds {more}")
    if merged["max_msgs_per_subject"] == 1 and state["messages"] > state.get(
        "num_subjects", state["messages"]
    ):
        raise UnsafeChange(
            f"stream `{wanted.name}` holds subjects with two messages: it has not been write-once"
        )
    return merged


def _shorter(wanted_age: int, found_age: int) -> bool:
    return found_age == 0 or wanted_age < found_age


async def check_streams(
    nc: Client, env: str, *, replicas: int = 1, only: frozenset[str] | None = None
) -> tuple[Problem, ...]:
    """Return every unsafe setting of the streams of `env`, or of those named in `only`; empty: safe.

    Raises:
        StoreRefused, StoreUnavailable: a stream could not be looked at; that is not safe either.
    """
    listed: list[Problem] = []
    for wanted in stream_configs(env, replicas=replicas):
        if only is not None and wanted.name not in only:
            continue
        info = await stream_info(nc, wanted.name)
        listed += (
            (Problem(wanted.name, "stream", None, "present"),)
            if info is None
            else problems(wanted, info["config"])
        )
    return tuple(listed)
