"""The admission policies: every rule's CEL, as rendered, over pods that must pass and must not."""

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import celpy
import pytest

from tests.worlds.charts import CHARTS, Helm, Object

Pod = dict[str, Any]
Change = Callable[[Pod], None]
DIGEST = "sha256:" + "3" * 64
REPOSITORY = "registry.example.org/licet-sidecar"
LABEL = "licet/tool"


class Policy:
    """One ValidatingAdmissionPolicy."""

    def __init__(self, rendered: Object) -> None:
        spec = rendered["spec"]
        assert spec["failurePolicy"] == "Fail"
        self.conditions = [compiled(one["expression"]) for one in spec.get("matchConditions", ())]
        self.variables = [(one["name"], compiled(one["expression"])) for one in spec.get("variables", ())]
        self.rules = {one["message"]: compiled(one["expression"]) for one in spec["validations"]}

    def refused_by(self, pod: Pod, old: Pod | None = None) -> set[str]:
        """Messages of the rules that refuse; empty when it is admitted, or not judged at all."""
        known: dict[str, Any] = {
            "object": celpy.json_to_cel(pod),
            "oldObject": celpy.json_to_cel(old),
            "request": celpy.json_to_cel({"operation": "UPDATE" if old else "CREATE"}),
        }
        if not all(bool(one.evaluate(known)) for one in self.conditions):
            return set()
        variables: dict[str, Any] = {}
        for name, program in self.variables:
            given = {**known, "variables": celpy.celtypes.MapType(as_map(variables))}
            variables[name] = program.evaluate(given)
        known["variables"] = celpy.celtypes.MapType(as_map(variables))
        return {message for message, rule in self.rules.items() if not bool(rule.evaluate(known))}


def as_map(values: Mapping[str, Any]) -> dict[Any, Any]:
    return {celpy.celtypes.StringType(name): value for name, value in values.items()}


def compiled(expression: str) -> Any:
    environment = celpy.Environment()
    return environment.program(environment.compile(expression))


@pytest.fixture(scope="module")
def policies(helm: Helm) -> dict[str, Policy]:
    objects = helm.render("licet", "-f", str(CHARTS / "licet/ci/production-values.yaml"))
    kinds = [one for one in objects if one["kind"] == "ValidatingAdmissionPolicy"]
    return {one["metadata"]["name"].rpartition("-")[2]: Policy(one) for one in kinds}


@pytest.fixture(scope="module")
def lawful(helm: Helm) -> list[Pod]:
    """The example's own pod, and what owners of other tools may write."""
    rendered = helm.render("refund-example", "-f", str(CHARTS / "refund-example/ci/production-values.yaml"))
    (deployment,) = [one for one in rendered if one["kind"] == "Deployment"]
    base: Pod = copy.deepcopy(deployment["spec"]["template"])
    return [changed(base, change) for change in LAWFUL]


def changed(pod: Pod, change: Change) -> Pod:
    other = copy.deepcopy(pod)
    change(other)
    return other


def door(pod: Pod) -> dict[str, Any]:
    found: dict[str, Any] = next(c for c in pod["spec"]["initContainers"] if c["name"] == "licet-sidecar")
    return found


def tool(pod: Pod) -> dict[str, Any]:
    found: dict[str, Any] = pod["spec"]["containers"][0]
    return found


def add_container(pod: Pod, **fields: Any) -> None:
    context = {"runAsUser": 65_100, "allowPrivilegeEscalation": False}
    pod["spec"]["containers"].append({"name": "more", "image": "b", "securityContext": context, **fields})


def add_volume(pod: Pod, **volume: Any) -> None:
    pod["spec"].setdefault("volumes", []).append({"name": "more", **volume})


def without(path: str) -> Change:
    def change(pod: Pod) -> None:
        inner: Any = pod
        *parents, last = path.split(".")
        for name in parents:
            inner = inner[name]
        inner.pop(last, None)

    return change


def setting(path: str, value: Any) -> Change:
    def change(pod: Pod) -> None:
        inner: Any = pod
        *parents, last = path.split(".")
        for name in parents:
            inner = inner.setdefault(name, {})
        inner[last] = value

    return change


def drop_door(pod: Pod) -> None:
    pod["spec"]["initContainers"] = [c for c in pod["spec"]["initContainers"] if c["name"] != "licet-sidecar"]


def move_door(pod: Pod) -> None:
    one = copy.deepcopy(door(pod))
    drop_door(pod)
    one.pop("restartPolicy")
    pod["spec"]["containers"].append(one)


LAWFUL: tuple[Change, ...] = (
    lambda pod: None,
    add_container,
    lambda pod: add_container(pod, ports=[]),
    lambda pod: add_container(pod, volumeMounts=[{"name": "tmp", "mountPath": "/tmp"}]),
    lambda pod: add_volume(pod, emptyDir={}),
    lambda pod: add_volume(pod, secret={"secretName": "database"}),
    lambda pod: add_volume(pod, configMap={"name": "words"}),
    without("spec.hostNetwork"),
    without("spec.shareProcessNamespace"),
    setting("spec.nodeSelector", {"pool": "tools"}),
    setting("spec.ephemeralContainers", []),
    setting("metadata.annotations", {"team": "payments"}),
    lambda pod: pod["spec"].update(
        initContainers=[c for c in pod["spec"]["initContainers"] if c["name"] == "licet-sidecar"]
    ),
)


def escalate(pod: Pod) -> None:
    tool(pod)["securityContext"]["allowPrivilegeEscalation"] = True


RULES: dict[str, tuple[Change, ...]] = {
    "a pod with the label licet/tool has one init container licet-sidecar with restartPolicy Always": (
        drop_door,
        move_door,
        lambda pod: door(pod).pop("restartPolicy"),
        lambda pod: door(pod).update(name="sidecar"),
        lambda pod: pod["spec"]["initContainers"].append(copy.deepcopy(door(pod))),
    ),
    f"the sidecar's image is {REPOSITORY} by an allowed digest": (
        lambda pod: door(pod).update(image=f"{REPOSITORY}:0.1.0"),
        lambda pod: door(pod).update(image=f"{REPOSITORY}@sha256:{'4' * 64}"),
        lambda pod: door(pod).update(image=f"elsewhere.example.org/licet-sidecar@{DIGEST}"),
        lambda pod: door(pod).update(image=f"{REPOSITORY}-evil@{DIGEST}"),
        lambda pod: door(pod).update(image=f"{REPOSITORY}@{DIGEST}0"),
    ),
    "a tool mounts nothing of its host": (
        lambda pod: add_volume(pod, hostPath={"path": "/"}),
        lambda pod: add_volume(pod, hostPath={"path": "/run/licet", "type": "Directory"}),
    ),
    "a tool shares no network, process or IPC namespace with its host": (
        setting("spec.hostNetwork", True),
        setting("spec.hostPID", True),
        setting("spec.hostIPC", True),
    ),
    "a tool shares no process namespace with its sidecar": (setting("spec.shareProcessNamespace", True),),
    "a tool has no port: it is reached through its sidecar": (
        lambda pod: tool(pod).update(ports=[{"containerPort": 8080}]),
        lambda pod: add_container(pod, ports=[{"containerPort": 9090, "hostPort": 9090}]),
        lambda pod: pod["spec"]["initContainers"].append(
            {
                "name": "late",
                "image": "b",
                "restartPolicy": "Always",
                "ports": [{"containerPort": 1}],
                "securityContext": {"runAsUser": 65_101, "allowPrivilegeEscalation": False},
            }
        ),
    ),
    "tool and sidecar run as different users, neither as root nor privileged": (
        lambda pod: tool(pod)["securityContext"].update(runAsUser=64_002),
        lambda pod: tool(pod)["securityContext"].update(runAsUser=0),
        lambda pod: tool(pod)["securityContext"].pop("runAsUser"),
        lambda pod: tool(pod).pop("securityContext"),
        lambda pod: tool(pod)["securityContext"].update(privileged=True),
        lambda pod: door(pod)["securityContext"].update(runAsUser=0),
        lambda pod: door(pod).pop("securityContext"),
        escalate,
    ),
    "the sidecar's keys, certificate and password are mounted in the sidecar alone": tuple(
        (
            lambda pod, name=name: tool(pod)["volumeMounts"].append(  # type: ignore[misc]
                {"name": name, "mountPath": "/mine"}
            )
        )
        for name in ("licet-keys", "licet-tls", "licet-nats", "licet-spool")
    ),
    "a tool gets no service account token": (
        without("spec.automountServiceAccountToken"),
        setting("spec.automountServiceAccountToken", True),
    ),
    "no debugging container joins a tool": (
        setting("spec.ephemeralContainers", [{"name": "debug", "image": "shell"}]),
    ),
}
LABEL_STAYS = "the label licet/tool stays while the pod lives"
KEYS = "keys of a tool or its sidecar are mounted only in a pod with the label licet/tool"


def test_every_rule_is_tried(policies: dict[str, Policy]) -> None:
    assert set(policies["tool"].rules) == {*RULES, LABEL_STAYS}
    assert set(policies["keys"].rules) == {KEYS}


def test_lawful_pods_are_admitted(policies: dict[str, Policy], lawful: list[Pod]) -> None:
    assert len(lawful) >= 10
    for pod in lawful:
        for policy in policies.values():
            assert policy.refused_by(pod) == set()
            assert policy.refused_by(pod, old=lawful[0]) == set()


@pytest.mark.parametrize("message", RULES)
def test_a_rule_refuses_what_breaks_it_and_nothing_else(
    policies: dict[str, Policy], lawful: list[Pod], message: str
) -> None:
    refused = [changed(pod, change) for pod in lawful for change in RULES[message]]
    assert len(refused) >= 10
    for pod in refused:
        assert message in policies["tool"].refused_by(pod)
    if len(RULES[message]) == 1:
        assert all(policies["tool"].refused_by(pod) == {message} for pod in refused)


def test_taking_the_label_off_a_running_tool_is_refused(
    policies: dict[str, Policy], lawful: list[Pod]
) -> None:
    for pod in lawful:
        open_pod = changed(pod, lambda one: one["metadata"]["labels"].pop(LABEL))
        assert LABEL_STAYS in policies["tool"].refused_by(open_pod, old=pod)
        bare = changed(pod, lambda one: one["metadata"].pop("labels"))
        assert LABEL_STAYS in policies["tool"].refused_by(bare, old=pod)


def strangers() -> Iterator[Pod]:
    """Pods that are no tool's: whatever they do is their own business."""
    plain: Pod = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
    for change in (
        lambda pod: None,
        setting("spec.hostNetwork", True),
        setting("spec.shareProcessNamespace", True),
        setting("metadata.labels", {"app": "web"}),
        lambda pod: add_volume(pod, hostPath={"path": "/"}),
        lambda pod: add_volume(pod, secret={"secretName": "licet-decider-keys"}),
        lambda pod: add_volume(pod, secret={"secretName": "database"}),
        lambda pod: add_volume(pod, projected={"sources": [{"secret": {"name": "database"}}]}),
        lambda pod: add_volume(pod, projected={"sources": [{"configMap": {"name": "licet-trust"}}]}),
        lambda pod: tool(pod).update(envFrom=[{"secretRef": {"name": "database"}}]),
        lambda pod: tool(pod).update(ports=[{"containerPort": 80}]),
    ):
        yield changed(plain, change)


def test_other_pods_are_not_judged(policies: dict[str, Policy]) -> None:
    pods = list(strangers())
    assert len(pods) >= 10
    for pod in pods:
        for policy in policies.values():
            assert policy.refused_by(pod) == set()


@pytest.mark.parametrize("name", ["licet-finance-sidecar-keys", "licet-finance-tool-key"])
def test_a_stranger_with_a_tools_keys_is_refused(policies: dict[str, Policy], name: str) -> None:
    """Whoever has K_tool and the spend key is the door; a pod without the label would escape every rule."""
    ways: tuple[Change, ...] = (
        lambda pod: add_volume(pod, secret={"secretName": name}),
        lambda pod: add_volume(pod, projected={"sources": [{"secret": {"name": name}}]}),
        lambda pod: add_container(pod, envFrom=[{"secretRef": {"name": name}}]),
    )
    for pod in strangers():
        for way in ways:
            assert policies["keys"].refused_by(changed(pod, way)) == {KEYS}
