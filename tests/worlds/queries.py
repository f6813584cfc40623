"""What a PromQL expression asks for: series, labels it matches and groups by; read by a real parser."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import promql_parser as promql

from licet.telemetry import METRICS, MetricKind


@dataclass
class Query:
    """`selected`: series name to label to the matched value; `grouped`: labels of `by` clauses."""

    selected: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    grouped: set[str] = field(default_factory=set)


def read(text: str) -> Query:
    """Parse an expression; raises ValueError where Prometheus would. Grafana's interval is filled in."""
    query = Query()

    def visit(node: Any) -> None:
        if isinstance(node, promql.VectorSelector):
            matchers = {one.name: one.value for one in node.matchers.matchers}
            query.selected.append((node.name, matchers))
        elif isinstance(node, promql.AggregateExpr) and node.modifier is not None:
            query.grouped |= set(node.modifier.labels)

    promql.walk(promql.parse(text.replace("$__rate_interval", "5m")), visit)
    return query


def series() -> Mapping[str, set[str]]:
    """Return every series that licet exposes, by Prometheus' name, with its labels."""
    return dict(_series())


def _series() -> Iterator[tuple[str, set[str]]]:
    for metric in METRICS.values():
        labels = {label.replace(".", "_") for label in metric.labels}
        if metric.kind is MetricKind.HISTOGRAM:
            yield metric.prometheus + "_bucket", labels | {"le"}
            yield metric.prometheus + "_count", labels
            yield metric.prometheus + "_sum", labels
        else:
            yield metric.prometheus, labels
