"""People, teams and things beside the rules: what they let rules say, and how a bad file is refused."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decider.entities.known import MAX_ENTITIES
from decider.policy.bundle import LoadedBundle, load_bundle, read_bundle_source
from decider.policy.cedar import SAMPLE_CONTEXT, Allowed, Failed, Forbidden, RuleCall, RuleSet, Settled, Value
from decider.policy.rules import RulesError
from decider.source import SourceError
from licet.v1 import bundle_pb2

SCHEMA = """
entity Team in [Team] = { city: String };
entity Agent in [Team];
entity Resource;
entity Supplier in [Team] = { tenant: String, owner: String, level: Long, tags: Set<String> };
type Call = { tenant: String };
action pay appliesTo { principal: Agent, resource: Supplier, context: Call };
action read appliesTo { principal: Agent, resource: Resource, context: Call };
"""
RULES = """
@id("finance-pays") permit (principal in Team::"finance", action == Action::"pay", resource)
when { resource.owner == "ana" };
@id("own-team") forbid (principal, action == Action::"pay", resource is Supplier)
when { !(resource in Team::"suppliers") };
"""
GOOD = """\
entities:
  Team:
    finance: {attributes: {city: Bonn}}
    payables: {parents: ["Team:finance"], attributes: {city: Bonn}}
    suppliers: {attributes: {city: Rome}}
  Agent:
    pay-bot: {parents: ["Team:payables"]}
    other-bot: {}
  Supplier:
    "supplier:S1": {parents: ["Team:suppliers"], attributes: {owner: ana, level: 1, tags: [old]}}
    "supplier:S2": {parents: ["Team:suppliers"], attributes: {owner: ben, level: 1, tags: [old]}}
    "supplier:S3": {attributes: {owner: ana, level: 1, tags: [old]}}
"""
FACTS: dict[str, Value] = {"tenant": "t1"}


def source(directory: Path, entities: str) -> bytes:
    (directory / "bundle.yaml").write_text("version: 1\nescalate_to: owner@example.com\n")
    (directory / "rules.cedar").write_text(RULES)
    (directory / "schema.cedarschema").write_text(SCHEMA)
    (directory / "entities.yaml").write_text(entities)
    return read_bundle_source(directory, environment="test")


def loaded(directory: Path, entities: str = GOOD) -> LoadedBundle:
    return load_bundle(source(directory, entities))


def pay(rules: RuleSet, agent: str, supplier: str, facts: dict[str, Value] = FACTS) -> Settled:
    call = RuleCall(agent, "pay", "Supplier", f"supplier:{supplier}", facts, SAMPLE_CONTEXT)
    return rules.evaluate(call)


def test_rule_speaks_of_teams_over_teams_and_of_a_resource_owner(tmp_path: Path) -> None:
    rules = loaded(tmp_path).rules
    assert pay(rules, "pay-bot", "S1") == Allowed(("finance-pays",))
    assert pay(rules, "other-bot", "S1") == Forbidden(())
    assert pay(rules, "nobody-knows-it", "S1") == Forbidden(())
    assert pay(rules, "pay-bot", "S2") == Forbidden(())


def test_resource_has_the_parents_of_the_file(tmp_path: Path) -> None:
    rules = loaded(tmp_path).rules
    assert pay(rules, "pay-bot", "S3") == Forbidden(("own-team",))


def test_resource_that_the_file_does_not_name_fails_its_call(tmp_path: Path) -> None:
    assert isinstance(pay(loaded(tmp_path).rules, "pay-bot", "S4"), Failed)


def test_tool_that_tells_what_the_file_tells_fails_its_call(tmp_path: Path) -> None:
    """A tool may not overrule who owns what, nor the file the tool."""
    rules = loaded(tmp_path).rules
    assert isinstance(pay(rules, "pay-bot", "S2", {**FACTS, "owner": "ana"}), Failed)
    assert pay(rules, "pay-bot", "S1") == Allowed(("finance-pays",))


def test_directory_without_the_file_has_no_entities(tmp_path: Path) -> None:
    source(tmp_path, GOOD)
    (tmp_path / "entities.yaml").unlink()
    payload = read_bundle_source(tmp_path, environment="test")
    assert bundle_pb2.Bundle.FromString(payload).entities_json == ""
    full: dict[str, Value] = {**FACTS, "owner": "ana", "level": 1, "tags": ("old",)}
    assert pay(load_bundle(payload).rules, "pay-bot", "S1", full) == Forbidden(("own-team",))


BAD = (
    ("  Agent:", "  Robot:\n    r1: {}\n  Agent:", 7, "no entity type `Robot`"),
    ("other-bot: {}", "other-bot: {attributes: {city: Bonn}}", 8, "declares no `city`"),
    (
        "finance: {attributes: {city: Bonn}}",
        "finance: {attributes: {city: 7}}",
        3,
        "`city` is of another type",
    ),
    ("finance: {attributes: {city: Bonn}}", "finance: {}", 3, "lacks an attribute"),
    ("owner: ben", "owner: 7", 11, "`owner` is of another type"),
    ("owner: ben", "owns: ben", 11, "the schema declares no `owns`"),
    ("{owner: ben, level: 1", "{owner: ben, level: one", 11, "`level` is of another type"),
    ("owner: ben, level: 1, tags: [old]", "owner: ben, level: 1, tags: []", 11, "an empty list"),
    ("owner: ben, level: 1, tags: [old]", "owner: ben, level: 1, tags: [7]", 11, "a list of texts"),
    ("finance: {attr", 'finance: {parents: ["Team:payables"], attr', 3, "its own parent"),
    ("other-bot: {}", 'other-bot: {parents: ["Team:nobody"]}', 8, "is not listed"),
    ("other-bot: {}", 'other-bot: {parents: ["Agent:pay-bot"]}', 8, "a parent it forbids"),
    ("other-bot: {}", "other-bot: {parents: [finance]}", 8, "is not `Type:id`"),
    ("other-bot: {}", "pay-bot: {}", 8, "pay-bot"),
    ("other-bot: {}", "other-bot: {parent: []}", 8, "unknown field"),
    ('"supplier:S3": {attr', '"supplier:S3": {parents: ["Agent:pay-bot"], attr', 12, "be in `Agent`"),
)


@pytest.mark.parametrize(("old", "new", "line", "says"), BAD, ids=[row[3] for row in BAD])
def test_bad_entity_is_refused_with_file_and_line(
    tmp_path: Path, old: str, new: str, line: int, says: str
) -> None:
    assert old in GOOD
    source(tmp_path, GOOD)
    with pytest.raises(SourceError) as refused:
        source(tmp_path, GOOD.replace(old, new))
    found = [str(fault) for fault in refused.value.faults]
    assert any(f"entities.yaml:{line}:" in fault and says in fault for fault in found), found


def test_more_entities_than_the_limit_are_refused(tmp_path: Path) -> None:
    def many(count: int) -> str:
        return "entities:\n  Agent:\n" + "".join(f"    a{number}: {{}}\n" for number in range(count))

    source(tmp_path, many(MAX_ENTITIES))
    with pytest.raises(SourceError, match=f"more than {MAX_ENTITIES} entities"):
        source(tmp_path, many(MAX_ENTITIES + 1))


@pytest.mark.parametrize("text", ["{", "[1]", '[{"uid": {}}]', '"a"', '[{"uid": {"type": 1, "id": []}}]'])
def test_signed_text_that_is_no_list_of_entities_is_refused(text: str) -> None:
    RuleSet(RULES, SCHEMA, "[]")
    with pytest.raises(RulesError, match="entities cannot be read"):
        RuleSet(RULES, SCHEMA, text)


TEAMS = tuple("abcdef")
ABOVE = st.lists(st.sets(st.integers(0, 4)), min_size=len(TEAMS), max_size=len(TEAMS))


@settings(max_examples=40, deadline=None)
@given(above=ABOVE, own=st.sets(st.sampled_from(TEAMS)), wanted=st.sampled_from(TEAMS))
def test_who_is_in_a_team_is_who_reaches_it_over_parents(
    tmp_path_factory: pytest.TempPathFactory, above: list[set[int]], own: set[str], wanted: str
) -> None:
    parents = {team: {TEAMS[at] for at in above[n] if at < n} for n, team in enumerate(TEAMS)}
    reached, todo = set(), set(own)
    while todo:
        team = todo.pop()
        reached.add(team)
        todo |= parents[team] - reached
    lines = ["entities:", "  Team:"]
    for team in TEAMS:
        listed = ", ".join(f'"Team:{one}"' for one in sorted(parents[team]))
        lines.append(f"    {team}: {{parents: [{listed}], attributes: {{city: Bonn}}}}")
    listed = ", ".join(f'"Team:{one}"' for one in sorted(own))
    lines += ["  Agent:", f"    bot: {{parents: [{listed}]}}"]
    directory = tmp_path_factory.mktemp("teams")
    text = bundle_pb2.Bundle.FromString(source(directory, "\n".join(lines) + "\n")).entities_json
    rule = f'@id("in") permit (principal in Team::"{wanted}", action == Action::"read", resource);'
    call = RuleCall("bot", "read", "Resource", "file:x", {}, SAMPLE_CONTEXT)
    assert isinstance(RuleSet(rule, SCHEMA, text).evaluate(call), Allowed) == (wanted in reached)
