"""The runbooks of docs/operations.md, typed in on the charts as they run: each block in its order.

What is not here: a cluster. `kubectl` and `helm` are read as what they ask for, by a small operator below;
every `licet` command really runs, on this machine or in the pod that the line names.
"""

import licet.embedded  # noqa: F401, I001 - before grpc

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from examples.refund.fin.v1.finance_pb2_grpc import FinanceStub
from licet.client import Denied, GateError
from licet.embedded.nats_accounts import AUDIT_WRITER, SETUP
from tests.helm.test_run import refund, refunds
from tests.worlds.charts import ROOT, Helm
from tests.worlds.cluster import DOMAIN, DOOR, ENVIRONMENT, POLICY, TOOL, Cluster
from tests.worlds.node import Pod

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]
TEXT = (ROOT / "docs" / "operations.md").read_text("utf-8")
WITHIN_S = 120.0


def block(heading: str, number: int = 0) -> list[str]:
    """The commands of a console block, by the text before it."""
    found = re.findall(r"```console\n(.*?)```", TEXT[TEXT.index(heading) :], re.DOTALL)
    return [line for line in found[number].splitlines() if line.strip()]


class Operator:
    """Types lines in: in a directory with keys and passwords, on a running cluster."""

    def __init__(self, cluster: Cluster, directory: Path, helm: Helm) -> None:
        self.cluster, self.directory, self.helm = cluster, directory, helm
        keys = directory / "keys"
        keys.mkdir(mode=0o700)
        for files in list(cluster.node.store.objects.values()):
            for name, content in files.items():
                if (name.endswith(".key") and name != "tls.key") or name in {"root.pub", "keyset.signed"}:
                    (keys / name).write_bytes(content)
                    (keys / name).chmod(0o600)
        (directory / "passwords").mkdir()
        password = directory / "passwords" / "setup.password"
        password.write_bytes(cluster.nats.password_file(SETUP).read_bytes())
        (directory / "policy").symlink_to(POLICY)
        self.database = "default"

    def types(self, lines: list[str]) -> str:
        """Type lines in; each must succeed. Returns what the last one said."""
        said = ""
        for line in lines:
            said = self._type(self._local(line))
        return said

    def _local(self, line: str) -> str:
        line = line.replace("nats://nats:4222", self.cluster.nats.url).replace("example.org", DOMAIN)
        line = re.sub(r"--replicas 3", "--replicas 1", line)
        return re.sub(r"(?<![\w-])prod(?![\w-])", ENVIRONMENT, line)

    def _type(self, line: str) -> str:
        words = shlex.split(line)
        match words:
            case ["licet", *_]:
                environment = {**os.environ, "PYTHONPATH": str(ROOT)}
                environment |= self.audit if words[1] == "audit" else {}
                done = subprocess.run(
                    [sys.executable, "-m", *words], cwd=self.directory, env=environment, capture_output=True,
                    text=True, check=False,
                )  # fmt: skip
            case ["kubectl", "-n", _, "exec", pod, "--", *command]:
                done = self._pod(pod).containers[0].execute(*command)
            case ["kubectl", "-n", _, "create", *rest]:
                kind, name = ("secrets", rest[2]) if rest[0] == "secret" else ("configmaps", rest[1])
                self._put(kind, name, rest)
                return ""
            case ["kubectl", "-n", _, "scale", "deployment", name, "--replicas", "0"]:
                for one in [one for one in self.cluster.node.pods if one.startswith(name)]:
                    self.cluster.node.pods.pop(one).stop()
                return ""
            case ["kubectl", "-n", _, "rollout", "restart", "statefulset", "licet-decider"]:
                self.restart_deciders()
                return ""
            case ["helm", "upgrade", release, *rest]:
                self._upgrade(release, rest)
                return ""
            case _:
                raise AssertionError(f"the test cannot type this in: {line}")
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def _put(self, kind: str, name: str, words: list[str]) -> None:
        named = [word.removeprefix("--from-file=") for word in words if word.startswith("--from-file=")]
        files = {one.rpartition("=")[0] or Path(one).name: one.rpartition("=")[2] for one in named}
        content = {file: (self.directory / path).read_bytes() for file, path in files.items()}
        self.cluster.node.store.put(kind, name, content)

    def _pod(self, name: str) -> Pod:
        return self.cluster.node.pods[name]

    def restart_deciders(self) -> None:
        node = self.cluster.node
        for name in sorted(one for one in node.pods if "decider" in one):
            node.remove("licet", node.pods[name])
            node.ready("licet", node.add(self.cluster.workload("decider"), name.rpartition("-")[2]))

    def _upgrade(self, release: str, words: list[str]) -> None:
        """As `--reuse-values --set NAME=VALUE`; the pods are replaced."""
        (given,) = [words[number + 1] for number, word in enumerate(words) if word == "--set"]
        directory = self.cluster.node.directory
        if release == "licet":
            files = [str(directory / f"{name}-values.yaml") for name in ("trial", "licet")]
            self.cluster.licet = self.helm.render(
                "licet", "-f", files[0], "-f", files[1], "--set-string", given
            )
            self.cluster.hook("migrate")
            self.add_audit()
            return
        assert release == DOOR
        file = directory / f"{DOOR}-values.yaml"
        self.cluster.door = self.helm.render(DOOR, "-f", str(file), "--set", given)
        values, inner = yaml.safe_load(file.read_text()), {}
        name, _, value = given.partition("=")
        inner = values
        *parents, last = name.split(".")
        for parent in parents:
            inner = inner[parent]
        inner[last] = int(value)
        file.write_text(yaml.safe_dump(values))
        node = self.cluster.node
        for pod in [pod for one, pod in node.pods.items() if one.startswith(DOOR)]:
            node.remove(DOOR, pod)
        self.add_door()

    @property
    def audit(self) -> dict[str, str]:
        """What the page says that the audit's commands read."""
        nats, user = self.cluster.nats, AUDIT_WRITER
        return {
            "LICET_CLICKHOUSE_URL": f"http://127.0.0.1:{self.cluster._front_port}",
            "LICET_CLICKHOUSE_PASSWORD_FILE": str(self.cluster._password),
            "LICET_CLICKHOUSE_DATABASE": self.database,
            "LICET_ENVIRONMENT": ENVIRONMENT,
            "LICET_TRUST_DOMAIN": DOMAIN,
            "LICET_KEYS_DIR": str(self.directory / "keys"),
            "LICET_NATS_URL": nats.url,
            "LICET_NATS_USER": user,
            "LICET_NATS_PASSWORD_FILE": str(nats.password_file(user)),
        }

    def add_audit(self) -> None:
        node = self.cluster.node
        node.add(self.cluster.workload("writer"), f"r{node.next_number()}")

    def add_door(self) -> None:
        node = self.cluster.node
        node.ready(DOOR, node.add(self.cluster.workload("tool"), f"r{node.next_number()}"))


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    helm = Helm.prepare(tmp_path_factory.mktemp("charts"))
    cluster = Cluster(helm, seed_bulk=100)
    try:
        cluster.prepare()
        cluster.install()
        cluster.node.ready("licet", cluster.node.add(cluster.workload("decider"), 0))
        made = Operator(cluster, tmp_path_factory.mktemp("operator"), helm)
        made.add_door()
        yield made
    finally:
        cluster.close()


ORDERS = iter(f"B{number:04}" for number in range(1, 100))


def call(cluster: Cluster) -> str:
    """One refund of an order of its own: `passed`, or why not."""
    order = next(ORDERS)
    try:
        with cluster.client() as client:
            client.stub(FinanceStub, task="task_789").IssueRefund(refund(order, 100), call_id=f"call-{order}")
    except GateError as error:
        return error.reason or type(error).__name__
    assert refunds(cluster)[order] == 100
    return "passed"


def until(said: Callable[[], str], wanted: str) -> None:
    end, last = time.monotonic() + WITHIN_S, ""
    while (last := said()) != wanted:
        assert time.monotonic() < end, last
        time.sleep(1)


def stored(cluster: Cluster, database: str) -> str:
    return cluster.ask(
        "SELECT count() > 0, count() = uniqExact(js_stream, js_seq), uniqExactIf(spend_id, kind = "
        f"'ledger.changed') FROM {database}.events"
    )


def test_a_lost_audit_store_is_restored_and_the_writer_brings_the_rest(operator: Operator) -> None:
    cluster = operator.cluster
    operator.add_audit()
    assert call(cluster) == "passed"
    until(lambda: stored(cluster, "default"), "[(1, 1, 1)]")
    operator.types(block("**Back up**"))
    assert call(cluster) == "passed"
    until(lambda: stored(cluster, "default"), "[(1, 1, 2)]")
    said = operator.types(block("**Lost.** Restore the newest")[:2])
    assert "all is there that was counted" in said
    assert "MISSING" not in said
    assert stored(cluster, "licet_restored") == "[(1, 1, 1)]"
    operator.types(block("**Lost.** Restore the newest")[2:])
    until(lambda: stored(cluster, "licet_restored"), "[(1, 1, 2)]")
    operator.database = "licet_restored"
    operator.types(block("Once the writer has caught up"))
    operator.types(block("**Keep less, or longer.**"))
    operator.types(block("**A newer schema.**"))
    operator.types(["kubectl -n licet scale deployment licet-writer --replicas 0"])


def test_a_key_is_rotated_and_calls_go_on(operator: Operator) -> None:
    cluster = operator.cluster
    assert call(cluster) == "passed"
    operator.types(block("## Rotate a key"))
    until(lambda: call(cluster), "passed")
    with cluster.client() as client:
        from licet.client.exchange import Step
        from licet.v1.statement_pb2 import Signed

        body = refund(next(ORDERS), 100).SerializeToString()
        permitted = client.decide(Step("/fin.v1.Finance/IssueRefund", body, "task_789", "which-key"))
    assert Signed.FromString(permitted.permit).key_id == "decider-2"


def test_an_agent_is_revoked_the_environment_stopped_and_begun_again(operator: Operator) -> None:
    cluster = operator.cluster
    assert "refund-bot" in operator.types(block("## Revoke, and stop an environment"))
    until(lambda: call(cluster), "AGENT_REVOKED")
    operator.types(block("## Revoke, and stop an environment", 1))
    until(lambda: call(cluster), "ENVIRONMENT_STOPPED")
    restored = block("**Restored.**")
    lift = f" --lift environment:{ENVIRONMENT} --lift agent:refund-bot"
    operator.types([line + lift if "policy generation" in line else line for line in restored])
    until(lambda: call(cluster), "passed")


def test_a_lost_store_begins_the_next_generation_with_what_was_revoked(operator: Operator) -> None:
    cluster = operator.cluster
    decider = operator._pod("licet-decider-0").containers[0]
    kept = Path(decider.local("/var/lib/licet/revocations.signed"))
    (operator.directory / "revocations.signed").write_bytes(kept.read_bytes())
    cluster.nats.stop()
    for stored in sorted((cluster.nats.directory / "store").rglob("*"), reverse=True):
        stored.rmdir() if stored.is_dir() else stored.unlink()
    cluster.nats.start()
    operator.types(block("**Lost.** Make"))
    following = [line.replace(" 2 ", " 3 ").replace("=2", "=3") for line in block("**Restored.**")]
    operator.types([line for line in following if "policy generation" not in line])
    operator.restart_deciders()
    with pytest.raises(Denied), cluster.client() as client:
        client.stub(FinanceStub, task="task_789").IssueRefund(refund(next(ORDERS), 100), call_id="revoked")
    assert TOOL == "finance"
