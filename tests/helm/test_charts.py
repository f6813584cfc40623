"""The charts as Helm and Kubernetes judge them: lint, schemas, names, security, settings."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from jsonschema import Draft7Validator

from audit.settings import AuditSettings
from decider.settings import DeciderSettings
from sidecar.settings import SidecarSettings
from tests.worlds.charts import CHARTS, ROOT, Helm, Object, ci_values, containers_of, pod_of

GOLDEN = Path(__file__).parent / "golden"
CASES = [pytest.param(chart, file, id=f"{chart}-{file.stem}") for chart, file in ci_values()]
WORKLOADS = ("Deployment", "StatefulSet", "Job", "Pod")
SELECTORS = {"callers", "namespaces", "scrapers"}
LABELS = ("name", "instance", "component", "version", "part-of", "managed-by")


def variables(names: str) -> set[str]:
    return {f"LICET_{name}" for name in names.split()}


# What the tool of the example reads itself; every other LICET_ variable is a field of a settings class.
TOOL_VARIABLES = variables(
    "TOOL TOOL_SOCKET TOOL_CALLS_FILE CATALOG ROOT_KEY_FILE TOOL_KEY_FILE ENVIRONMENT TRUST_DOMAIN "
    "GENERATION OTLP_ENDPOINT"
)
# Read by the commands of `licet streams` and `licet policy`, which have no settings class.
COMMAND_VARIABLES = variables(
    "NATS_URL NATS_USER NATS_PASSWORD_FILE NATS_CA_FILE "
    "ENVIRONMENT TRUST_DOMAIN KEYS_DIR ROOT_KEY_FILE OTLP_ENDPOINT"
)


def fields(*classes: Any) -> set[str]:
    return {f"LICET_{name}".upper() for one in classes for name in one.model_fields}


def known_variables(command: list[str]) -> set[str]:
    match command[:2]:
        case ["licet", "decider"]:
            return fields(DeciderSettings)
        case ["licet", "sidecar"]:
            return fields(SidecarSettings)
        case ["licet", "audit"]:
            return fields(AuditSettings)
        case ["licet", _]:
            return COMMAND_VARIABLES
        case _:
            return TOOL_VARIABLES


@pytest.mark.parametrize(("chart", "file"), CASES)
def test_helm_lints_strictly(helm: Helm, chart: str, file: Path) -> None:
    done = helm.run("lint", "--strict", str(helm.charts / chart), "-f", str(file))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", ["1.29", "1.37"])
@pytest.mark.parametrize(("chart", "file"), CASES)
def test_kubernetes_accepts_every_object(helm: Helm, chart: str, file: Path, version: str) -> None:
    objects = helm.render(chart, "-f", str(file), "--kube-version", f"{version}.0")
    judged = 0
    for one in objects:
        if one["apiVersion"].startswith("cert-manager.io/"):
            continue  # a custom resource: its schema is cert-manager's
        kubernetes_validate.validate(json.loads(json.dumps(one)), version, strict=True)
        judged += 1
    assert judged >= 4


def test_kubernetes_validation_would_notice_a_field_that_does_not_exist() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"port": []}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(service, "1.37", strict=True)


def test_an_older_kubernetes_is_refused(helm: Helm) -> None:
    done = helm.template(
        "licet", "-f", str(CHARTS / "licet/ci/minimal-values.yaml"), "--kube-version", "1.28.0"
    )
    assert done.returncode != 0
    assert "kubeVersion" in done.stderr


@pytest.mark.parametrize(("chart", "file"), CASES)
def test_every_object_has_labels_and_no_namespace(helm: Helm, chart: str, file: Path) -> None:
    for one in helm.render(chart, "-f", str(file)):
        meta = one["metadata"]
        assert "namespace" not in meta, one["kind"]
        if "helm.sh/hook" in meta.get("annotations", {}) and one["kind"] == "Pod":
            continue
        for label in LABELS:
            assert f"app.kubernetes.io/{label}" in meta["labels"], f"{one['kind']} {meta['name']}: {label}"
        assert "helm.sh/chart" in meta["labels"]


def values_paths(values: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every key of the values whose siblings are fixed."""
    for name, value in values.items():
        yield (*path, name)
        if isinstance(value, dict) and value:
            yield from values_paths(value, (*path, name))


@pytest.mark.parametrize("chart", ["licet", "licet-sidecar", "refund-example"])
def test_the_schema_refuses_a_typo_in_any_value(chart: str) -> None:
    values = yaml.safe_load((CHARTS / chart / "values.yaml").read_text())
    judge = Draft7Validator(json.loads((CHARTS / chart / "values.schema.json").read_text()))
    assert not list(judge.iter_errors(values))
    tried = 0
    for path in values_paths(values):
        if chart == "refund-example" and path[0] == "licet-sidecar" and len(path) > 1:
            continue  # judged by the schema of the library chart
        if set(path) & SELECTORS and path[-1] not in SELECTORS:
            continue  # a selector: its keys are the operator's words
        wrong: dict[str, Any] = {}
        inner = wrong
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[f"{path[-1]}x"] = None
        assert list(judge.iter_errors(wrong)), ".".join(path)
        tried += 1
    assert tried >= 6


@pytest.mark.parametrize(
    ("chart", "typo"),
    [
        ("licet", "decider.replicaz=3"),
        ("licet", "enviroment=prod"),
        ("licet", "decider.image.digest=sha256:12"),
        ("licet", "tools.finance.adress=a:1"),
        ("refund-example", "licet-sidecar.tols=finance"),
        ("refund-example", "licet-sidecar.tls.source=none"),
        ("refund-example", "commands={a}"),
    ],
)
def test_helm_refuses_a_typo(helm: Helm, chart: str, typo: str) -> None:
    done = helm.template(chart, "-f", str(CHARTS / chart / "ci/minimal-values.yaml"), "--set", typo)
    assert done.returncode != 0
    assert "schema" in done.stderr


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("licet-sidecar.tool=", "name the tool"),
        ("licet-sidecar.catalog=", "ConfigMap of the signed catalog"),
        ("licet-sidecar.users.tool=64002", "must be different users"),
    ],
)
def test_a_door_that_could_not_work_is_not_rendered(helm: Helm, given: str, said: str) -> None:
    done = helm.template("refund-example", "--set", given)
    assert done.returncode != 0
    assert said in done.stderr


@pytest.mark.parametrize(("chart", "file"), CASES)
def test_every_container_is_closed(helm: Helm, chart: str, file: Path) -> None:
    seen = 0
    for one in helm.render(chart, "-f", str(file)):
        pod = pod_of(one)
        if pod is None:
            continue
        spec = pod["spec"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in containers_of(pod):
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["limits"]["memory"]
            mounted = {mount["mountPath"] for mount in container.get("volumeMounts", ())}
            assert one["kind"] == "Pod" or "/tmp" in mounted
            seen += 1
        for volume in spec.get("volumes", ()):
            assert "hostPath" not in volume
            if "secret" in volume:
                assert volume["secret"]["defaultMode"] == 0o440
    assert seen


def test_tool_and_sidecar_share_a_group_and_no_user(helm: Helm) -> None:
    pod = deployment(helm)["spec"]
    users = [one["securityContext"]["runAsUser"] for one in (*pod["initContainers"], *pod["containers"])]
    assert len(set(users)) == len(users) == 2
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsGroup"]


def test_the_tool_sees_neither_the_keys_nor_the_certificate_of_its_door(helm: Helm) -> None:
    pod = deployment(helm)["spec"]
    (door,), (tool,) = pod["initContainers"], pod["containers"]
    own = {"licet-keys", "licet-tls", "licet-nats", "licet-spool"}
    assert own <= {mount["name"] for mount in door["volumeMounts"]}
    assert not own & {mount["name"] for mount in tool["volumeMounts"]}
    assert "ports" not in tool
    assert not [one["name"] for one in tool["env"] if "NATS" in one["name"] or "SPEND" in one["name"]]


def test_the_tool_outlasts_the_drain_of_its_door(helm: Helm) -> None:
    """A pod ends its containers first and native sidecars last: open calls would lose their tool."""
    for version in ("1.29.0", "1.37.0"):
        pod = deployment(helm, "--kube-version", version)["spec"]
        (door,), (tool,) = pod["initContainers"], pod["containers"]
        stop = tool["lifecycle"]["preStop"]
        wait = int(stop["exec"]["command"][1] if version == "1.29.0" else stop["sleep"]["seconds"])
        drain_s = int(variable(door, "LICET_DRAIN_MS")) // 1000
        goes_on_s = int(re.findall(r"sleep\((\d+)\)", door["lifecycle"]["preStop"]["exec"]["command"][2])[0])
        assert wait > goes_on_s + drain_s
        assert pod["terminationGracePeriodSeconds"] > wait


def test_no_probe_that_holds_back_the_tool_asks_for_the_tool(helm: Helm) -> None:
    (door,) = deployment(helm)["spec"]["initContainers"]
    assert door["restartPolicy"] == "Always"
    assert door["startupProbe"]["httpGet"]["path"] == "/live"
    assert door["readinessProbe"]["httpGet"]["path"] == "/ready"


@pytest.mark.parametrize(("chart", "file"), CASES)
def test_every_variable_is_one_that_its_process_reads(helm: Helm, chart: str, file: Path) -> None:
    seen = 0
    for one in helm.render(chart, "-f", str(file)):
        for container in containers_of(pod_of(one) or {"spec": {"containers": ()}}):
            names = {
                entry["name"] for entry in container.get("env", ()) if entry["name"].startswith("LICET_")
            }
            command = list(container["command"])
            assert names <= known_variables(command), (command, names - known_variables(command))
            seen += len(names)
    assert seen >= 5


@pytest.mark.parametrize(("chart", "file"), CASES)
def test_every_file_that_is_named_lies_in_a_mount(helm: Helm, chart: str, file: Path) -> None:
    seen = 0
    for one in helm.render(chart, "-f", str(file)):
        pod = pod_of(one)
        if pod is None:
            continue
        volumes = {volume["name"] for volume in pod["spec"].get("volumes", ())}
        volumes |= {claim["metadata"]["name"] for claim in one["spec"].get("volumeClaimTemplates", ())}
        for container in containers_of(pod):
            mounts = {mount["mountPath"]: mount["name"] for mount in container.get("volumeMounts", ())}
            assert set(mounts.values()) <= volumes
            texts = [entry.get("value", "") for entry in container.get("env", ())]
            paths = [part for text in (*texts, *container["command"]) for part in text.split(",")]
            for path in (path for path in paths if path.startswith("/")):
                assert any(path == mount or path.startswith(f"{mount}/") for mount in mounts), path
                seen += 1
    assert seen >= (0 if file.stem.startswith("csi") else 5)


def test_required_settings_are_all_given(helm: Helm) -> None:
    """A setting without default that no chart sets would stop the process at its start."""
    wanted = {"decider": DeciderSettings, "sidecar": SidecarSettings, "audit": AuditSettings}
    seen = set()
    objects = (
        *helm.render("licet", "-f", str(CHARTS / "licet/ci/minimal-values.yaml")),
        *helm.render("refund-example"),
    )
    for one in objects:
        for container in containers_of(pod_of(one) or {"spec": {"containers": ()}}):
            command = container["command"]
            if command[0] != "licet" or command[1] not in wanted or command[-1] == "migrate":
                continue
            names = {entry["name"] for entry in container["env"]}
            model: Any = wanted[command[1]]
            needed = {f"LICET_{n}".upper() for n, field in model.model_fields.items() if field.is_required()}
            assert needed <= names, (command, needed - names)
            seen.add(tuple(command))
    assert len(seen) == 4


# What no chart sets, and why not.
TESTS_ONLY = "a file that tells tests which free port was chosen; a chart says the port"
DEVELOPMENT = "identities that nothing proves, and what asks for them: never in a cluster"
NOT_SET: dict[str, dict[str, str]] = {
    "decider": {
        "LICET_DEV_IDENTITY": DEVELOPMENT,
        "LICET_TASKS_BEGIN_ANEW": DEVELOPMENT,
        "LICET_SERVER": "the other server is young (ADR 0181)",
    },
    "sidecar": {
        "LICET_DEV_IDENTITY": DEVELOPMENT,
        "LICET_PORT_FILE": TESTS_ONLY,
        "LICET_HEALTH_PORT_FILE": TESTS_ONLY,
        "LICET_TOOL_CLIENT": "the other client is young, and its extra is not in the image",
        "LICET_SHARED_PORT": "told by the parent of workers to its workers",
    },
    "audit": {"LICET_DEV_IDENTITY": DEVELOPMENT},
    "tool": {"LICET_TOOL_CALLS_FILE": "counts calls for the demo"},
}


def test_every_setting_of_a_process_can_be_set_by_its_chart(helm: Helm) -> None:
    """With everything on; what is left out is left out for a reason, and really is."""
    settable: dict[str, set[str]] = {}
    objects = (
        *helm.render("licet", "-f", str(CHARTS / "licet/ci/production-values.yaml")),
        *helm.render("refund-example", "-f", str(CHARTS / "refund-example/ci/production-values.yaml")),
    )
    for one in objects:
        for container in containers_of(pod_of(one) or {"spec": {"containers": ()}}):
            command = container["command"]
            process = command[1] if command[0] == "licet" else "tool"
            settable.setdefault(process, set()).update(
                entry["name"] for entry in container.get("env", ()) if entry["name"].startswith("LICET_")
            )
    read = {
        "decider": fields(DeciderSettings),
        "sidecar": fields(SidecarSettings),
        "audit": fields(AuditSettings),
        "tool": TOOL_VARIABLES,
    }
    for process, names in read.items():
        reasons = NOT_SET[process].keys()
        assert names - settable[process] == reasons & names, process
        assert not settable[process] & reasons, process


def test_no_secret_is_made_by_a_template(helm: Helm) -> None:
    """`helm template` looks nothing up: a key made in a template would change with every upgrade."""
    for chart, file in ci_values():
        first = helm.template(chart, "-f", str(file)).stdout
        assert first == helm.template(chart, "-f", str(file)).stdout
        assert not [one for one in yaml.safe_load_all(first) if one and one["kind"] == "Secret"]


@pytest.mark.parametrize(
    ("more", "memory"),
    [
        ((), ("96Mi", "256Mi")),
        (("licet-sidecar.workers=3",), ("288Mi", "640Mi")),
        (("licet-sidecar.workers=3", "licet-sidecar.resources.limits.memory=1Gi"), ("288Mi", "1Gi")),
    ],
)
def test_a_doors_memory_goes_by_its_workers(
    helm: Helm, more: tuple[str, ...], memory: tuple[str, str]
) -> None:
    """Two workers and their parent at rest were more than the one limit that there was."""
    options = [word for one in more for word in ("--set", one)]
    [pod] = [one for one in helm.render("refund-example", *options) if one["kind"] == "Deployment"]
    [door] = [
        one for one in pod["spec"]["template"]["spec"]["initContainers"] if one["name"] == "licet-sidecar"
    ]
    assert (door["resources"]["requests"]["memory"], door["resources"]["limits"]["memory"]) == memory
    assert door["resources"]["requests"]["cpu"] == "250m"


@pytest.mark.parametrize("chart", ["licet", "refund-example"])
def test_the_render_is_the_golden_one(helm: Helm, chart: str) -> None:
    """Whoever changes what is installed sees it here, and in review."""
    done = helm.template(
        chart, "-f", str(CHARTS / chart / "ci/minimal-values.yaml"), "--kube-version", "1.33.0"
    )
    golden = GOLDEN / f"{chart}.yaml"
    assert done.stdout == golden.read_text("utf-8"), f"render it again into {golden} when the change is meant"


def test_applications_and_desks_are_named_with_their_tenants(helm: Helm) -> None:
    minimal = ("-f", str(CHARTS / "licet/ci/minimal-values.yaml"))

    def told(name: str, *arguments: str) -> list[str]:
        objects = helm.render("licet", *minimal, *arguments)
        [found] = [
            one for one in objects if one["kind"] == "StatefulSet" and "decider" in one["metadata"]["name"]
        ]
        variables: list[Object] = found["spec"]["template"]["spec"]["containers"][0]["env"]
        return [one["value"] for one in variables if one["name"] == name]

    for value, name in (("registrars", "LICET_REGISTRARS"), ("desks", "LICET_DESKS")):
        assert told(name) == []
        given = ("--set-json", f'decider.{value}={{"app/desk":["t1","t2"],"app/ops":["*"]}}')
        assert told(name, *given) == ["app/desk=t1+t2,app/ops=*"]
    assert told("LICET_DESKS", "--set-json", "decider.desks={}") == [""]  # nobody, not everybody


def deployment(helm: Helm, *arguments: str) -> Object:
    (found,) = [one for one in helm.render("refund-example", *arguments) if one["kind"] == "Deployment"]
    template: Object = found["spec"]["template"]
    return template


def variable(container: Object, name: str) -> str:
    (value,) = [entry["value"] for entry in container["env"] if entry["name"] == name]
    return str(value)


def test_every_value_is_described_and_the_reference_is_fresh() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "values.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = re.findall(
        r"^\| `([\w.-]+)` \|.*\| ([^|]*) \|$", (ROOT / "docs/reference/values.md").read_text(), re.MULTILINE
    )
    assert len(rows) > 120
    assert [name for name, said in rows if not said] == []
