"""An opened payload as people and programs read it. Pure; what it shows is the tenant's, in clear."""

import base64
import json
from typing import Any, Final

from audit.asking.show import printable
from audit.sealed.opener import Opened
from licet.v1.decision_pb2 import Codec

_TEXTS: Final = (
    "decision_id",
    "decided_at_ms",
    "caller",
    "method",
    "audience",
    "task_id",
    "call_id",
    "claimed_intent",
    "tenant",
    "principal",
    "bundle_version",
    "generation",
    "config_seq",
    "decision",
    "reason",
)


def input_json(opened: Opened) -> str:
    """Return the payload as one line of JSON: bytes as base64, what was JSON as JSON."""
    message = opened.input
    value: dict[str, Any] = {
        "event_id": opened.carrier.event_id,
        "key_id": opened.key_id,
        "environment": opened.carrier.environment,
    }
    for name in _TEXTS:
        value[name] = getattr(message, name)
    value |= {
        "codec": Codec.Name(message.codec).removeprefix("CODEC_") if message.codec in Codec.values() else "",
        "request": base64.b64encode(message.request).decode(),
        "request_size": message.request_size,
        "request_sha256": message.request_sha256.hex(),
        "rule_ids": list(message.rule_ids),
        "left_out": list(message.left_out),
        "rules": _rules(opened) if message.HasField("rule_input") else None,
    }
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def _rules(opened: Opened) -> dict[str, Any]:
    asked = opened.input.rule_input
    return {
        "agent": asked.agent,
        "operation": asked.operation,
        "resource_type": asked.resource_type,
        "resource": asked.resource,
        "attributes": json.loads(asked.attributes_json or b"{}"),
        "context": json.loads(asked.context_json or b"{}"),
        "lifted": list(asked.lifted),
    }


def input_text(opened: Opened) -> str:
    """Return the payload as lines of text that cannot move the cursor or forge a line."""
    value = json.loads(input_json(opened))
    rules = value.pop("rules") or {}
    shown = [(name, value[name]) for name in value]
    shown += [(f"rules.{name}", rules[name]) for name in rules]
    width = max(len(name) for name, _ in shown)
    return "\n".join(
        f"{name:>{width}}  {printable(json.dumps(one, sort_keys=True) if isinstance(one, dict) else one)}"
        for name, one in shown
        if one not in ("", 0, [], {}, None)
    )
