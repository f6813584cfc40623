"""Section 7 of the quickstart: its chart is linted, rendered, and run up to the first gated call."""

import licet.embedded  # noqa: F401, I001 - before grpc

import importlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from licet.client import Denied
from tests.helm.test_quickstart import steps
from tests.worlds.charts import ROOT, Helm
from tests.worlds.cluster import Cluster, Service

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]
LAST = (ROOT / "docs" / "quickstart.md").read_text("utf-8").partition("## 7.")[2]
FILE = re.compile(r"`(chart/[\w./]+\.yaml)`:\n\n```yaml\n(.*?)```", re.DOTALL)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """The reader's directory after section 6, without what was run."""
    (tmp_path / "policy").mkdir()
    for name, content in steps():
        if name:
            (tmp_path / name).write_text(content)
        elif "protoc" in content:
            command = [sys.executable, *shlex.split(content)[1:]]
            subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


@pytest.fixture
def helm(notes: Path, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm over the charts, with the reader's beside ours."""
    made = Helm.prepare(tmp_path_factory.mktemp("charts"))
    files = FILE.findall(LAST)
    assert {name for name, _ in files} == {
        "chart/Chart.yaml",
        "chart/values.yaml",
        "chart/templates/notes.yaml",
    }
    for name, content in files:
        path = made.charts / "notes" / name.removeprefix("chart/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content.replace("../../helm/licet-sidecar", "../licet-sidecar"))
    built = made.run("dependency", "build", str(made.charts / "notes"))
    assert built.returncode == 0, built.stderr
    return made


@pytest.fixture
def cluster(helm: Helm, notes: Path) -> Iterator[Cluster]:
    service = Service("notes", "notes", notes / "policy", "scribe", {"/app": notes})
    with Cluster(helm, service=service) as running:
        yield running


def test_the_chart_of_the_quickstart_is_linted_rendered_and_run_to_the_first_gated_call(
    cluster: Cluster, helm: Helm, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linted = helm.run("lint", "--strict", str(helm.charts / "notes"))
    assert linted.returncode == 0, linted.stdout + linted.stderr
    kinds = set()
    for one in helm.render("notes"):
        kubernetes_validate.validate(dict(one), "1.37", strict=True)
        kinds.add(one["kind"])
    assert kinds == {"Deployment", "Service", "NetworkPolicy", "PodDisruptionBudget"}
    cluster.node.ready("licet", cluster.node.add(cluster.workload("decider"), 0))
    cluster.node.ready("notes", cluster.node.add(cluster.workload("tool"), 0))
    monkeypatch.syspath_prepend(str(notes))
    messages: Any = importlib.import_module("notes_pb2")
    stubs: Any = importlib.import_module("notes_pb2_grpc")
    with cluster.client() as client:
        stub = client.stub(stubs.NotesStub, task="task_1")
        request = messages.AddNoteRequest(customer_id="c1", text="likes tea")
        assert stub.AddNote(request, call_id="first").notes == 1
        with pytest.raises(Denied, match="notes on the press are written by people"):
            stub.AddNote(messages.AddNoteRequest(customer_id="press", text="x"), call_id="second")
