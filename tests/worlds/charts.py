"""Renders the charts as `helm install` would, and takes them apart."""

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHARTS = ROOT / "helm"
Object = Mapping[str, Any]


@dataclass(frozen=True)
class Helm:
    """Helm over a copy of the charts whose dependencies are built."""

    program: str
    charts: Path

    @classmethod
    def prepare(cls, directory: Path) -> "Helm":
        found = subprocess.run(
            [sys.executable, str(ROOT / "scripts" / "helm"), "--where"],
            check=True,
            capture_output=True,
            text=True,
        )
        helm = cls(found.stdout.strip(), directory / "helm")
        shutil.copytree(CHARTS, helm.charts)
        built = helm.run("dependency", "build", str(helm.charts / "refund-example"))
        assert built.returncode == 0, built.stderr
        return helm

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([self.program, *arguments], check=False, capture_output=True, text=True)

    def template(self, chart: str, *arguments: str, release: str = "") -> subprocess.CompletedProcess[str]:
        return self.run(
            "template", release or chart, str(self.charts / chart), "--namespace", "tools", *arguments
        )

    def render(self, chart: str, *arguments: str, release: str = "") -> tuple[Object, ...]:
        done = self.template(chart, *arguments, release=release)
        assert done.returncode == 0, done.stderr
        return tuple(one for one in yaml.safe_load_all(done.stdout) if one)


def ci_values() -> Iterator[tuple[str, Path]]:
    for file in sorted(CHARTS.glob("*/ci/*-values.yaml")):
        yield file.parts[-3], file


def pod_of(one: Object) -> Object | None:
    """The pod's template of a workload, None for what runs nothing."""
    match one["kind"]:
        case "Deployment" | "StatefulSet" | "Job":
            template: Object = one["spec"]["template"]
            return template
        case "Pod":
            return one
    return None


def containers_of(pod: Object) -> Iterator[Object]:
    spec = pod["spec"]
    yield from spec.get("initContainers", ())
    yield from spec["containers"]


def secret_files(pod: Object) -> Iterator[tuple[str, str]]:
    """Mount path and volume of what a pod mounts from Secrets, ConfigMaps and certificates, by container."""
    for container in containers_of(pod):
        for mount in container.get("volumeMounts", ()):
            yield mount["mountPath"], mount["name"]
