"""What Prometheus would read of a process: samples by name, each with its labels."""

import urllib.request

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample


def text(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        return str(answer.read().decode())


def samples(port: int) -> list[Sample]:
    return [sample for family in text_string_to_metric_families(text(port)) for sample in family.samples]


def total(found: list[Sample], name: str, **labels: str) -> float:
    """Return the sum of the samples of a name whose labels include these; `reason` means `licet_reason`."""
    wanted = {f"licet_{label}": value for label, value in labels.items()}
    return sum(one.value for one in found if one.name == name and wanted.items() <= one.labels.items())
