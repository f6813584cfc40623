"""A pack's `story.yaml`: what is asked, and what must be seen of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

from examples.refund.demo.attempt import (
    CHANGED,
    DECIDED,
    EXECUTED,
    PASSED,
    RESERVED,
    SPANS_OF_DECISION,
    SPANS_OF_DOOR,
    SPANS_OF_EFFECT,
    Expected,
)

HELD: Final = "HELD"
POLICY_DENIED: Final = "POLICY_DENIED"
SPANS_OF_ASKING: Final = frozenset({"licet.v1.DeciderService/Decide"})
"""What is denied before any rule is asked leaves no span of the rules."""
EFFECT: Final = {DECIDED: 1, PASSED: 1, RESERVED: 1, EXECUTED: 1, CHANGED: 1}
ASKED: Final = {"decision.held HELD": 1, "approval.requested": 1, "approval.voted": 1}


@dataclass(frozen=True, slots=True)
class Line:
    """One call of a story. `approver`: who approves it once it is held; empty where nobody is asked."""

    label: str
    method: str
    body: bytes
    expected: Expected
    approver: str = ""


@dataclass(frozen=True, slots=True)
class Story:
    """Three lawful calls, three that are stopped, one that is held."""

    title: str
    agent: str
    task: str
    lawful: tuple[Line, ...]
    stopped: tuple[Line, ...]
    held: tuple[Line, ...]


def read_story(pack: Path) -> Story:
    """Read a pack's story. Raises KeyError, and ParseError where a request does not fit its method."""
    said = yaml.safe_load((pack / "story.yaml").read_text())
    service, requests = _requests(pack)

    def lines(kind: str) -> tuple[Line, ...]:
        return tuple(
            Line(
                one["label"],
                f"/{service}/{one['method']}",
                json_format.ParseDict(one["request"], requests[one["method"]]()).SerializeToString(),
                _expected(kind, one),
                one.get("approver", ""),
            )
            for one in said[kind]
        )

    return Story(said["title"], said["agent"], said["task"], lines("lawful"), lines("stopped"), lines("held"))


def _expected(kind: str, one: Mapping[str, Any]) -> Expected:
    minor = one.get("minor", 0)
    if kind == "stopped":
        events = {f"decision.denied {one['reason']}": 1}
        spans = SPANS_OF_DECISION if one["reason"] == POLICY_DENIED else SPANS_OF_ASKING
        return Expected((one["reason"],), events, "DENIED_STOPPED", spans=spans)
    if kind == "held":
        return Expected((HELD, "OK"), {**EFFECT, **ASKED}, "ALLOWED_EXECUTED", 1, minor, SPANS_OF_EFFECT)
    if one.get("changes"):
        return Expected(("OK",), EFFECT, "ALLOWED_EXECUTED", 1, minor, SPANS_OF_EFFECT)
    spans = SPANS_OF_DECISION | SPANS_OF_DOOR
    return Expected(("OK",), {DECIDED: 1, PASSED: 1}, "ALLOWED_EXECUTED", 1, spans=spans)


def _requests(pack: Path) -> tuple[str, dict[str, Any]]:
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString((pack / "policy/descriptors.binpb").read_bytes())
    for file in files.file:
        pool.Add(file)
    name = yaml.safe_load((pack / "tool.yaml").read_text())["service"]
    service: Any = pool.FindServiceByName(name)
    return name, {one.name: message_factory.GetMessageClass(one.input_type) for one in service.methods}
