"""Entities of a bundle as rules see them: who belongs to what, and what a resource is beside its facts.

Two kinds. A *standing* entity (an agent, a person, a team) is whole: it fits the schema by itself. An entity
of a type that some action takes as its resource *adds* to a call's resource: parents, and attributes that the
tool does not tell. What both tell is told twice, and the call fails: neither is believed over the other.

Guarantees: `KnownEntities` holds only what fits the schema strictly, without cycles, unknown types or unknown
parents. A resource that the file does not name has what its facts say alone, so a rule that reads a missing
attribute fails its call. At most MAX_ENTITIES.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import cedarpy
import orjson

from decider.policy.rules import RulesError, one_line

MAX_ENTITIES: Final = 1_000
AGENT: Final = "Agent"
"""The type of who acts."""
_RESOURCES: Final = re.compile(r"^action [^;]*? resource: \[([^\]]*)\]", re.MULTILINE)

Uid = tuple[str, str]
"""Type and id."""
Fault = tuple[str, str]
"""The name of an entity as `Type:id`, empty for all of them; what is wrong."""


class KnownEntities:
    """A bundle's entities, parsed once. Raises `RulesError` with every fault; the text may be empty."""

    def __init__(self, text: str, schema: cedarpy.Schema) -> None:
        entities = read_json(text)
        if isinstance(entities, str):
            raise RulesError((entities,))
        found = faults_of(entities, schema)
        if found:
            raise RulesError(tuple(f"entity `{name}`: {fault}" if name else fault for name, fault in found))
        resources = resource_types(schema)
        self._schema = schema
        self._added = {uid: one for uid, one in entities.items() if uid[0] in resources}
        standing = [one for uid, one in entities.items() if uid[0] not in resources]
        self._standing = cedarpy.Entities.from_json_str(orjson.dumps(standing).decode(), schema)
        self._owners = {one["uid"]["id"]: _people(one["attrs"].get("owner")) for one in _agents(standing)}

    def owners_of(self, agent: str) -> tuple[str, ...]:
        """Return who answers for an agent, by the attribute `owner` of its entity; empty where none says."""
        return self._owners.get(agent, ())

    def with_resource(self, uid: Uid, attributes: Mapping[str, Any]) -> cedarpy.Entities:
        """Return all that rules may look up in a call on a resource with these facts.

        Raises ValueError where an attribute is told twice, or the whole does not fit the schema.
        """
        known = self._added.get(uid, {"attrs": {}, "parents": []})
        twice = sorted(known["attrs"].keys() & attributes.keys())
        if twice:
            raise ValueError(f"`{twice[0]}` is told by the tool and by the entities")
        entity = {**_named(uid), "attrs": {**known["attrs"], **attributes}, "parents": known["parents"]}
        return self._standing.with_added_json_str(orjson.dumps([entity]).decode(), self._schema)

    def sample(self, resource_type: str) -> Mapping[str, Any]:
        """Return what is known of some resource of a type beside its facts; empty where nothing is."""
        found = (one["attrs"] for uid, one in self._added.items() if uid[0] == resource_type)
        return next(found, {})


def read_json(text: str) -> dict[Uid, dict[str, Any]] | str:
    """Return the entities of a JSON text by type and id, or what is wrong with the text."""
    try:
        listed = orjson.loads(text) if text else []
        entities = {(one["uid"]["type"], one["uid"]["id"]): one for one in listed}
        for one in listed:
            _ = [(parent["type"], parent["id"]) for parent in one["parents"]], dict(one["attrs"])
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        return f"the entities cannot be read: {one_line(error)}"
    if len(entities) != len(listed):
        return "an entity is given twice"
    if len(entities) > MAX_ENTITIES:
        return f"there are more than {MAX_ENTITIES} entities"
    return entities


def resource_types(schema: cedarpy.Schema) -> frozenset[str]:
    """Return the types that some action of a schema takes as its resource."""
    listed = _RESOURCES.findall(str(schema))
    return frozenset(name.strip() for names in listed for name in names.split(",") if name.strip())


def faults_of(entities: Mapping[Uid, dict[str, Any]], schema: cedarpy.Schema) -> list[Fault]:
    """Return everything that is wrong with entities under a schema."""
    resources = resource_types(schema)
    found: list[Fault] = []
    for uid, one in entities.items():
        judge = _resource_faults if uid[0] in resources else _standing_faults
        found.extend(
            (":".join(uid), fault)
            for fault in (*judge(uid, one, schema), *_parent_faults(one, entities, resources))
        )
    found.extend((":".join(uid), "is, over its parents, its own parent") for uid in _circular(entities))
    return found


def _standing_faults(uid: Uid, one: Mapping[str, Any], schema: cedarpy.Schema) -> Iterator[str]:
    """Say what is wrong; Cedar's own verdict, which names nothing, comes last."""
    subject = f"{uid[0]}::{_quoted(uid[1])}"
    if _finds(f"{subject} == {subject}", "", schema):
        yield f"the schema has no entity type `{uid[0]}`"
        return
    found = list(_told_faults(subject, uid[0], one, "", schema))
    yield from found
    try:
        cedarpy.Entities.from_json_str(orjson.dumps([one]).decode(), schema)
    except ValueError:
        if not found:
            yield f"lacks an attribute that the schema requires of `{uid[0]}`, or has a parent it forbids"


def _resource_faults(uid: Uid, one: Mapping[str, Any], schema: cedarpy.Schema) -> Iterator[str]:
    """Say what is wrong of what is added to a call's resource; what its facts tell may be missing."""
    yield from _told_faults("resource", uid[0], one, f" is {uid[0]}", schema)


def _told_faults(
    subject: str, kind: str, one: Mapping[str, Any], scope: str, schema: cedarpy.Schema
) -> Iterator[str]:
    """Ask Cedar's validator: behind what is never true it checks nothing, else it finds the type error."""
    for name, value in one["attrs"].items():
        if isinstance(value, list) and not value:
            yield f"`{name}` is an empty list, whose type nobody can tell"
            continue
        has, literal = f"{subject} has {_quoted(name)}", orjson.dumps(value).decode()
        if not _finds(f"{has} && (1 < true)", scope, schema):
            yield f"the schema declares no `{name}` on `{kind}`"
        elif _finds(f"{has} && {subject}[{_quoted(name)}] == {literal}", scope, schema):
            yield f"`{name}` is of another type in the schema"
    for parent in one["parents"]:
        place = f"{subject} in {parent['type']}::{_quoted(parent['id'])}"
        if not _finds(f"{place} && (1 < true)", scope, schema):
            yield f"the schema does not let `{kind}` be in `{parent['type']}`"


def _finds(condition: str, scope: str, schema: cedarpy.Schema) -> bool:
    """Tell whether the validator finds an error in a condition on a resource of that scope."""
    text = f"permit(principal, action, resource{scope}) when {{ {condition} }};"
    return bool(cedarpy.validate_policies(text, schema).errors)


def _parent_faults(
    one: Mapping[str, Any], entities: Mapping[Uid, Any], resources: frozenset[str]
) -> Iterator[str]:
    for parent in one["parents"]:
        uid = (parent["type"], parent["id"])
        if uid not in entities:
            yield f"its parent `{':'.join(uid)}` is not listed"
        elif uid[0] in resources:
            yield f"its parent `{':'.join(uid)}` is of a type that calls act on: only a call has that whole"


def _circular(entities: Mapping[Uid, dict[str, Any]]) -> list[Uid]:
    """Return the entities that can be reached from themselves."""
    above = {uid: {(up["type"], up["id"]) for up in one["parents"]} for uid, one in entities.items()}
    found = []
    for uid in entities:
        seen: set[Uid] = set()
        todo = set(above[uid])
        while todo:
            at = todo.pop()
            seen.add(at)
            todo |= above.get(at, set()) - seen
        if uid in seen:
            found.append(uid)
    return found


def _agents(entities: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    return (one for one in entities if one["uid"]["type"] == AGENT)


def _people(value: object) -> tuple[str, ...]:
    """Return one name or several: a schema may declare either."""
    listed = value if isinstance(value, list) else [value]
    return tuple(name for name in listed if isinstance(name, str) and name)


def _named(uid: Uid) -> dict[str, Any]:
    return {"uid": {"type": uid[0], "id": uid[1]}}


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
