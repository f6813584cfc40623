"""Tests of a bundle, as data: a call as rules see it, and what they must say.

`tests.yaml` stands beside the rules. Each test names agent, operation, resource, facts and context, which
holds people have lifted, and the decision with the rules that made it. `failed` is a decision to test for,
too: it is what a missing fact must give. A rule that no test makes determining, and a hold without a test
that holds and one that is lifted, are reported: such a rule may be off without anybody noticing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from decider.policy.cedar import (
    PLAIN_RESOURCE_TYPE,
    SAMPLE_CONTEXT,
    Allowed,
    Evaluation,
    Failed,
    Forbidden,
    Held,
    Narrowable,
    RuleCall,
    RuleSet,
)
from decider.policy.rule_call import type_of_kind
from decider.source import Section, read

FILE: Final = "tests.yaml"
DECISIONS: Final = ("allow", "deny", "hold", "modify", "failed")


@dataclass(frozen=True, slots=True)
class PolicyTest:
    """One call and what the rules must say; `rules` None: any."""

    name: str
    line: int
    call: RuleCall
    lifted: frozenset[str]
    decision: str
    rules: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the rules said; `problem` empty when it is what they must say."""

    test: PolicyTest
    decision: str
    rules: tuple[str, ...]
    problem: str


def read_tests(path: Path) -> tuple[PolicyTest, ...]:
    """Return the tests of a file. Raises `SourceError` with every fault."""
    top, faults = read(path)
    listed = top.section("tests", required=True)
    tests = []
    for name in listed.names() if listed is not None else ():
        section = listed.section(name) if listed is not None else None
        if section is not None:
            tests.append(_test(name, section))
            section.close()
    top.close()
    faults.raise_any()
    return tuple(tests)


def _test(name: str, section: Section) -> PolicyTest:
    resource = section.text("resource", "tool:test")
    facts = section.values("facts")
    kind = resource.partition(":")[0]
    context = dict(SAMPLE_CONTEXT)
    for key, value in section.values("context").items():
        if isinstance(value, tuple) and isinstance(SAMPLE_CONTEXT.get(key), tuple):
            if not all(isinstance(word, str) for word in value):
                section.refuse("context", f"`{key}` is a list of texts")
            context[key] = tuple(str(word) for word in value)
        elif type(value) is not type(SAMPLE_CONTEXT.get(key)):
            section.refuse("context", f"`{key}` is not known, or of another type")
        elif isinstance(value, str | int):
            context[key] = value
    decision = section.text("decision")
    if decision not in DECISIONS:
        section.refuse("decision", f"`{decision}` must be one of {', '.join(DECISIONS)}")
    return PolicyTest(
        name=name,
        line=section.line,
        call=RuleCall(
            agent=section.text("agent"),
            operation=section.text("operation"),
            resource_type=type_of_kind(kind) if section.has("facts") else PLAIN_RESOURCE_TYPE,
            resource=resource,
            attributes=facts,
            context=context,
        ),
        lifted=frozenset(section.texts("lifted")),
        decision=decision,
        rules=tuple(sorted(section.texts("rules"))) if section.has("rules") else None,
    )


def said(evaluation: Evaluation) -> tuple[str, tuple[str, ...]]:
    """Return an evaluation as decision and rules, as tests name them."""
    match evaluation:
        case Allowed(rule_ids, _):
            return "allow", tuple(sorted(rule_ids))
        case Forbidden(rule_ids):
            return "deny", tuple(sorted(rule_ids))
        case Held(requirements):
            return "hold", tuple(sorted(need.rule_id for need in requirements))
        case Narrowable(rule_ids):
            return "modify", tuple(sorted(rule_ids))
        case Failed():
            return "failed", ()


def run_tests(rules: RuleSet, tests: tuple[PolicyTest, ...]) -> tuple[Outcome, ...]:
    """Return what the rules say to every test."""
    outcomes = []
    holds = {rule.rule_id for rule in rules.rules if rule.requirement is not None}
    for test in tests:
        evaluation = rules.narrow(test.call, lifted=test.lifted)
        decision, determining = said(evaluation)
        problem = ""
        if decision != test.decision:
            why = f": {evaluation.detail}" if isinstance(evaluation, Failed) else ""
            problem = f"must {test.decision}, but the rules {decision} by {_names(determining)}{why}"
        elif test.rules is not None and determining != test.rules:
            problem = f"must {decision} by {_names(test.rules)}, but does by {_names(determining)}"
        elif test.lifted - holds:
            problem = f"lifts {_names(tuple(sorted(test.lifted - holds)))}, which is no rule with `@hold`"
        outcomes.append(Outcome(test, decision, determining, problem))
    return tuple(outcomes)


def _names(rules: tuple[str, ...]) -> str:
    return ", ".join(f"`{rule}`" for rule in rules) or "no rule"


def _approved(rules: RuleSet, outcome: Outcome) -> tuple[str, ...]:
    """Return the hold rules that the test needs lifted: the call is held by each that is not."""
    test = outcome.test
    if outcome.decision != "allow":
        return ()
    held = {one: said(rules.narrow(test.call, lifted=test.lifted - {one})) for one in test.lifted}
    return tuple(one for one, (decision, by) in held.items() if decision == "hold" and one in by)


def untested(rules: RuleSet, outcomes: tuple[Outcome, ...]) -> tuple[str, ...]:
    """Return a sentence for each rule that the tests would not miss."""
    determined: Mapping[str, set[str]] = {rule.rule_id: set() for rule in rules.rules}
    for outcome in outcomes:
        for rule_id in (*outcome.rules, *_approved(rules, outcome)):
            determined.get(rule_id, set()).add(outcome.decision)
    found = []
    for rule in rules.rules:
        seen = determined[rule.rule_id]
        if not seen:
            found.append(f"rule `{rule.rule_id}`: no test makes it determine a decision")
        elif rule.requirement is not None and not {"hold", "allow"} <= seen:
            found.append(f"rule `{rule.rule_id}`: a hold needs a test that holds and one that is lifted")
    return tuple(found)
