"""The seven streams of an environment and what of their settings is a guarantee rather than a size.

| stream | holds | guarantee it rests on |
|---|---|---|
| `LICET_SPEND_<env>` | reserves, outcomes | one message a subject: no eviction, delete, purge, rollup, TTL |
| `LICET_SPEND_LOG_<env>` | the server's copy of it | no own subject, no dedup: nobody can make it skip |
| `LICET_AUDIT_<env>` | journal events | refuses when full, never drops the oldest |
| `LICET_LEDGER_<env>` | rows of outboxes | write-once like spends, so two relays need no agreement |
| `LICET_PAYLOAD_<env>` | sealed payloads of events | as the events they belong to |
| `LICET_CONFIG_<env>` | active configuration, artifacts | nothing goes away; compare-and-set |
| `LICET_BUDGET_<env>` | balances, bookings | the last record of a subject; all of a batch or nothing |

Sizes and ages are an operator's choice; everything else is compared by `problems` as a closed world: a
setting that this version does not know is a problem as soon as it is set, since tomorrow's server may use
it to drop messages.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from licet.streams.subjects import (
    stream_audit,
    stream_budget,
    stream_config,
    stream_ledger,
    stream_payload,
    stream_spend,
    stream_spend_log,
)

NANOSECONDS: Final = 1_000_000_000
DAY_S: Final = 86_400
MIB: Final = 1 << 20

SPEND_MAX_AGE_S: Final = DAY_S
"""Steps at unguarded tools can be told from new ones for this long."""
DEDUP_WINDOW_S: Final = 120
"""How long the server knows a Msg-Id; twice a permit's life, so a retry to the permit's end needs no
read-back.
"""
MAX_MESSAGE_BYTES: Final = 512 * 1024
"""An event is at most 256 KiB, a sealed payload 448; a reserve carries a permit and up to four approvals."""


@dataclass(frozen=True, slots=True)
class StreamSizes:
    """Room per stream in bytes, and how long what the audit store has copied is kept, in seconds.

    The server sets the room aside when a stream is made, so their sum must fit the disk. A full stream
    refuses: writes stop (STORE_FULL, AUDIT_BACKPRESSURE) and nothing is lost. 600,000 spends take about 342
    MB.
    """

    spend_bytes: int = 1024 * MIB
    spend_log_bytes: int = 2048 * MIB
    audit_bytes: int = 4096 * MIB
    ledger_bytes: int = 1024 * MIB
    config_bytes: int = 256 * MIB
    payload_bytes: int = 2048 * MIB
    budget_bytes: int = 256 * MIB
    kept_s: int = 7 * DAY_S
    """Age at which log, audit, ledger and payload messages go; the writer must not be away for longer."""


EMBEDDED_SIZES: Final = StreamSizes(
    256 * MIB, 512 * MIB, 1024 * MIB, 256 * MIB, 64 * MIB, 256 * MIB, 64 * MIB
)
"""For `licet up` on a laptop: 2.4 GiB in all."""


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """One stream as it is wanted: `settings` as JetStream's API spells them."""

    name: str
    settings: Mapping[str, Any]

    def request(self) -> dict[str, Any]:
        """Return the body of a create or update request."""
        return {"name": self.name, **self.settings}


@dataclass(frozen=True, slots=True)
class Problem:
    """One setting of one stream that is not as it must be; `found` is None where it is missing."""

    stream: str
    setting: str
    found: Any
    wanted: Any

    def __str__(self) -> str:
        return f"stream `{self.stream}`: {self.setting} is `{self.found}`, must be `{self.wanted}`"


_SAFE: Final[dict[str, Any]] = {
    "retention": "limits",
    "storage": "file",
    "discard": "new",
    "discard_new_per_subject": False,
    "max_msgs": -1,
    "max_consumers": -1,
    "max_msgs_per_subject": -1,
    "max_msg_size": MAX_MESSAGE_BYTES,
    "max_age": 0,
    "duplicate_window": DEDUP_WINDOW_S * NANOSECONDS,
    "deny_delete": True,
    "deny_purge": True,
    "allow_rollup_hdrs": False,
    "allow_msg_ttl": False,
    "allow_direct": False,
    "mirror_direct": False,
    "sealed": False,
    "no_ack": False,
    "subjects": [],
    "sources": [],
    "compression": "none",
}
_WRITE_ONCE: Final = {"max_msgs_per_subject": 1, "discard_new_per_subject": True}
_LAST_ONLY: Final = {"max_msgs_per_subject": 1, "allow_atomic": True, "allow_msg_ttl": True}
"""A record replaces the one before it; what is over takes its own leave."""

_SIZES: Final = frozenset({"max_bytes", "num_replicas", "placement", "description"})
"""Settings an operator may choose; `max_bytes` and `num_replicas` still have a least value, see `problems`.
"""
_IGNORED: Final = frozenset({"name", "metadata", "consumer_limits", "first_seq"})
"""Say nothing about what is kept."""


def stream_configs(
    env: str, *, replicas: int = 1, sizes: StreamSizes = StreamSizes()
) -> tuple[StreamConfig, ...]:
    """Return the seven streams of `env` as they must be; 3 replicas in production."""
    kept = {"max_age": sizes.kept_s * NANOSECONDS}

    def make(name: str, max_bytes: int, **settings: Any) -> StreamConfig:
        return StreamConfig(name, {**_SAFE, "max_bytes": max_bytes, "num_replicas": replicas, **settings})

    return (
        make(
            stream_spend(env),
            sizes.spend_bytes,
            subjects=[f"licet.spend.{env}.>"],
            max_age=SPEND_MAX_AGE_S * NANOSECONDS,
            **_WRITE_ONCE,
        ),
        make(
            stream_spend_log(env),
            sizes.spend_log_bytes,
            sources=[{"name": stream_spend(env)}],
            duplicate_window=0,
            **kept,
        ),
        make(stream_audit(env), sizes.audit_bytes, subjects=[f"licet.audit.{env}.>"], **kept),
        make(
            stream_ledger(env), sizes.ledger_bytes, subjects=[f"licet.ledger.{env}.>"], **_WRITE_ONCE, **kept
        ),
        make(stream_payload(env), sizes.payload_bytes, subjects=[f"licet.payload.{env}.>"], **kept),
        make(stream_config(env), sizes.config_bytes, subjects=[f"licet.config.{env}.>"]),
        make(stream_budget(env), sizes.budget_bytes, subjects=[f"licet.budget.{env}.>"], **_LAST_ONLY),
    )


def problems(wanted: StreamConfig, found: Mapping[str, Any]) -> tuple[Problem, ...]:
    """Return every setting of `found` (as STREAM.INFO gives it) that breaks a guarantee of `wanted`; pure."""
    listed: list[Problem] = []
    for setting, value in wanted.settings.items():
        if setting in _SIZES:
            continue
        actual = _plain(setting, found)
        if setting == "max_age" and _age_is_longer(actual, value):
            continue
        if actual != value:
            listed.append(Problem(wanted.name, setting, actual, value))
    known = wanted.settings.keys() | _SIZES | _IGNORED
    listed += [
        Problem(wanted.name, setting, value, None)
        for setting, value in found.items()
        if setting not in known and value
    ]
    return (*listed, *_size_problems(wanted, found))


def _plain(setting: str, found: Mapping[str, Any]) -> Any:
    """What STREAM.INFO leaves out is off; what a source says beside its name must be nothing."""
    empty: Any = type(_SAFE[setting])() if setting in _SAFE else None
    value = found.get(setting, empty)
    if setting == "max_msg_size":
        return value
    return value if value is not None else empty


def _age_is_longer(actual: Any, value: Any) -> bool:
    return isinstance(actual, int) and value != 0 and (actual == 0 or actual > value)


def _size_problems(wanted: StreamConfig, found: Mapping[str, Any]) -> tuple[Problem, ...]:
    replicas = found.get("num_replicas", 1)
    if replicas < wanted.settings["num_replicas"]:
        return (Problem(wanted.name, "num_replicas", replicas, wanted.settings["num_replicas"]),)
    return ()
