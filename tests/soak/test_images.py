"""The images as the charts run them: started as their own users on read-only roots, called once, stopped.

`make images` builds them, says where their roots are (`LICET_IMAGES`), and runs this.
"""

import licet.embedded  # noqa: F401, I001 - before grpc

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.refund.fin.v1.finance_pb2_grpc import FinanceStub
from licet.client import Denied
from tests.helm.test_run import refund, refunds
from tests.worlds.boxes import read_boxes
from tests.worlds.charts import Helm
from tests.worlds.cluster import DOOR, POLICY, TOOL, Cluster, Service
from tests.worlds.node import Container, Pod

GIVEN = os.environ.get("LICET_IMAGES", "")
pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not GIVEN, reason="`make images` builds the images and runs this"),
]
WITHIN_S = 120.0
JOINED = (
    "SELECT uniqExact(spend_id) FROM events WHERE kind = 'ledger.changed' AND spend_id IN "
    "(SELECT spend_id FROM events WHERE kind = 'decision.allowed')"
)
NEVER_THERE = ("gcc", "cc", "g++", "ld", "make", "pip", "pip3", "buildah", "curl", "git")
NOT_IN = {
    "licet-sidecar": ("clickhouse_connect", "cedarpy", "chdb", "decider", "audit"),
    "licet-refund": ("clickhouse_connect", "cedarpy", "chdb", "decider", "audit", "sidecar"),
    "licet-decider": ("clickhouse_connect", "chdb", "sidecar", "audit"),
    "licet-audit": ("cedarpy", "chdb", "decider", "sidecar"),
}
IN = {
    "licet-sidecar": ("sidecar", "grpc", "nats"),
    "licet-refund": ("licet.guard", "examples.refund.service"),
    "licet-decider": ("decider", "cedarpy"),
    "licet-audit": ("audit", "clickhouse_connect"),
}
USERS = {"licet-decider": 64_001, "licet-audit": 64_001, "licet-sidecar": 64_002, "licet-refund": 64_003}
LOOK = """
import importlib.util, json, os, shutil, sys
names = json.loads(sys.argv[1])
def there(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
def writes(path):
    try:
        open(path, "w").close()
    except OSError as error:
        return error.errno
    os.unlink(path)
    return 0
print(json.dumps({
    "uid": os.getuid(), "gid": os.getgid(),
    "capabilities": int(status["CapEff"], 16) | int(status["CapBnd"], 16),
    "no_new_privileges": status["NoNewPrivs"].strip(),
    "written": {path: writes(path) for path in ("/x", "/etc/x", "/opt/licet/x", "/usr/x", "/tmp/x")},
    "modules": [name for name in names["modules"] if there(name)],
    "programs": [name for name in names["programs"] if shutil.which(name)],
}))
"""
READ_ONLY = 30  # EROFS


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm.prepare(Path(tmp_path_factory.mktemp("charts")))


@pytest.fixture(scope="module")
def cluster(helm: Helm) -> Iterator[Cluster]:
    service = Service(TOOL, DOOR, POLICY, "refund-bot", boxes=read_boxes(Path(GIVEN)))
    with Cluster(helm, service=service) as running:
        yield running


def started(cluster: Cluster, component: str, service: str = "") -> tuple[Pod, float]:
    """Start a pod; return it, and how many seconds it took until it was ready."""
    begin = time.monotonic()
    pod = cluster.node.add(cluster.workload(component), 0)
    if service:
        cluster.node.ready(service, pod)
    else:
        pod.wait_ready()
    return pod, time.monotonic() - begin


def test_every_image_serves_a_gated_call_as_nobody_on_a_read_only_root_and_ends_when_told(
    cluster: Cluster,
) -> None:
    took = {}
    decider, took["decider"] = started(cluster, "decider", "licet")
    door, took["door and tool"] = started(cluster, "tool", DOOR)
    writer, _ = started(cluster, "writer")
    reconciler, _ = started(cluster, "reconciler")
    with cluster.client() as client:
        finance = client.stub(FinanceStub, task="task_789")
        finance.IssueRefund(refund("O1", 5000), call_id="one")
        with pytest.raises(Denied):
            finance.IssueRefund(refund("O3", 5000), call_id="two")
    assert refunds(cluster) == {"O1": 5000}
    end = time.monotonic() + WITHIN_S
    while cluster.ask(JOINED) != "[(1,)]":
        assert time.monotonic() < end, writer.containers[0].last_words()
        time.sleep(0.5)
    seen = {}
    for pod in (decider, door, writer, reconciler):
        for container in pod.running:
            image = container.spec["image"].partition(":")[0]
            seen[image] = container
            closed(container, image)
    assert seen.keys() == USERS.keys()
    for pod, service in ((door, DOOR), (decider, "licet")):
        cluster.node.remove(service, pod)
    for pod in (writer, reconciler):
        pod.stop()
    assert [pod.exits for pod in (decider, door, writer, reconciler)] == [
        {"decider": 0},
        {"tool": 0, "licet-sidecar": 0},
        {"writer": 0},
        {"reconciler": 0},
    ]
    if said := os.environ.get("LICET_STARTED"):
        Path(said).write_text(json.dumps({"ready_s": {name: round(s, 1) for name, s in took.items()}}))


def closed(container: Container, image: str) -> None:
    """What a process of this image can do: nothing but its work."""
    names = {"modules": (*NOT_IN[image], *IN[image]), "programs": NEVER_THERE}
    done = container.execute("python", "-c", LOOK, json.dumps(names))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["uid"] == USERS[image]
    assert (found["capabilities"], found["no_new_privileges"]) == (0, "1")
    written = found["written"]
    assert written.pop("/tmp/x") == 0  # the twin: what the chart mounts can be written
    assert set(written.values()) == {READ_ONLY}, written
    assert found["modules"] == list(IN[image])
    assert found["programs"] == []
