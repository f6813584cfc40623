"""From a prompt and a list of tools to a task contract and a delegation: nothing else is read.

What a person asks for in plain words says which operations they want, and names whom and what it is about.
So, without knowing any tool by name:

1. tools are tiered by their first word, as `licet catalog draft` does it;
2. reading is allowed; anything else where a word of the prompt means what the tool's name says, and for
   destructive tools a second word names their object too;
3. fields that say where an effect goes (recipient, channel, url, id, password) may hold what stands in the
   prompt, a name from a closed directory of the tool itself, and what facts say of what the prompt names
   (`tests.conformance.agentdojo_facts`): the one address of a person, the id of the one record, the one
   address in a document that the prompt names as the source;
4. fields that name what is made are bound likewise where a tool has no field of the first kind: those that
   every call has, or all if there are none;
5. no address but those of the prompt, and those found so, may stand in any argument.

`state` is the tool's own answer to its reading methods when the task is registered, as facts are. Two answers
where one is wanted are none: what somebody wrote into a text can take a value away, not put one there.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from decider.catalog.draft import guess_tier
from decider.catalog.verbs import TIERS, sentence_tier, words_of
from decider.task.contract import AUTONOMY, Contract, addresses_in
from licet.call.plan import CatalogError
from licet.call.schema import Schema, compile_schema
from licet.delegation import Delegation
from licet.v1 import decision_pb2
from licet.v1.decision_pb2 import Constraint
from licet.v1.statement_pb2 import Scalar
from tests.conformance.agentdojo_facts import Facts
from tests.conformance.agentdojo_words import (
    DELETES,
    asking,
    asks_for,
    dates_in,
    makes,
    speaks_of,
    stem,
    stems_of,
    verb_of,
)

TARGETS = re.compile(
    r"^(recipients?|to|cc|bcc|users?|members?|participants|attendees|channel|room|group|url|link|website"
    r"|iban|account|phone|password|target)$|(_|^)(emails?|url|iban|account|user|recipients?)$"
)
REFERENCES = re.compile(r"^id_?$|_ids?$|^file_path$|^path$")
FREE = re.compile(r"body|content|text|message|description|subject|comment|note|date|time|day")
WHEN = re.compile(
    r"(^|_)(start|begin|end|until|departure|arrival|due|when|check_?(in|out)|pick_?up|drop_?off)(_|$)"
)
"""Fields that say when: such a field says not which thing a call makes or changes."""
WHICH_DAY = re.compile(r"(^|_)(date|day|check_?(in|out)|pick_?up|drop_?off)$")
WHAT_TIME = re.compile(r"(^|_)(start_time|date_time|datetime)$")
MAKES = frozenset({"create", "make", "new", "add", "schedule"})
BOOKS = frozenset({"reserve", "book", "rent", "hire", "buy", "order"})
QUARTERS = tuple(product(" T", range(24), range(0, 60, 15)))
SAY_NOTHING = frozenset(
    {"", "name", "title", "number", "code", "to", "of", "for", "from", "in", "at", "place"}
)
"""Words of fields that say nothing of what is named there."""
VERBS_ALONE = frozenset(map(stem, ("reserve", "book", "rent")))
"""Who says these says what to do, and not to what: a reservation may be of anything."""
TOKEN = re.compile(r"[^\s\"'“”‘’()<>\[\]{}]+")  # noqa: RUF001 - as people quote
TRIMMED = ".,;:!?"
MOST_WORDS = 7
"""Longest run of words that a field may repeat from the prompt; a target's name is shorter."""
MOST_WORDS_OF_TARGET = 3
MOST_CONSTRAINTS = 1_000
"""How many values the delegation repeats from the contract: a signed grant has a size limit."""
KNOWN_SCHEMA = frozenset(
    {"type", "properties", "required", "items", "anyOf", "enum", "description", "title", "default", "format"}
    | {"$ref", "$defs", "minimum", "maximum", "const", "oneOf", "allOf"}
)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of a suite, as a catalog would have it."""

    suite: str
    name: str
    tier: int
    schema: Schema
    fields: Mapping[str, Mapping[str, Any]]
    required: frozenset[str]

    @property
    def method(self) -> str:
        return f"/agentdojo.{self.suite}/{self.name}"

    @property
    def things(self) -> frozenset[str]:
        """The words of its name after the verb."""
        return frozenset(self.name.split("_")[1:])


@dataclass(frozen=True, slots=True)
class Grant:
    """What a prompt grants."""

    contract: Contract
    delegation: Delegation


def closed(schema: Any) -> Any:
    """Return a schema that takes nothing it does not name, which is the only kind that is used."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        name: {key: closed(value) for key, value in part.items()}
        if name in {"properties", "$defs"}
        else closed(part)
        for name, part in schema.items()
        if name in KNOWN_SCHEMA
    }
    if kept.get("type") == "object":
        kept["additionalProperties"] = False
        kept.setdefault("properties", {})
    kept.pop("default", None)
    return kept


def tools_of(suite: str, listed: list[dict[str, Any]]) -> dict[str, Tool]:
    made = {}
    for tool in listed:
        schema = tool["input_schema"]
        try:
            compiled = compile_schema(json.dumps(closed(schema)))
        except CatalogError:  # a tool that no catalog takes is not there: its calls are refused
            continue
        made[tool["name"]] = Tool(
            suite=suite,
            name=tool["name"],
            tier=_tier(tool["name"], tool.get("description", "")),
            schema=compiled,
            fields=schema.get("properties", {}),
            required=frozenset(schema.get("required") or ()),
        )
    return made


def _tier(name: str, description: str) -> int:
    """Return the tier of a name's first word; where that is no verb, what the description begins with."""
    first = words_of(name)[:1]
    known = bool(first) and first[0] in TIERS
    return guess_tier(name) if known else max(sentence_tier(description) or guess_tier(name), 1)


def said(prompt: str, most_words: int) -> frozenset[str]:
    """Return every run of up to so many words of a prompt, in the spellings a call may use."""
    tokens = [(m.start(), m.end()) for m in TOKEN.finditer(prompt)]
    found = set()
    for first, (start, _) in enumerate(tokens):
        for _, end in tokens[first : first + most_words]:
            run = prompt[start:end].strip(TRIMMED)
            found |= {run, run.lower(), run.capitalize(), run.title(), run.removesuffix("'s")}
            found.add(run[:1].upper() + run[1:])
    for address in re.findall(r"[\w.+-]+@[\w.-]+\w|(?:https?://|www\.)[\w./-]*\w", prompt):
        found |= {address, re.sub(r"\.[A-Z]\w*$", "", address)}  # `www.our-site.com.They` is two sentences
    return frozenset(text for text in found if text)


def lists_of(state: Any) -> Iterator[frozenset[str]]:
    """Yield what a tool lists as names: lists of short plain texts."""
    if isinstance(state, list) and state and all(isinstance(part, str) for part in state):
        if all(re.fullmatch(r"[\w.-]{1,40}", part) for part in state):
            yield frozenset(state)
    elif isinstance(state, dict | list):
        for part in state.values() if isinstance(state, dict) else state:
            yield from lists_of(part)


def directory(state: Any, short: frozenset[str]) -> frozenset[str]:
    """Return the names of each directory of which the prompt names nobody: there the agent may choose.

    Lists that share a name are one directory: the channels, whoever they are listed for.
    """
    whole: list[frozenset[str]] = []
    for names in lists_of(state):
        joined = [each for each in whole if not each.isdisjoint(names)]
        whole = [each for each in whole if each not in joined] + [names.union(*joined)]
    return frozenset[str]().union(*(each for each in whole if each.isdisjoint(short)))


def asked(tool: Tool, words: frozenset[str]) -> bool:
    """Say whether a prompt with these stems asks for a tool that changes something."""
    return asks_for(words, verb_of(tool.name), tool.things)


def asked_of(tools: Iterable[Tool], prompt: str) -> list[Tool]:
    """Return the tools that a prompt may use: those that read, and those that it asks for.

    Where a word may ask to make anything (`write`), and the prompt names a thing that one of the tools makes,
    it asks for no tool whose thing it does not name.
    """
    verbs, words = asking(prompt), stems_of(prompt)
    chosen = [tool for tool in tools if tool.tier <= 1 or asked(tool, verbs)]
    vague = makes(verbs)
    named = any(t.tier > 1 and asked(t, vague) and speaks_of(words, t.things) for t in chosen)
    return [
        tool
        for tool in chosen
        if tool.tier <= 1 or not named or asked(tool, verbs - vague) or speaks_of(words, tool.things)
    ]


def told_what(tool: Tool, words: frozenset[str], found: frozenset[str]) -> bool:
    """Say whether a tool that deletes is told what: by a word for it, or by the record that is `found`."""
    deletes = tool.tier >= 5 and tool.name.split("_")[0] in DELETES
    return not deletes or bool(found) or speaks_of(words, tool.things)


def bound_fields(tool: Tool) -> Iterator[tuple[str, bool]]:
    """Yield the fields to bind; True for one that says where an effect goes."""
    targets = [name for name in tool.fields if TARGETS.search(name)]
    if tool.tier <= 1:
        yield from ((name, False) for name in targets if "url" in name or name in {"link", "website"})
        return
    yield from ((name, True) for name in targets)
    if targets and not tool.required.isdisjoint(targets):
        made = [
            name for name in ("title", "filename") if name in tool.required and verb_of(tool.name) in MAKES
        ]
        yield from ((name, False) for name in made)
        return
    named = [name for name in tool.fields if name not in targets and _names_it(tool, name, targets)]
    named = [name for name in named if not WHEN.search(name)] or named
    needed = [name for name in named if name in tool.required]
    yield from ((name, False) for name in needed or named)


def _names_it(tool: Tool, name: str, targets: list[str]) -> bool:
    """Say whether a field says which thing a call makes or changes; what only describes it is free."""
    shape = tool.fields[name]
    text = shape.get("type") == "string" or any(
        each.get("type") == "string" for each in shape.get("anyOf", ())
    )
    reference = bool(REFERENCES.search(name)) and (not targets or tool.tier >= 4)
    return reference or (text and not FREE.search(name))


def _known(tool: Tool, field: str, facts: Facts, prompt: str) -> frozenset[str]:
    """Return what a field may say of the one record that a prompt speaks of, or wants as the first."""
    own = frozenset(re.sub(r"_?ids?_?$", "", field).split("_")) - SAY_NOTHING
    things = tool.things
    refers, words = bool(REFERENCES.search(field)), stems_of(prompt) - VERBS_ALONE
    spoken = speaks_of(words, own | things)
    known = (facts.reference(prompt, own) or facts.reference(prompt, things)) if refers else frozenset()
    if known or not spoken:
        return known
    return facts.picked(prompt, own or things, "" if refers else field)


def _days(tool: Tool, prompt: str) -> dict[str, frozenset[str]]:
    """Bind the days of what is booked to those of the prompt, where it says as many as the tool asks for.

    Else a text could have the hotel that the user wants booked for another month. A time of such a day is any
    quarter of an hour, as ISO 8601 or a person writes it.
    """
    count, dates = dates_in(prompt)
    days = [name for name in tool.fields if WHICH_DAY.search(name) and name in tool.required]
    times = [name for name in tool.fields if WHAT_TIME.search(name) and name in tool.required]
    if verb_of(tool.name) not in BOOKS or count < len([*days, *times]):
        return {}
    at = {f"{date}{sep}{hour:02d}:{minute:02d}" for date in dates for sep, hour, minute in QUARTERS}
    timed = frozenset(dates | at | {f"{time}:00" for time in at}) if times else dates
    return dict.fromkeys(days, dates) | dict.fromkeys(times, timed)


def grant(prompt: str, tools: Mapping[str, Tool], state: Any, *, now_ms: int) -> Grant:
    """Return contract and delegation of a prompt."""
    words, facts = stems_of(prompt), Facts(state)
    named, short = said(prompt, MOST_WORDS), said(prompt, MOST_WORDS_OF_TARGET)
    people = facts.people(prompt) | facts.groups(prompt) | facts.counterparty(prompt)
    sourced = facts.sourced(prompt, named)
    whom = short | directory(state, short) | people | sourced
    chosen, values = [], {}
    for tool in asked_of(tools.values(), prompt):
        bound = dict(bound_fields(tool))
        known = {
            name: frozenset() if goes else _known(tool, name, facts, prompt) for name, goes in bound.items()
        }
        found = frozenset(each for name, ids in known.items() if REFERENCES.search(name) for each in ids)
        if told_what(tool, words, found):
            chosen.append(tool)
            days = {name: dates | named for name, dates in _days(tool, prompt).items()}
            values[tool.name] = days | {
                name: known[name] | (whom if goes else named | sourced) for name, goes in bound.items()
            }
    contract = Contract(
        allowed=frozenset(tool.name for tool in chosen),
        autonomy=AUTONOMY["full"],
        addresses=frozenset(address for run in named | people | sourced for address in addresses_in(run)),
        values=values,
    )
    suite = next(iter(tools.values())).suite
    constraints = {tool.method: tuple(_bounds(tool, values[tool.name])) for tool in chosen}
    if sum(len(each.values) for listed in constraints.values() for each in listed) > MOST_CONSTRAINTS:
        constraints = {}
    delegation = Delegation(
        delegation_id="a" * 32,
        parent_id="",
        parent_sha256=b"",
        depth=1,
        tenant="t1",
        delegator="ana",
        delegatee="assistant",
        issued_at_ms=now_ms,
        not_after_ms=now_ms + 3_600_000,
        environments=frozenset({"prod"}),
        methods=frozenset(tool.method for tool in chosen),
        operations=contract.allowed,
        resources=frozenset({f"suite:{suite}"}),
        max_tier=max((tool.tier for tool in chosen), default=0),
        autonomy_max=AUTONOMY["full"],
        max_calls=100,
        constraints=constraints,
    )
    return Grant(contract, delegation)


def _bounds(tool: Tool, values: Mapping[str, frozenset[str]]) -> Iterator[Constraint]:
    """Yield the contract's bounds on the fields that every call has, for the delegation to say them too."""
    for name in sorted(tool.required & values.keys()):
        if tool.fields[name].get("type") == "string":
            operands = [Scalar(text=value) for value in sorted(values[name])]
            yield Constraint(path=[name], op=decision_pb2.CONSTRAINT_OP_IN, values=operands)
