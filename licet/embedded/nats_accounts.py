"""Who may say what on NATS: one hub account for our own services, one account for each tool.

Users of one account are not isolated from each other: a `reply` on an allowed publish makes the server
store its ack under any subject, and `MSG.GET` reads any record. Accounts are. So a tool's sidecar lives in
an account of its own, which owns nothing and imports exactly three services (its spends, its events, its
ledger rows) and the beacon. Its one user has an allow-list besides, and replies under a prefix that no
other user may read. The tool process has no credentials at all.

The four hub users are our own services; their allow-lists limit a mistake or a stolen password, not a
rewritten service. Streams belong to the hub; only `setup` may change them, and only `setup` may write what is
in force: the active record, its artifacts, delegations. Deciders write tasks, their starts, and holds.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from licet.identity import subject_token
from licet.streams import (
    inbox_prefix,
    stream_audit,
    stream_budget,
    stream_config,
    stream_ledger,
    stream_payload,
    stream_spend,
    stream_spend_log,
    subject_audit,
    subject_beacon,
    subject_notice,
)

HUB: Final = "HUB"
SETUP: Final = "setup"
DECIDER: Final = "decider"
AUDIT_WRITER: Final = "audit-writer"
RECONCILER: Final = "reconciler"
DESK: Final = "desk"
"""Whoever tells approvers: hears notices of holds and can say nothing."""
HUB_USERS: Final = (SETUP, DECIDER, AUDIT_WRITER, RECONCILER, DESK)


def sidecar_user(tool: str) -> str:
    """Return the name of the one user of a tool's account."""
    return f"sidecar-{subject_token(tool)}"


def tool_account(tool: str) -> str:
    """Return the name of a tool's account."""
    return f"tool-{subject_token(tool)}"


def users(tools: Iterable[str]) -> tuple[str, ...]:
    """Return every user that `accounts` makes."""
    return (*HUB_USERS, *(sidecar_user(tool) for tool in tools))


def accounts(env: str, tools: Iterable[str], passwords: Mapping[str, str]) -> dict[str, Any]:
    """Return the `accounts` block of the server's configuration."""
    tools = tuple(tools)
    hub = {
        "jetstream": "enabled",
        "users": [_user(name, passwords[name], *_hub_permissions(name, env)) for name in HUB_USERS],
        "exports": [export for tool in tools for export in _exports(env, tool)],
    }
    return {HUB: hub} | {
        tool_account(tool): _tool(env, tool, passwords[sidecar_user(tool)]) for tool in tools
    }


def service_subjects(env: str, tool: str) -> tuple[str, str, str]:
    """Return the subjects a tool's account imports as services."""
    return (
        f"licet.spend.{env}.{tool}.>",
        subject_audit(env, "sidecar", tool),
        f"licet.ledger.{env}.{tool}.>",
    )


def _exports(env: str, tool: str) -> list[dict[str, Any]]:
    only = [tool_account(tool)]
    services = [{"service": subject, "accounts": only} for subject in service_subjects(env, tool)]
    return [*services, {"stream": subject_beacon(env), "accounts": only}]


def _tool(env: str, tool: str, password: str) -> dict[str, Any]:
    name, spend = sidecar_user(tool), f"licet.spend.{env}.{tool}"
    publish = [
        f"{spend}.*.*.reserve",
        f"{spend}.*.*.outcome",
        subject_audit(env, "sidecar", tool),
        f"licet.ledger.{env}.{tool}.*",
    ]
    services = [{"service": {"account": HUB, "subject": subject}} for subject in service_subjects(env, tool)]
    return {
        "users": [_user(name, password, publish, [subject_beacon(env)])],
        "imports": [*services, {"stream": {"account": HUB, "subject": subject_beacon(env)}}],
    }


def _user(name: str, password: str, publish: list[str], subscribe: list[str]) -> dict[str, Any]:
    return {
        "user": name,
        "password": password,
        "permissions": {
            "publish": {"allow": publish},
            "subscribe": {"allow": [f"{inbox_prefix(name)}.>", *subscribe]},
        },
    }


def _hub_permissions(name: str, env: str) -> tuple[list[str], list[str]]:
    every = (
        stream_spend(env),
        stream_spend_log(env),
        stream_audit(env),
        stream_ledger(env),
        stream_config(env),
        stream_payload(env),
        stream_budget(env),
    )
    info = ["$JS.API.INFO", *(f"$JS.API.STREAM.INFO.{stream}" for stream in every)]
    get = [f"$JS.API.STREAM.MSG.GET.{stream}" for stream in every]
    own_events = f"licet.audit.{env}.{'decider' if name == DECIDER else 'audit'}.*"
    payloads = f"licet.payload.{env}.decider.*"
    config = f"licet.config.{env}.>"
    if name == SETUP:
        manage = [f"$JS.API.STREAM.{verb}.{stream}" for verb in ("CREATE", "UPDATE") for stream in every]
        return [*info, *get, *manage, config], []
    if name == DECIDER:
        records = f"licet.config.{env}"  # not `active`, artifacts and delegations: those are in force
        own = (
            f"{records}.task.*",
            f"{records}.task.*.closed",
            f"{records}.started.*",
            f"{records}.hold.>",
            f"licet.budget.{env}.>",
            own_events,
            payloads,
            subject_beacon(env),
            subject_notice(env),
        )
        return [*info, *get, *own], [subject_beacon(env)]
    if name == DESK:
        return [], [subject_notice(env)]
    if name == AUDIT_WRITER:
        read = [part for stream in every for part in _consume(stream)]
        return [*info, *get, *read, own_events], []
    return [*info, *get, own_events], []


def _consume(stream: str) -> tuple[str, ...]:
    api = "$JS.API.CONSUMER"
    return (
        f"{api}.CREATE.{stream}",
        f"{api}.CREATE.{stream}.>",
        f"{api}.DURABLE.CREATE.{stream}.*",
        f"{api}.INFO.{stream}.*",
        f"{api}.LIST.{stream}",
        f"{api}.NAMES.{stream}",
        f"{api}.DELETE.{stream}.*",
        f"{api}.MSG.NEXT.{stream}.*",
        f"$JS.ACK.{stream}.>",
        f"$JS.FC.{stream}.>",
    )
