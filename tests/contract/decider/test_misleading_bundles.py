"""Bundles that say one thing and would do another: refused, named by lint, or what a reader expects."""

from pathlib import Path
from typing import Any

import pytest

from decider.policy.bundle import lint_bundle, load_bundle, read_bundle_source
from decider.policy.cedar import Allowed, Failed, Forbidden, Held, Narrowable
from decider.policy.policy_tests import Outcome, PolicyTest, untested
from decider.source import SourceError
from tests.worlds.policies import ALLOW, FACTS, FORBID, HOLD, SCHEMA, call_of

MANIFEST = 'version: 1\nescalate_to: "desk@example.com"\n'
REFUND = 'principal, action == Action::"refund", resource is Order'


def built(path: Path, rules: str, manifest: str = MANIFEST, schema: str = SCHEMA) -> bytes:
    (path / "bundle.yaml").write_text(manifest)
    (path / "rules.cedar").write_text(rules, encoding="utf-8")
    (path / "schema.cedarschema").write_text(schema)
    return read_bundle_source(path, environment="dev")


REFUSED = {
    "a misspelt @Hold would be a plain forbid": (
        HOLD.replace("@hold", "@Hold"),
        "unknown annotation `@Hold`",
    ),
    "a hold for nobody in particular": (HOLD.replace("finance-lead:1", "finance-lead"), "must be `role:n`"),
    "a hold that waits for no one": (HOLD.replace(":1", ":0"), "must be `role:n`"),
    "a hold that waits for minus one": (HOLD.replace(":1", ":-1"), "must be `role:n`"),
    "a hold that waits for more than there can be": (HOLD.replace(":1", ":10"), "must be `role:n`"),
    "a hold on a rule that allows holds nothing": (
        ALLOW.replace("permit", '@hold("finance-lead:1") permit'),
        "stands on a forbid only",
    ),
    "approvals in rule text lift after one of two votes": (
        f'@id("x") forbid ({REFUND}) unless {{ context.approvals.contains("finance-lead") }};',
        "approvals",
    ),
    "a forbid guarded by has is silently off": (
        f'@id("x") forbid ({REFUND}) when {{ resource has note && resource.note == "stop" }};',
        "must not use `has`",
    ),
    "a forbid on an attribute that may be missing": (
        f'@id("x") forbid ({REFUND}) when {{ resource.note == "stop" }};',
        "note",
    ),
    "two rules under one id": (ALLOW + FORBID.replace("not-allowed", "bot"), "given twice"),
    "a rule that no decision could name": (f"forbid ({REFUND});", "has no `@id`"),
    "an action that nobody has": (
        '@id("x") forbid (principal, action == Action::"refnd", resource);',
        "refnd",
    ),
    "a template that is never linked": (
        '@id("x") permit (principal == ?principal, action, resource);',
        "templates",
    ),
    "an attribute of another type is compared": (
        f'@id("x") forbid ({REFUND}) when {{ context.amount_minor > "100" }};',
        "String",
    ),
    "a change that changes nothing": (
        f'@id("x") @modify forbid ({REFUND}) when {{ context.amount_minor > 1 }};',
        "names no change",
    ),
    "text that runs the other way on a screen": (
        ALLOW + "// allowed for \u202e nobody \u202c only\n",
        "U+202E",
    ),
    "a rule behind a space that nobody sees": (ALLOW.replace('"bot"', '"bot\u200b"'), "U+200B"),
    "two spellings of one name": (ALLOW.replace('"bot"', '"cafe\u0301"'), "composed form"),
}


@pytest.mark.parametrize(("rules", "why"), REFUSED.values(), ids=list(REFUSED))
def test_bundle_that_misleads_is_refused(tmp_path: Path, rules: str, why: str) -> None:
    """The lawful twin: the same directory with rules that say what they do."""
    with pytest.raises(SourceError, match=None) as error:
        built(tmp_path, rules)
    assert why in str(error.value)
    assert built(tmp_path, ALLOW + FORBID + HOLD)


def test_note_for_a_rule_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    notes = MANIFEST + "notes: {not-alowed: {safe_reason: no}}\n"
    with pytest.raises(SourceError, match="no rule has this `@id`"):
        built(tmp_path, ALLOW + FORBID, notes)


SAYS: dict[str, tuple[str, dict[str, Any], frozenset[str], object]] = {
    "a hold beside a forbid of the same call denies": (
        ALLOW + FORBID + HOLD,
        {"facts": FACTS | {"refund_allowed": False}, "amount_minor": 50_000},
        frozenset({"large"}),
        Forbidden(("not-allowed",)),
    ),
    "two holds wait for both, one lifted lifts neither": (
        ALLOW + HOLD + HOLD.replace('"large"', '"larger"').replace("10000", "20000"),
        {"amount_minor": 50_000},
        frozenset({"large"}),
        Held,
    ),
    "a hold lifts nothing that no rule allows": (
        HOLD,
        {"amount_minor": 50_000},
        frozenset({"large"}),
        Forbidden(()),
    ),
    "an unknown lifted id lifts nothing": (
        ALLOW + HOLD,
        {"amount_minor": 50_000},
        frozenset({"small"}),
        Held,
    ),
    "a forbid that overflows is no allow": (
        ALLOW + f'@id("x") forbid ({REFUND}) when {{ resource.version * 9223372036854775807 > 0 }};',
        {"facts": FACTS | {"version": 2}},
        frozenset(),
        Failed,
    ),
    "another case of the agent's name is another agent": (
        ALLOW,
        {"agent": "Bot"},
        frozenset(),
        Forbidden(()),
    ),
    "a rule in a comment allows nothing": ("// " + ALLOW, {}, frozenset(), Forbidden(())),
    "an order of rules changes nothing": (FORBID + ALLOW, {}, frozenset(), Allowed(("bot",))),
}


@pytest.mark.parametrize(("rules", "call", "lifted", "expected"), SAYS.values(), ids=list(SAYS))
def test_bundle_says_what_a_careful_reader_expects(
    tmp_path: Path, rules: str, call: dict[str, Any], lifted: frozenset[str], expected: object
) -> None:
    said = load_bundle(built(tmp_path, rules)).rules.evaluate(call_of(**call), lifted=lifted)
    if isinstance(expected, type):
        assert isinstance(said, expected)
    else:
        assert said == expected


WARNED = {
    "a rule that allows everything to everyone": (
        '@id("all") permit (principal, action, resource);',
        "everyone",
    ),
    "only rules that deny": (FORBID, "no rule allows anything"),
    "nothing at all": ("", "there are no rules"),
    "a denial that explains nothing": (ALLOW + FORBID, "without a note"),
}


@pytest.mark.parametrize(("rules", "why"), WARNED.values(), ids=list(WARNED))
def test_bundle_that_is_unwise_is_named_by_lint(tmp_path: Path, rules: str, why: str) -> None:
    assert any(why in sentence for sentence in lint_bundle(built(tmp_path, rules)))


@pytest.mark.parametrize("condition", ["1 > 2", 'context.currency == "USD" && context.currency == "EUR"'])
def test_rule_that_can_never_fire_is_named_by_its_missing_test(tmp_path: Path, condition: str) -> None:
    """It reads as a denial and denies nothing: no test can make it decide, and that is said."""
    rules = ALLOW + f'@id("never") forbid ({REFUND}) when {{ {condition} }};'
    loaded = load_bundle(built(tmp_path, rules)).rules
    test = PolicyTest("t", 1, call_of(), frozenset(), "allow", None)
    assert not isinstance(loaded.evaluate(call_of()), Forbidden | Narrowable)
    assert any(
        "`never`" in sentence for sentence in untested(loaded, (Outcome(test, "allow", ("bot",), ""),))
    )
