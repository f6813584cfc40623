"""The egress check against the examples of other detectors: rates by source, with floors.

A row counts as it stands: never is a rule made for one row. Apart from the rest are reported: rows that the
source itself tells from a true one only by the kind of file or by a list of single values, which a text alone
cannot tell.
"""

import base64
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from decider.egress import Kind, inspect_text, packaged
from tests.conformance.conftest import DATA, lines

FOLDER = DATA / "06-secrets-pii"
pytestmark = [
    pytest.mark.conformance,
    pytest.mark.skipif(not FOLDER.is_dir(), reason=f"NOT CHECKED: no {FOLDER}; set LICET_CONFORMANCE_DATA"),
]

BY_FILE_TYPE = frozenset({"keyword", "high_entropy", "ip_public"})
"""Kinds of detect-secrets that judge one text differently by the name of the file, or are no secrets."""
BY_VALUE = frozenset({"gcp-api-key", "mailchimp-api-key"})
"""Kinds of gitleaks whose false rows are keys of true form that it lists one by one or tells by the file."""
GUESSES = frozenset({"assigned-secret"})
"""Our rules that know no provider's format."""

KIND_OF_RECOGNIZER = {
    "ip": "ip_address",
    "mac": "mac_address",
    "crypto": "crypto_wallet",
    "ph_mobile_number": "phone",
    "tr_phone_number": "phone",
    "sg_fin": "sg_nric",
    "fi_personal_identity_code": "fi_personal_code",
    "th_tnin": "th_citizen_id",
    "za_id_number": "za_id",
}


def text_of(row: dict[str, Any]) -> str:
    return base64.b64decode(row["text_b64"]).decode("utf-8", "replace")


def share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def secrets(where: Path = FOLDER) -> list[tuple[dict[str, Any], set[str]]]:
    found = []
    for row in lines(str(where / "secrets.jsonl")):
        report = inspect_text(text_of(row))
        found.append((row, {f.rule_id for f in report.findings if f.kind is Kind.SECRET}))
    return found


def test_secrets_of_known_formats_are_found_and_look_alikes_are_not(
    record_property: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = secrets()
    lost: list[str] = []
    for source in ("gitleaks", "detect-secrets"):
        mine = [(row, hits) for row, hits in rows if row["source"] == source]
        known = [(row, hits) for row, hits in mine if row["rule"] not in BY_FILE_TYPE]
        true = [(row, hits) for row, hits in known if row["expect_flag"]]
        false = [(row, hits) for row, hits in known if not row["expect_flag"]]
        told = [(row, hits) for row, hits in false if row["rule"] not in BY_VALUE]
        rates = {
            "found": (sum(bool(hits) for _, hits in true), len(true)),
            "look-alikes by a format": (sum(bool(hits - GUESSES) for _, hits in told), len(told)),
            "look-alikes by any rule": (sum(bool(hits) for _, hits in told), len(told)),
            "keys of true form, listed by value": (
                sum(bool(h) for r, h in false if r["rule"] in BY_VALUE),
                len(false) - len(told),
            ),
            "by file type, marked true": (
                sum(bool(h) for r, h in mine if r["rule"] in BY_FILE_TYPE and r["expect_flag"]),
                sum(r["rule"] in BY_FILE_TYPE and r["expect_flag"] for r, _ in mine),
            ),
            "by file type, marked false": (
                sum(bool(h) for r, h in mine if r["rule"] in BY_FILE_TYPE and not r["expect_flag"]),
                sum(r["rule"] in BY_FILE_TYPE and not r["expect_flag"] for r, _ in mine),
            ),
        }
        with capsys.disabled():
            for name, (part, whole) in rates.items():
                sys.stdout.write(f"\n  {source}: {name} {part}/{whole} = {share(part, whole):.1%}")
                record_property(f"{source} {name}", f"{part}/{whole}")
        if share(*rates["found"]) < 0.90 or share(*rates["look-alikes by a format"]) > 0.01:
            lost.append(f"{source}: {rates}")
    assert not lost


def test_supported_personal_data_is_found(record_property: Any, capsys: pytest.CaptureFixture[str]) -> None:
    supported = set(packaged().rule_ids)
    alone = {rule.rule_id for rule in packaged().rules if not rule.only_with_words}
    found: Counter[str] = Counter()
    true: Counter[str] = Counter()
    false: Counter[str] = Counter()
    alike: Counter[str] = Counter()
    for row in lines("06-secrets-pii/pii.jsonl"):
        kind = KIND_OF_RECOGNIZER.get(row["recognizer"], row["recognizer"])
        if kind not in supported:
            continue
        hits = {f.kind for f in inspect_text(text_of(row)).findings if f.rule_id == kind}
        if row["expected_len"]:
            true[kind] += 1
            found[kind] += bool(hits)
        else:
            false[kind] += 1
            alike[kind] += Kind.PERSONAL in hits
    with capsys.disabled():
        missing = {kind: f"{found[kind]}/{true[kind]}" for kind in sorted(true) if found[kind] < true[kind]}
        sys.stdout.write(
            f"\n  presidio: found {found.total()}/{true.total()} of {len(true)} kinds, not all of {missing}"
        )
        sys.stdout.write(
            f"  presidio: called personal, and not: {alike.total()}/{false.total()} {dict(+alike)}"
        )
        record_property("presidio found", f"{found.total()}/{true.total()}")
        told = {kind for kind in true if kind not in alone}
        sys.stdout.write(f"\n  presidio: kinds that need a word near, which rows lack: {sorted(told)}")
    by_form = [kind for kind in true if kind in alone]
    assert share(sum(found[kind] for kind in by_form), sum(true[kind] for kind in by_form)) >= 0.95
    assert share(alike.total(), false.total()) <= 0.02
