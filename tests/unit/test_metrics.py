"""What is counted has fixed labels and no ids, is scraped under the documented names, and never waits."""

import re
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client.parser import text_string_to_metric_families

from licet import metrics, telemetry
from licet.metrics import Metrics, attributes_of
from licet.telemetry import METRICS, Metric, MetricKind
from licet.tracing import TraceContext

IDS = re.compile(r"(^|[._])(id|ids|digest|hash|resource|task|principal|agent|call)$")
"""What a label may not be named for: its values never end."""


@pytest.fixture
def scraped() -> Iterator[Metrics]:
    running = metrics.configure("test", None, "127.0.0.1:0", "i0")
    yield running
    running.shutdown()


def scrape(running: Metrics) -> dict[str, list[dict[str, str]]]:
    """Return the label sets of every sample, by the name that Prometheus knows."""
    with urllib.request.urlopen(f"http://127.0.0.1:{running.port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found: dict[str, list[dict[str, str]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = {name: value for name, value in sample.labels.items() if name != "le"}
            found.setdefault(sample.name, []).append(labels)
    return found


def measure(running: Metrics, metric: Metric) -> None:
    """Give a metric two samples, one of them with nothing to say."""
    for values in (tuple("x" for _ in metric.labels), tuple("" for _ in metric.labels)):
        if metric.kind is MetricKind.COUNTER:
            running.counter(metric.name).add(1, *values)
        elif metric.kind is MetricKind.HISTOGRAM:
            running.histogram(metric.name).record(0.01, *values)
        else:
            running.gauge(metric.name).set(1, *values)


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.name)
def test_metric_is_scraped_under_its_documented_name_with_the_same_labels_on_every_sample(
    scraped: Metrics, metric: Metric
) -> None:
    measure(scraped, metric)
    suffix = "_bucket" if metric.kind is MetricKind.HISTOGRAM else ""
    label_sets = scrape(scraped)[metric.prometheus + suffix]
    wanted = {label.replace(".", "_") for label in metric.labels}
    assert {frozenset(labels) for labels in label_sets} == {frozenset(wanted)}
    assert "" not in {value for labels in label_sets for value in labels.values()}


def test_observed_gauge_is_asked_at_each_scrape(scraped: Metrics) -> None:
    depth = {("journal",): 1.0, ("outcome",): 0.0}
    scraped.observe(telemetry.METRIC_SPOOL_DEPTH, lambda: depth)
    name = telemetry.METRICS[telemetry.METRIC_SPOOL_DEPTH].prometheus
    assert len(scrape(scraped)[name]) == 2
    depth[("journal",)] = 7.0
    with urllib.request.urlopen(f"http://127.0.0.1:{scraped.port}/metrics", timeout=30) as answer:
        assert f'{name}{{licet_spool="journal"}} 7.0' in answer.read().decode()


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.name)
def test_no_metric_has_an_id_as_a_label(metric: Metric) -> None:
    assert [label for label in metric.labels if IDS.search(label)] == []


@pytest.mark.parametrize("label", [telemetry.SPEND_ID, telemetry.TASK_ID, telemetry.RULE_IDS])
def test_the_rule_on_ids_would_see_one(label: str) -> None:
    assert IDS.search(label)


@pytest.mark.parametrize("labels", [(), ("passed",), ("passed", "NONE", "EXECUTED", "one too many")])
def test_sample_with_other_labels_than_the_metrics_is_a_fault(labels: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="zip"):
        attributes_of(METRICS[telemetry.METRIC_DOOR_CALLS], labels)


def test_sample_with_other_labels_is_a_fault_also_where_nobody_reads() -> None:
    with pytest.raises(ValueError, match="zip"):
        Metrics("test").counter(telemetry.METRIC_DOOR_CALLS).add(1, "passed")


def test_duration_names_the_trace_that_shows_it() -> None:
    reader = InMemoryMetricReader()
    running = Metrics("test", readers=[reader])
    trace = TraceContext("a" * 32, "b" * 16)
    running.histogram(telemetry.METRIC_DOOR_DURATION).record(0.2, "passed", "EXECUTED", trace=trace)
    data = reader.get_metrics_data()
    assert data is not None
    (point,) = data.resource_metrics[0].scope_metrics[0].metrics[0].data.data_points
    (exemplar,) = point.exemplars
    assert f"{exemplar.trace_id:032x}" == trace.trace_id
    assert f"{exemplar.span_id:016x}" == trace.span_id
    running.shutdown()


def test_label_sets_of_one_metric_are_bounded() -> None:
    """A hostile caller must not fill the memory with label values, should one ever choose them."""
    reader = InMemoryMetricReader()
    running = Metrics("test", readers=[reader])
    failures = running.counter(telemetry.METRIC_DECISION_FAILURES)
    for number in range(metrics.MAX_SERIES + 500):
        failures.add(1, f"R{number}")
    data = reader.get_metrics_data()
    assert data is not None
    points = data.resource_metrics[0].scope_metrics[0].metrics[0].data.data_points
    assert len(points) == metrics.MAX_SERIES + 1  # the last one holds the rest
    assert sum(point.value for point in points) == metrics.MAX_SERIES + 500
    running.shutdown()


def test_address_that_is_taken_is_an_error_that_names_it(scraped: Metrics) -> None:
    with pytest.raises(OSError, match="Address already in use"):
        metrics.configure("second", None, f"127.0.0.1:{scraped.port}")


def test_nothing_is_served_or_loaded_unless_asked_for() -> None:
    silent = metrics.configure("silent", None, None)
    assert not silent.on
    assert silent.port == 0
    start = time.monotonic()
    silent.shutdown()
    assert time.monotonic() - start < 1


def test_every_name_that_is_documented_is_used() -> None:
    """A name that nobody leaves would be a promise in docs/telemetry.md."""
    root = Path(__file__).parents[2]
    sources = [
        path for part in ("licet", "decider", "sidecar", "audit") for path in (root / part).rglob("*.py")
    ]
    code = "\n".join(path.read_text("utf-8") for path in sources if path.name != "telemetry.py")
    written = re.compile(r"\b(?:SPAN_|METRIC_)?[A-Z_]+\b")
    used = set(written.findall(code))
    labels = {label for metric in METRICS.values() for label in metric.labels}
    named = {name: value for name, value in vars(telemetry).items() if name.isupper()}
    unused = {name for name, value in named.items() if isinstance(value, str) and value not in labels} - used
    assert unused - {"SECONDS"} == set()
