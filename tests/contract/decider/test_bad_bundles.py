"""Bundles that are nothing, or half of something: refused, or they deny everything; none allows."""

from pathlib import Path

import pytest

from decider.policy.bundle import (
    BundleError,
    lint_bundle,
    load_bundle,
    read_bundle_source,
)
from decider.policy.cedar import Allowed, Forbidden, RuleCall
from decider.policy.waiver import DAY_MS, Waiver, waiver_fault
from decider.source import SourceError
from licet.v1 import bundle_pb2
from tests.worlds.policies import ALLOW, FACTS, FORBID, SCHEMA

MANIFEST = 'version: 1\nescalate_to: "desk@example.com"\n'
CALL = RuleCall(
    "bot",
    "refund",
    "Order",
    "order:O1",
    FACTS,
    {"tenant": "t1", "tier": 4, "amount_minor": 1, "currency": "USD"},
)


def bundle(path: Path, manifest: str = MANIFEST, rules: str = ALLOW, schema: str = SCHEMA) -> bytes:
    (path / "bundle.yaml").write_text(manifest)
    (path / "rules.cedar").write_text(rules)
    (path / "schema.cedarschema").write_text(schema)
    return read_bundle_source(path, environment="dev")


@pytest.mark.parametrize(
    ("rules", "expected", "warns"),
    [
        ("", Forbidden(()), "there are no rules"),
        ("\n// comment\n", Forbidden(()), "there are no rules"),
        (FORBID, Forbidden(()), "no rule allows anything"),
        (ALLOW, Allowed(("bot",)), ""),
        (ALLOW + FORBID, Allowed(("bot",)), "denies without a note"),
    ],
    ids=["empty", "comment", "only-deny", "only-allow", "both"],
)
def test_table_of_expected_results(tmp_path: Path, rules: str, expected: object, warns: str) -> None:
    payload = bundle(tmp_path, rules=rules)
    assert load_bundle(payload).rules.evaluate(CALL) == expected
    assert any(warns in sentence for sentence in lint_bundle(payload)) or not warns


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        ("", "is empty"),
        ("null\n", "must be a mapping"),
        ("[]\n", "must be a mapping"),
        ("{}\n", "version: is required"),
        ('version: 0\nescalate_to: "x"\n', "from 1"),
        ('version: -1\nescalate_to: "x"\n', "from 1"),
        ('version: 1.0\nescalate_to: "x"\n', "is a float"),
        ('version: null\nescalate_to: "x"\n', "must not be null"),
        (MANIFEST + "stage: off\n", "must be one of"),
        (MANIFEST + "stage: allow\n", "must be one of"),
        (MANIFEST + "notes: []\n", "must be a mapping"),
        (MANIFEST + 'notes: {nobody: {safe_reason: "x"}}\n', "no rule has this `@id`"),
        (MANIFEST + 'notes: {bot: {safe_reason: "x", safe_reason: "y"}}\n', "given twice"),
        (MANIFEST + "rules: allow-all\n", "unknown field"),
        (MANIFEST + f"notes: {{bot: {{safe_reason: {'x' * 301}}}}}\n", "longer than 300 bytes"),
    ],
)
def test_manifest_that_is_not_whole_is_refused(tmp_path: Path, manifest: str, why: str) -> None:
    with pytest.raises(SourceError, match=why):
        bundle(tmp_path, manifest)


def test_file_that_is_missing_is_named(tmp_path: Path) -> None:
    bundle(tmp_path)
    for name in ("rules.cedar", "schema.cedarschema", "bundle.yaml"):
        path = tmp_path / name
        text = path.read_text()
        path.unlink()
        with pytest.raises(SourceError, match=name):
            read_bundle_source(tmp_path, environment="dev")
        path.write_text(text)


def test_stage_is_enforce_unless_said(tmp_path: Path) -> None:
    assert not load_bundle(bundle(tmp_path)).shadow
    assert load_bundle(bundle(tmp_path, MANIFEST + "stage: shadow\n")).shadow


SHADOW = MANIFEST + "stage: shadow\n"
WAIVED = SHADOW + 'waiver: {until: "2026-12-31", reason: "ana, first week"}\n'
END_MS = 1_798_761_600_000  # 2027-01-01T00:00:00Z


def test_a_waiver_lasts_to_the_end_of_its_day_and_is_said(tmp_path: Path) -> None:
    payload = bundle(tmp_path, WAIVED)
    assert load_bundle(payload).waiver == Waiver(END_MS, "ana, first week")
    assert any("on writes until 2026-12-31" in sentence for sentence in lint_bundle(payload))
    assert any("without a waiver" in sentence for sentence in lint_bundle(bundle(tmp_path, SHADOW)))
    assert load_bundle(bundle(tmp_path)).waiver is None


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        (MANIFEST + 'waiver: {until: "2026-12-31", reason: "x"}\n', "only stage `shadow`"),
        (SHADOW + 'waiver: {until: "soon", reason: "x"}\n', "is no date"),
        (SHADOW + 'waiver: {until: "2026-12-31"}\n', "reason: is required"),
        (SHADOW + 'waiver: {until: "2026-12-31", reason: ""}\n', "reason"),
        (SHADOW + "waiver: {reason: x}\n", "until: is required"),
        (SHADOW + 'waiver: {until: "2026-12-31", reason: "x", forever: true}\n', "unknown field"),
    ],
)
def test_a_waiver_that_is_not_whole_is_refused(tmp_path: Path, manifest: str, why: str) -> None:
    with pytest.raises(SourceError, match=why):
        bundle(tmp_path, manifest)


@pytest.mark.parametrize(
    ("stage", "end_ms", "reason"), [(2, END_MS, "x"), (1, 0, "x"), (1, -1, "x"), (1, END_MS, "")]
)
def test_a_signed_waiver_that_is_not_whole_is_refused(
    tmp_path: Path, stage: bundle_pb2.RolloutStage.ValueType, end_ms: int, reason: str
) -> None:
    message = bundle_pb2.Bundle.FromString(bundle(tmp_path, WAIVED))
    message.stage = stage
    message.waiver.CopyFrom(bundle_pb2.ShadowWaiver(not_after_ms=end_ms, reason=reason))
    with pytest.raises(BundleError, match="waiver"):
        load_bundle(message.SerializeToString())


def test_a_waiver_comes_into_force_for_a_month_at_most_and_not_after_its_end(tmp_path: Path) -> None:
    message = bundle_pb2.Bundle.FromString(bundle(tmp_path, WAIVED))
    assert waiver_fault(message, END_MS - 1) == ""
    assert waiver_fault(message, END_MS - 31 * DAY_MS) == ""
    assert "is over" in waiver_fault(message, END_MS)
    assert "longer than 30 days" in waiver_fault(message, END_MS - 31 * DAY_MS - 1)
    assert waiver_fault(bundle_pb2.Bundle.FromString(bundle(tmp_path, SHADOW)), END_MS) == ""


@pytest.mark.parametrize(
    "change",
    [
        {"version": 0},
        {"version": 2},
        {"bundle_version": 0},
        {"stage": 0},
        {"stage": 3},
        {"rules": "permit (principal, action, resource);"},
        {"schema": ""},
        {"entities_json": "[{}]"},
        {"entities_json": '[{"uid": {"type": "Team", "id": "a"}, "attrs": {}, "parents": []}]'},
        {"notes": [bundle_pb2.RuleNote(rule_id="nobody")]},
        {"notes": [bundle_pb2.RuleNote(rule_id="bot")] * 2},
    ],
)
def test_signed_bytes_are_checked_again_when_they_are_loaded(
    tmp_path: Path, change: dict[str, object]
) -> None:
    good = bundle_pb2.Bundle.FromString(bundle(tmp_path))
    load_bundle(good.SerializeToString(deterministic=True))
    for name, value in change.items():
        good.ClearField(name)  # type: ignore[arg-type]  # names of this message
        if isinstance(value, list):
            getattr(good, name).extend(value)
        else:
            setattr(good, name, value)
    with pytest.raises(BundleError):
        load_bundle(good.SerializeToString(deterministic=True))


def test_bytes_that_are_no_bundle_are_refused() -> None:
    for payload in (b"", b"\xff", b"\xf8\x07\x01"):
        with pytest.raises(BundleError):
            load_bundle(payload)
