"""The charts are run, not only rendered: commands, variables, files and hooks, as local processes."""

import licet.embedded  # noqa: F401, I001 - before grpc

import asyncio
import json
import sqlite3
import threading
import time
from collections.abc import Iterator

import grpc
import pytest

from examples.refund.fin.v1.finance_pb2 import Amount, IssueRefundRequest
from examples.refund.fin.v1.finance_pb2_grpc import FinanceStub
from licet.client import Denied, GateError, OutcomeUnknown, Refused, Unavailable
from tests.worlds.charts import Helm
from tests.worlds.cluster import DOOR, HOOKS, Cluster
from tests.worlds.node import Pod

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

ORDERS = 5_000
AMOUNT = 100
CALLERS = 2
PAUSE_S = 0.05
GIVE_UP_S = 60.0


@pytest.fixture(scope="module")
def cluster(helm: Helm) -> Iterator[Cluster]:
    with Cluster(helm, seed_bulk=ORDERS) as running:
        yield running


def test_the_gated_refund_goes_through_and_the_forbidden_one_does_not(cluster: Cluster) -> None:
    decider = cluster.node.add(cluster.workload("decider"), 0)
    cluster.node.ready("licet", decider)
    door = cluster.node.add(cluster.workload("tool"), 0)
    cluster.node.ready(DOOR, door)
    with cluster.client() as client:
        finance = client.stub(FinanceStub, task="task_789")
        finance.IssueRefund(refund("O1", 5000), call_id="one")
        with pytest.raises(Denied):
            finance.IssueRefund(refund("O3", 5000), call_id="two")
    assert refunds(cluster) == {"O1": 5000}
    assert "bundle" in cluster.hook("test")  # what `helm test` runs


def refund(order_id: str, minor: int) -> IssueRefundRequest:
    return IssueRefundRequest(order_id=order_id, amount=Amount(minor=minor, currency="USD"))


def refunds(cluster: Cluster) -> dict[str, int]:
    with sqlite3.connect(cluster.ledger) as book:
        rows = book.execute("SELECT order_id, refunded_minor FROM orders WHERE refunded_minor > 0")
        return dict(rows.fetchall())


def test_doors_and_deciders_are_replaced_under_load_without_a_lost_call_or_a_double_effect(
    cluster: Cluster,
) -> None:
    node = cluster.node
    doors = [pod for name, pod in node.pods.items() if name.startswith(DOOR)]
    deciders = [pod for name, pod in node.pods.items() if "decider" in name]
    for number in range(len(doors), 2):
        doors.append(node.add(cluster.workload("tool"), number))
        node.ready(DOOR, doors[-1])
    for number in range(len(deciders), 2):
        deciders.append(node.add(cluster.workload("decider"), number))
        node.ready("licet", deciders[-1])

    load = Load(cluster)
    load.start()
    load.wait_for(5)
    # A Deployment with maxSurge 1 and maxUnavailable 0: a new pod is ready before an old one ends.
    for number, old in enumerate(doors, start=2):
        node.ready(DOOR, node.add(cluster.workload("tool"), number))
        node.remove(DOOR, old)
        assert old.exits == {"tool": 0, "licet-sidecar": 0}, old.exits
        load.wait_for(5)
    # A StatefulSet: the pod ends, then comes again under its name and on its disk.
    ended = deciders[1]
    node.remove("licet", ended)
    assert ended.exits == {"decider": 0}
    node.ready("licet", node.add(cluster.workload("decider"), 1))
    load.wait_for(5)
    load.stop()

    assert load.failed == []
    assert len(load.done) >= 20
    made = refunds(cluster)
    assert {order: minor for order, minor in made.items() if order.startswith("B")} == dict.fromkeys(
        load.done, AMOUNT
    )


def test_the_audit_has_every_effect_joined_to_its_decision(cluster: Cluster) -> None:
    asyncio.run(cluster.leave_open("O2", "its-door-died"))
    writer = cluster.node.add(cluster.workload("writer"), 0)
    cluster.node.add(cluster.workload("reconciler"), 0)
    effects = f"[({len(refunds(cluster))},)]"
    changed = "SELECT uniqExact(spend_id) FROM events WHERE kind = 'ledger.changed'"
    without_decision = (
        "SELECT count() FROM events WHERE kind = 'ledger.changed' AND spend_id NOT IN "
        "(SELECT spend_id FROM events WHERE kind = 'decision.allowed')"
    )
    # Two streams are copied side by side: a change may be there before its decision is.
    wanted = (effects, "[(0,)]")
    found = ("", "")
    end = time.monotonic() + GIVE_UP_S
    while found != wanted and time.monotonic() < end:
        time.sleep(0.5)
        found = (cluster.ask(changed), cluster.ask(without_decision))
    assert found == wanted, writer.containers[0].last_words()
    twice = (
        "SELECT count() FROM (SELECT spend_id FROM events WHERE kind = 'ledger.changed' "
        "GROUP BY spend_id HAVING uniqExact(round) > 1)"
    )
    assert cluster.ask(twice) == "[(0,)]"


def test_an_open_round_is_fenced_over_mtls_by_the_reconciler_as_installed(cluster: Cluster) -> None:
    """Nobody but the guard can say so: the reconciler asked a door by its certificate, the door the guard."""
    voided = "SELECT count() FROM events WHERE kind = 'spend.outcome' AND outcome = 'VOIDED'"
    reconciler = next(pod for name, pod in cluster.node.pods.items() if "reconciler" in name)
    end = time.monotonic() + GIVE_UP_S
    while cluster.ask(voided) != "[(1,)]":
        assert time.monotonic() < end, reconciler.containers[0].last_words()
        time.sleep(0.5)
    assert "O2" not in refunds(cluster)


def test_the_audit_as_installed_verifies_and_was_compared_with_jetstream(cluster: Cluster) -> None:
    writer = next(pod for name, pod in cluster.node.pods.items() if "writer" in name)
    done = writer.containers[0].execute("licet", "audit", "verify", "--nats", cluster.nats.url)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not compared" not in done.stderr


def test_every_job_run_again_changes_nothing(cluster: Cluster) -> None:
    objects = {key: dict(files) for key, files in cluster.node.store.objects.items()}
    writes = cluster.node.store.writes
    for name in HOOKS:
        cluster.hook(name)
    assert cluster.node.store.objects == objects
    assert cluster.node.store.writes == writes


def test_the_keys_job_adds_nothing_once_the_root_key_is_offline(cluster: Cluster) -> None:
    root = cluster.node.store.objects.pop(("secrets", "licet-root-key"))
    try:
        writes = cluster.node.store.writes
        cluster.hook("keys")
        missing = cluster.node.store.objects.pop(("secrets", "licet-finance-tool-key"))
        with pytest.raises(AssertionError, match=r"tool-finance\.key"):
            cluster.hook("keys")
        cluster.node.store.objects["secrets", "licet-finance-tool-key"] = missing
        assert cluster.node.store.writes == writes
    finally:
        cluster.node.store.objects["secrets", "licet-root-key"] = root


@pytest.mark.soak
def test_the_doctor_finds_nothing_wrong_in_any_pod(cluster: Cluster) -> None:
    looked_at = set()
    for pod in cluster.node.pods.values():
        for container in pod.running:
            if container.name in {"tool", "writer"}:
                continue
            done = container.execute("licet", "doctor", "--json")
            found = {one["check"]: one for one in json.loads(done.stdout)}
            wrong = [one for one in found.values() if one["state"] == "problem"]
            assert wrong == [], (pod.name, wrong)
            assert done.returncode == 0
            looked_at |= {name for name, one in found.items() if one["state"] == "ok"}
    assert looked_at == {
        *(
            "keys",
            "certificates",
            "clock",
            "streams",
            "beacon",
            "clickhouse",
            "socket",
            "another way",
            "spool",
        )
    }


@pytest.mark.soak
def test_the_doctor_names_deciders_and_stores_that_are_away_and_only_these(cluster: Cluster) -> None:
    door = next(pod for name, pod in cluster.node.pods.items() if name.startswith(DOOR))
    reconciler = next(pod for name, pod in cluster.node.pods.items() if "reconciler" in name)
    for name, pod in list(cluster.node.pods.items()):
        if "decider" in name:
            cluster.node.remove("licet", pod)
    assert problems(door) == {"beacon"}
    cluster.front.stop()
    assert problems(reconciler) == {"clickhouse"}
    cluster.nats.stop()
    assert problems(reconciler) == {"clickhouse", "streams"}
    (tool,) = door.containers
    tool.kill()
    assert problems(door) == {"beacon", "streams", "another way"}


def problems(pod: Pod) -> set[str]:
    container = next(one for one in pod.running if one.name != "tool")
    done = container.execute("licet", "doctor", "--json")
    assert done.returncode == 1, done.stdout + done.stderr
    return {one["check"] for one in json.loads(done.stdout) if one["state"] == "problem"}


class Load:
    """Agents that refund one order after the other; cut off, they ask again with the same call id."""

    def __init__(self, cluster: Cluster) -> None:
        self.done: list[str] = []
        self.failed: list[str] = []
        self.last = ""
        self._cluster = cluster
        self._numbers = iter(range(1, ORDERS + 1))
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(CALLERS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def wait_for(self, more: int) -> None:
        """Wait until so many more calls have ended."""
        wanted, end = len(self.done) + more, time.monotonic() + GIVE_UP_S
        while len(self.done) < wanted:
            assert time.monotonic() < end, (self.failed, self.last)
            time.sleep(0.02)

    def _run(self) -> None:
        with self._cluster.client() as client:
            finance = client.stub(FinanceStub, task="task_789")
            while not self._stopping.is_set():
                with self._lock:
                    order = f"B{next(self._numbers):04}"
                try:
                    self._once(finance, order)
                except (GateError, grpc.RpcError, TimeoutError) as error:
                    self.failed.append(f"{order}: {error!r}")
                else:
                    self.done.append(order)
                time.sleep(PAUSE_S)

    def _once(self, finance: FinanceStub, order: str) -> None:
        """One step, asked for with the same call id until it is known to have had its effect."""
        end = time.monotonic() + GIVE_UP_S
        while True:
            try:
                finance.IssueRefund(refund(order, AMOUNT), call_id=f"call-{order}")
            except (Unavailable, OutcomeUnknown) as error:  # what the client says to ask again for
                self.last = repr(error)
            except Refused as error:
                if (error.reason, error.outcome) == ("SPENT", "EXECUTED"):
                    return
                raise
            else:
                return
            if time.monotonic() > end:
                raise TimeoutError(self.last)
            time.sleep(0.1)
