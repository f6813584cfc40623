"""The names of telemetry, as both exports spell them."""

import re

from licet.telemetry import METRICS, SECONDS, MetricKind

PROMETHEUS = re.compile(r"licet(_[a-z]+)+")


def test_no_two_metrics_have_one_name_in_either_spelling() -> None:
    assert all(name == metric.name for name, metric in METRICS.items())
    spelled = {metric.prometheus for metric in METRICS.values()}
    assert len(spelled) == len(METRICS)
    assert all(PROMETHEUS.fullmatch(name) for name in spelled)


def test_unit_and_kind_stand_at_the_end_of_a_prometheus_name() -> None:
    for metric in METRICS.values():
        assert metric.prometheus.endswith("_total") is (metric.kind is MetricKind.COUNTER)
        assert ("_seconds" in metric.prometheus) is (metric.unit == SECONDS)
