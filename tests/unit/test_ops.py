"""Alert rules and dashboards ask for what there is: series, labels, values, tables."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from audit.judging.findings import PAGES, FindingClass
from licet import telemetry
from licet.refusal import Reason
from sidecar.outcome import Outcome
from tests.worlds.queries import read, series

OPS = Path(__file__).parents[2] / "ops"
RULES = [
    rule for group in yaml.safe_load((OPS / "alerts.yaml").read_text())["groups"] for rule in group["rules"]
]
BOARDS = {path.stem: json.loads(path.read_text()) for path in sorted((OPS / "dashboards").glob("*.json"))}
VALUES = {
    "licet_finding": set(FindingClass),
    "licet_reason": {*Reason, "OTHER", telemetry.NONE},
    "licet_outcome": {*Outcome, telemetry.NONE},
    "licet_enforcement": {"passed", "refused"},
    "licet_decision": {"allow", "deny", "hold", "modify", "failed"},
}
"""What a label can be."""


def asked() -> Iterator[Any]:
    for rule in RULES:
        yield pytest.param(rule["expr"], id=rule["alert"])
    for name, board in BOARDS.items():
        for panel in board["panels"]:
            for target in panel["targets"]:
                if "expr" in target:
                    yield pytest.param(target["expr"], id=f"{name}: {panel['title']} {target['refId']}")


@pytest.mark.parametrize("expression", list(asked()))
def test_query_asks_for_series_labels_and_values_that_exist(expression: str) -> None:
    query, known = read(expression), series()
    assert query.selected
    for name, matchers in query.selected:
        assert name in known
        assert matchers.keys() <= known[name]
        assert query.grouped <= known[name]
        for label, value in matchers.items():
            assert set(value.split("|")) <= VALUES[label]


@pytest.mark.parametrize("broken", ["sum(rate(licet_decisions_total[5m])", "rate(licet_decisions_total)"])
def test_a_broken_query_would_be_seen(broken: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read(broken)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_alert_says_how_bad_it_is_what_it_means_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"page", "ticket"}
    assert rule["annotations"].keys() == {"summary", "action"}
    shown = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    query, known = read(rule["expr"]), series()
    kept = query.grouped or set.union(*(known[name] for name, _ in query.selected))
    assert shown <= kept, "an aggregation drops the other labels"


PROMTOOL = shutil.which("promtool")
TRIED = yaml.safe_load((OPS / "alerts_test.yaml").read_text())["tests"]


def test_each_alert_is_tried_by_what_it_is_for_and_all_are_silent_when_all_is_well() -> None:
    cases = [case for group in TRIED for case in group["promql_expr_test"]]
    fired = {
        name
        for case in cases
        if case["exp_samples"]
        for name in re.findall(r'alertname="(\w+)", alertstate="firing"', case["expr"])
    }
    assert fired == {rule["alert"] for rule in RULES}
    (well,) = (group for group in TRIED if group["name"] == "all is well")
    named = {re.split(r"[{]", one["series"])[0] for one in well["input_series"]}
    assert {name for rule in RULES for name, _ in read(rule["expr"]).selected} <= named
    assert all(case["expr"] == 'count(ALERTS{alertstate="firing"})' for case in well["promql_expr_test"])


@pytest.mark.soak
@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
def test_prometheus_itself_fires_each_alert_when_it_should() -> None:
    assert PROMTOOL is not None
    done = subprocess.run(
        [PROMTOOL, "test", "rules", "alerts_test.yaml"], cwd=OPS, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_names_of_alerts_and_panels_are_each_used_once() -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    for board in BOARDS.values():
        for key in ("id", "title"):
            assert len({panel[key] for panel in board["panels"]}) == len(board["panels"])


def test_every_finding_that_pages_has_a_paging_alert_and_no_other_has() -> None:
    (rule,) = (one for one in RULES if one["alert"] == "LicetChangeWithoutAuthority")
    asked = {matchers["licet_finding"] for _, matchers in read(rule["expr"]).selected}
    assert [set(one.split("|")) for one in asked] == [set(PAGES)]
    assert rule["labels"]["severity"] == "page"
    others = [
        matchers.get("licet_finding", "")
        for one in RULES
        if one is not rule and one["labels"]["severity"] == "page"
        for _, matchers in read(one["expr"]).selected
    ]
    assert {finding for value in others for finding in value.split("|")} == {""}


def test_changes_without_authority_are_the_same_on_the_dashboard() -> None:
    (panel,) = (one for one in BOARDS["security"]["panels"] if one["title"] == "Changes without authority")
    (target,) = panel["targets"]
    assert {finding for finding in FindingClass if f"'{finding}'" in target["rawSql"]} == set(PAGES)


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_panels_fit_the_grid_and_none_lies_on_another(board: dict[str, Any]) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
        assert panel["description"]


def test_every_metric_is_watched_by_an_alert_or_a_panel() -> None:
    watched = {name for parameter in asked() for name, _ in read(parameter.values[0]).selected}
    stems = {re.sub(r"_(bucket|count|sum)$", "", name) for name in watched}
    assert {metric.prometheus for metric in telemetry.METRICS.values()} - stems == set()
