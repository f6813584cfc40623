"""What the egress check finds reaches rules, events and holds; the value reaches nothing."""

import base64
import pathlib

import pytest

from decider.decision.envelope import WITHHELD
from decider.policy.bundle import BundleError, load_bundle, read_bundle_source
from decider.source import SourceError
from licet.statement import canonical, strict_parse
from licet.v1 import bundle_pb2
from licet.v1.decision_pb2 import DECISION_TYPE_ALLOW, DECISION_TYPE_DENY
from tests.worlds.decisions import ENV, POLICY, TYPES, House, refund

CANARY = "ghp_" + "9f3KxQ7LmZ2tVbN8rYcW4sJd6HgP1aEuTo5R"  # of the form, and nobody's


@pytest.mark.asyncio
async def test_secret_in_an_argument_is_denied_and_told_as_a_flag_only(house: House) -> None:
    hidden = base64.b64encode(CANARY.encode()).decode()
    denied = await house.decide(refund_because(f"see {hidden}"))
    assert denied.decision == DECISION_TYPE_DENY
    assert denied.refusal.reason == "POLICY_DENIED"
    [event] = await house.decisions()
    assert event.rule_ids == ["no-secrets-in-arguments"]
    assert event.risk_flags == ["secret", "secret:github-token"]
    assert event.summary == WITHHELD
    for told in await house.events():
        assert CANARY.encode() not in told.SerializeToString()
        assert hidden.encode() not in told.SerializeToString()
    assert CANARY.encode() not in denied.SerializeToString()


@pytest.mark.asyncio
async def test_same_refund_with_a_harmless_reason_is_allowed(house: House) -> None:
    allowed = await house.decide(refund_because("arrived broken"))
    assert allowed.decision == DECISION_TYPE_ALLOW
    [event] = await house.decisions()
    assert not event.risk_flags


def refund_because(reason: str) -> bytes:
    message = TYPES("IssueRefundRequest").FromString(refund())
    message.reason = reason
    return bytes(message.SerializeToString())


def with_egress(folder: pathlib.Path, text: str) -> pathlib.Path:
    for source in POLICY.iterdir():
        (folder / source.name).write_bytes(source.read_bytes())
    manifest = folder / "bundle.yaml"
    manifest.write_text(manifest.read_text() + text)
    return folder


def test_bundle_says_what_is_expected_in_which_field(tmp_path: pathlib.Path) -> None:
    text = "egress: {fin.v1.Finance/IssueRefund: {reason: ['personal:email']}}\n"
    payload = read_bundle_source(with_egress(tmp_path, text), environment=ENV)
    assert load_bundle(payload).egress == {
        "/fin.v1.Finance/IssueRefund": {"reason": frozenset({"personal:email"})}
    }


def test_flag_that_no_rule_gives_is_refused_in_source_and_bundle(tmp_path: pathlib.Path) -> None:
    text = "egress: {fin.v1.Finance/IssueRefund: {reason: ['personal:shoe_size']}}\n"
    with pytest.raises(SourceError, match="no flag of the egress check"):
        read_bundle_source(with_egress(tmp_path, text), environment=ENV)
    bundle = strict_parse(bundle_pb2.Bundle, read_bundle_source(POLICY, environment=ENV))
    assert isinstance(bundle, bundle_pb2.Bundle)
    bundle.egress.add(method="/a.B/C", path="x", flags=["personal:shoe_size"])
    with pytest.raises(BundleError, match="egress allowance"):
        load_bundle(canonical(bundle))
