"""Tests of rules as data, and whether rules and catalog fit: found before anything is signed."""

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from decider.cli import policy_app
from decider.policy.bundle import lint_bundle, read_bundle_source
from decider.policy.cedar import RuleSet
from decider.policy.policy_tests import read_tests, run_tests, untested
from decider.source import SourceError
from tests.worlds.policies import ALLOW, FORBID, HOLD, SCHEMA

POLICY = Path(__file__).parents[3] / "examples" / "refund" / "policy"

CALL = """  {name}:
    agent: bot
    operation: refund
    resource: "order:O1"
    facts: {{tenant: t1, refund_allowed: {allowed}, version: 1}}
    context: {{tenant: t1, tier: 4, amount_minor: {amount}, currency: USD}}
    lifted: [{lifted}]
    decision: {decision}
    rules: [{rules}]
"""


def case_of(
    name: str, decision: str, rules: str, *, allowed: str = "true", amount: int = 1, lifted: str = ""
) -> str:
    return CALL.format(
        name=name, decision=decision, rules=rules, allowed=allowed, amount=amount, lifted=lifted
    )


GOOD = (
    "tests:\n"
    + case_of("allowed", "allow", "bot")
    + case_of("forbidden", "deny", "not-allowed", allowed="false")
    + case_of("held", "hold", "large", amount=10_001)
    + case_of("approved", "allow", "bot", amount=10_001, lifted="large")
)


def outcomes(path: Path, text: str) -> list[str]:
    file = path / "tests.yaml"
    file.write_text(text)
    rules = RuleSet(ALLOW + FORBID + HOLD, SCHEMA)
    ran = run_tests(rules, read_tests(file))
    return [outcome.problem for outcome in ran if outcome.problem] + list(untested(rules, ran))


def test_tests_that_say_what_the_rules_say_pass(tmp_path: Path) -> None:
    assert outcomes(tmp_path, GOOD) == []


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("decision: deny", "decision: allow", "must allow, but the rules deny by `not-allowed`"),
        ("rules: [not-allowed]", "rules: [bot]", "must deny by `bot`, but does by `not-allowed`"),
        ("refund_allowed: false", "refund_allowed: no", "must deny, but the rules failed"),
    ],
)
def test_test_that_fails_says_what_happened(tmp_path: Path, old: str, new: str, why: str) -> None:
    assert any(why in problem for problem in outcomes(tmp_path, GOOD.replace(old, new)))


def test_rule_that_no_test_would_miss_is_named(tmp_path: Path) -> None:
    without = (
        "tests:\n" + case_of("allowed", "allow", "bot") + case_of("held", "hold", "large", amount=10_001)
    )
    assert outcomes(tmp_path, without) == [
        "rule `not-allowed`: no test makes it determine a decision",
        "rule `large`: a hold needs a test that holds and one that is lifted",
    ]


def test_approval_that_the_call_does_not_need_is_no_test_of_the_hold(tmp_path: Path) -> None:
    """`lifted` beside a call that nobody holds says nothing of the rule: it would pass without it."""
    idle = GOOD.replace(
        "amount_minor: 10001, currency: USD}\n    lifted: [large]", "amount_minor: 1}\n    lifted: [large]"
    )
    assert idle != GOOD
    assert outcomes(tmp_path, idle) == ["rule `large`: a hold needs a test that holds and one that is lifted"]
    unknown = GOOD.replace("lifted: [large]", "lifted: [large, larger, bot]")
    assert outcomes(tmp_path, unknown)[:1] == ["lifts `bot`, `larger`, which is no rule with `@hold`"]


def test_lint_and_build_say_which_rules_no_test_would_miss(policy: Path, tmp_path: Path) -> None:
    assert "warning" not in CliRunner().invoke(policy_app, ["lint", str(policy)]).output
    with (policy / "rules.cedar").open("a") as rules:
        rules.write('@id("idle") permit (principal == Agent::"x", action == Action::"refund", resource);\n')
    linted = CliRunner().invoke(policy_app, ["lint", str(policy)])
    assert (linted.exit_code, "`idle`: no test makes it determine" in linted.output) == (0, True)
    assert "`idle`: no test makes it determine" in build(policy, tmp_path)[1]
    (policy / "tests.yaml").unlink()
    assert "there is no tests.yaml" in CliRunner().invoke(policy_app, ["lint", str(policy)]).output


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("decision: deny", "decision: denied", "must be one of"),
        ("tier: 4", "tier: four", "another type"),
        ("tier: 4", "approvals: 2", "not known"),
        ("version: 1", "version: 1.5", "is a float"),
        ("version: 1", "version: 1, version: 2", "given twice"),
        ("agent: bot", "agnt: bot", "unknown field"),
    ],
)
def test_bad_test_file_names_line_and_field(tmp_path: Path, old: str, new: str, why: str) -> None:
    with pytest.raises(SourceError, match=why):
        outcomes(tmp_path, GOOD.replace(old, new, 1))


def test_example_passes_its_own_tests_and_lint() -> None:
    result = CliRunner().invoke(policy_app, ["test", str(POLICY)])
    assert result.exit_code == 0, result.output
    assert lint_bundle(read_bundle_source(POLICY, environment="dev")) == ()


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(POLICY, tmp_path / "policy"))


def build(policy: Path, tmp_path: Path) -> tuple[int, str]:
    key = tmp_path / "bundle.key"
    if not key.exists():
        key.write_text("1" * 64)
        key.chmod(0o600)
    words = ["build", str(policy), "--key", str(key), "--out", str(tmp_path / "out"), "--environment", "dev"]
    result = CliRunner().invoke(policy_app, words)
    return result.exit_code, result.output


def test_bundle_whose_tests_fail_is_not_signed(policy: Path, tmp_path: Path) -> None:
    assert build(policy, tmp_path)[0] == 0
    rules = policy / "rules.cedar"
    rules.write_text(
        rules.read_text().replace("when { !resource.refund_allowed }", "when { resource.version < 0 }")
    )
    code, output = build(policy, tmp_path)
    assert (code, "refund-not-allowed: must deny" in output) == (1, True)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("tools.yaml", "operation: refund\n", "operation: refunds\n"),
        ("schema.cedarschema", "refunded_minor: Long,", "refunded_minor: Long, colour: String,"),
        ("schema.cedarschema", "version: Long", "version: String"),
    ],
)
def test_rules_that_the_catalog_does_not_fit_are_not_signed(
    policy: Path, tmp_path: Path, file: str, old: str, new: str
) -> None:
    path = policy / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    (policy / "tests.yaml").unlink()
    code, output = build(policy, tmp_path)
    assert (code, "cannot be evaluated" in output or "resource.version" in output) == (1, True), output


@pytest.mark.parametrize("name", ["Prod", "pre.prod", "", "a b", "../x", "dev\n"])
def test_environment_that_is_no_name_is_wrong_usage(policy: Path, name: str) -> None:
    """It would be a part of NATS subjects; told before anything is read or asked."""
    wrong = CliRunner().invoke(policy_app, ["lint", str(policy), "--environment", name])
    said = " ".join(wrong.output.replace("│", " ").split())  # in a box, broken as the terminal is wide
    assert (wrong.exit_code, "is no name: use 1 to 64 of" in said) == (2, True)
    assert CliRunner().invoke(policy_app, ["lint", str(policy), "--environment", "pre-prod"]).exit_code == 0
