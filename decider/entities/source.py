"""`entities.yaml` beside the rules: people, teams and things, as people write them.

    entities:
      Team:
        payables: {}
      Agent:
        payables-bot: {parents: ["Team:payables"]}
      Supplier:                                   # by the resource's whole name
        "supplier:S1": {attributes: {owner: cleo}}

Read strictly, every fault with its line. The file may be missing.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import cedarpy
import orjson

from decider.entities.known import faults_of, read_json
from decider.source import Faults, Section, read

FILE: Final = "entities.yaml"
TYPE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


@dataclass(slots=True)
class EntitySource:
    """What a file says: Cedar's JSON, and the line of each entity by `Type:id`."""

    text: str = ""
    lines: dict[str, int] = field(default_factory=dict)
    faults: Faults | None = None

    def check(self, schema: str) -> None:
        """Note what does not fit a schema; a text that is no schema is somebody else's to say."""
        if self.faults is None or self.faults.found:
            return
        try:
            parsed = cedarpy.Schema.from_str(schema)
        except ValueError:
            return
        entities = read_json(self.text)
        found = [("", entities)] if isinstance(entities, str) else faults_of(entities, parsed)
        for name, fault in found:
            self.faults.add(self.lines.get(name, 0), name, fault)


def read_entities(directory: Path) -> EntitySource:
    """Read a directory's entities. Faults of the file are in what is returned; raises `SourceError`."""
    if not (directory / FILE).exists():
        return EntitySource()
    top, faults = read(directory / FILE)
    source = EntitySource(faults=faults)
    types = top.section("entities", required=True)
    listed: list[dict[str, Any]] = []
    for kind in types.names() if types is not None else ():
        if types is not None and not TYPE.fullmatch(kind):
            types.refuse(kind, "a type is letters, digits and `_`")
        entities = types.section(kind) if types is not None else None
        for name in entities.names() if entities is not None else ():
            inner = entities.section(name) if entities is not None else None
            if inner is not None:
                source.lines[f"{kind}:{name}"] = inner.line
                listed.append(_entity(kind, name, inner))
    top.close()
    source.text = orjson.dumps(listed, option=orjson.OPT_SORT_KEYS).decode() if listed else ""
    return source


def _entity(kind: str, name: str, inner: Section) -> dict[str, Any]:
    parents = []
    for parent in inner.texts("parents"):
        above, colon, named = parent.partition(":")
        if not colon or not TYPE.fullmatch(above):
            inner.refuse("parents", f"`{parent}` is not `Type:id`")
        parents.append({"type": above, "id": named})
    attributes = inner.values("attributes")
    for key, value in attributes.items():
        inner_values = value if isinstance(value, tuple) else ()
        if isinstance(value, dict) or not all(isinstance(one, str) for one in inner_values):
            inner.refuse("attributes", f"`{key}` must be text, an integer, true, false, or a list of texts")
    inner.close()
    return {"uid": {"type": kind, "id": name}, "attrs": attributes, "parents": parents}
