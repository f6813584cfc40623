"""What a process counts, over OTLP and as Prometheus scrapes it. Nothing here waits for either.

Guarantees
- Every sample of a metric has the labels that `licet.telemetry` lists for it, no more and no less.
- Recording never blocks and never raises for a collector: values add up in memory, threads send them.
- Memory is bounded: at most `MAX_SERIES` label sets a metric, the rest fall into one (OpenTelemetry's
  overflow attribute); what is not sent is not kept, since sums are cumulative.
- `shutdown` returns within `SHUTDOWN_S` of each export, also when nobody answers.

Not guaranteed: that a value arrives. Audit is what cannot be lost. The Prometheus endpoint has no transport
security and no names of callers or calls; it listens where it is told, on no address by default.
"""

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.sdk.resources import Resource
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from licet import __version__, telemetry
from licet.log import log
from licet.telemetry import Metric
from licet.tracing import TraceContext

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import MetricReader

LOG: Final = logging.getLogger(__name__)

INTERVAL_MS: Final = 10_000
"""Between two exports over OTLP."""

EXPORT_TIMEOUT_MS: Final = 2_000
SHUTDOWN_S: Final = 2.0
MAX_SERIES: Final = 2_000
"""Label sets of one metric; OpenTelemetry's own limit."""

Values: TypeAlias = Mapping[tuple[str, ...], float]
"""What a gauge shows now: label values, in the metric's order, to its value."""


class Counter:
    """Adds up events."""

    __slots__ = ("_add", "_metric")

    def __init__(self, metric: Metric, meter: Meter | None) -> None:
        self._metric = metric
        self._add = (
            meter.create_counter(metric.name, metric.unit, metric.says).add if meter is not None else None
        )

    def add(self, amount: int, *labels: str) -> None:
        """Add to the sum of `labels`, in the metric's order; an empty one is said as `none`."""
        attributes = attributes_of(self._metric, labels)
        if self._add is not None:
            self._add(amount, attributes)

    def begin(self, *labels: str) -> None:
        """Show a sum of nothing under `labels`, so that the first count is seen as a rise.

        Prometheus takes a series that appears for no increase: an alert on `increase(…) > 0` would sleep
        through the first one. To be called when the process starts, for what alerts ask for.
        """
        self.add(0, *labels)


class Histogram:
    """Spreads durations over buckets; a value may name the trace that shows what took so long."""

    __slots__ = ("_metric", "_record")

    def __init__(self, metric: Metric, meter: Meter | None) -> None:
        self._metric = metric
        self._record: Callable[..., None] | None = None
        if meter is not None:
            self._record = meter.create_histogram(
                metric.name, metric.unit, metric.says, explicit_bucket_boundaries_advisory=telemetry.FAST_S
            ).record

    def record(self, value: float, *labels: str, trace: TraceContext | None = None) -> None:
        """Record seconds under `labels`; `trace` becomes the exemplar where its turn comes."""
        attributes = attributes_of(self._metric, labels)
        if self._record is not None:
            self._record(value, attributes, context=_exemplar(trace) if trace is not None else None)


class Gauge:
    """Shows the last value that was set."""

    __slots__ = ("_metric", "_set")

    def __init__(self, metric: Metric, meter: Meter | None) -> None:
        self._metric = metric
        self._set = (
            meter.create_gauge(metric.name, metric.unit, metric.says).set if meter is not None else None
        )

    def set(self, value: float, *labels: str) -> None:
        """Set the value of `labels`."""
        attributes = attributes_of(self._metric, labels)
        if self._set is not None:
            self._set(value, attributes)


class Metrics:
    """The metrics of one process. Without a reader they cost a comparison and go nowhere.

    Args:
        service: The part, such as `licet-sidecar`.
        instance: Tells several of one part apart.
        readers: Where values go.
    """

    def __init__(self, service: str, instance: str = "", readers: "Sequence[MetricReader]" = ()) -> None:
        self._provider: MeterProvider | None = None
        self._meter: Meter | None = None
        self._server: WSGIServer | None = None
        self.port = 0
        """Where Prometheus scrapes; 0 where nobody can."""
        if readers:
            attributes = {telemetry.SERVICE_NAME: service, telemetry.SERVICE_VERSION: __version__}
            if instance:
                attributes[telemetry.SERVICE_INSTANCE_ID] = instance
            self._provider = _provider(readers, Resource(attributes, telemetry.SCHEMA_URL))
            self._meter = self._provider.get_meter(telemetry.SCOPE, __version__, telemetry.SCHEMA_URL)

    @property
    def on(self) -> bool:
        """Whether anybody reads."""
        return self._meter is not None

    def counter(self, name: str) -> Counter:
        """Return a counter by its name in `licet.telemetry`."""
        return Counter(telemetry.METRICS[name], self._meter)

    def histogram(self, name: str) -> Histogram:
        """Return a histogram by its name in `licet.telemetry`."""
        return Histogram(telemetry.METRICS[name], self._meter)

    def gauge(self, name: str) -> Gauge:
        """Return a gauge by its name in `licet.telemetry`."""
        return Gauge(telemetry.METRICS[name], self._meter)

    def observe(self, name: str, values: Callable[[], Values]) -> None:
        """Ask `values` whenever somebody reads; it runs in the reader's thread and must only look."""
        if self._meter is None:
            return
        metric = telemetry.METRICS[name]

        def callback(_: CallbackOptions) -> list[Observation]:
            return [Observation(value, attributes_of(metric, one)) for one, value in values().items()]

        self._meter.create_observable_gauge(metric.name, [callback], metric.unit, metric.says)

    def serve(self, listen: str, registry: Any) -> None:
        """Answer Prometheus at `host:port`, port 0 for a free one; raises OSError where that is taken."""
        from prometheus_client import make_wsgi_app

        from licet.scrape_server import serve

        host, _, port = listen.rpartition(":")
        self._server = serve(host.strip("[]"), int(port), make_wsgi_app(registry))
        self.port = int(self._server.server_port)

    def shutdown(self) -> None:
        """Send once more, for at most `SHUTDOWN_S`, and stop."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        if self._provider is not None:
            provider, self._provider, self._meter = self._provider, None, None
            try:
                provider.shutdown(timeout_millis=SHUTDOWN_S * 1000)
            except Exception as error:  # noqa: BLE001 - the SDK raises bare ones where time was up
                log(LOG, logging.WARNING, "metrics.not_sent", error=str(error)[:300])


def configure(service: str, endpoint: str | None, listen: str | None, instance: str = "") -> Metrics:
    """Send to an OTLP/gRPC endpoint (`http://host:port`) and answer Prometheus at `listen`; None for neither.

    Raises OSError where `listen` cannot be had.
    """
    readers: list[MetricReader] = []
    registry: Any = None
    if endpoint:
        readers.append(_otlp(endpoint))
    if listen:
        # Imported here: agents have no exporter, and a process that nobody scrapes need not load it.
        from opentelemetry.exporter.prometheus import PrometheusMetricReader
        from prometheus_client import CollectorRegistry

        registry = CollectorRegistry()
        readers.append(PrometheusMetricReader(scope_info_enabled=False, registry=registry))
    metrics = Metrics(service, instance, readers)
    if listen:
        try:
            metrics.serve(listen, registry)
        except OSError:
            metrics.shutdown()
            raise
    return metrics


def _provider(readers: "Sequence[MetricReader]", resource: Resource) -> "MeterProvider":
    # Imported here, as below: a process that nobody reads need not hold 2 MB for it.
    from opentelemetry.sdk.metrics import MeterProvider

    return MeterProvider(readers, resource, shutdown_on_exit=False)


def _otlp(endpoint: str) -> "MetricReader":
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    exporter = OTLPMetricExporter(
        endpoint, insecure=endpoint.startswith("http://"), timeout=EXPORT_TIMEOUT_MS / 1000
    )
    return PeriodicExportingMetricReader(
        exporter, export_interval_millis=INTERVAL_MS, export_timeout_millis=EXPORT_TIMEOUT_MS
    )


@functools.lru_cache(maxsize=MAX_SERIES)
def attributes_of(metric: Metric, labels: tuple[str, ...]) -> dict[str, str]:
    """Return a sample's attributes: every label of the metric and no other.

    Raises:
        ValueError: too few or too many values: a fault of the program, found by the first test that counts.
    """
    return {
        label: value or telemetry.NONE for label, value in zip(metric.labels, labels, strict=True)
    }  # shared and never changed: the SDK makes its own key of it


def _exemplar(trace: TraceContext) -> Context:
    flags = TraceFlags(TraceFlags.SAMPLED if trace.sampled else TraceFlags.DEFAULT)
    context = SpanContext(int(trace.trace_id, 16), int(trace.span_id, 16), False, flags)
    return set_span_in_context(NonRecordingSpan(context), Context())
