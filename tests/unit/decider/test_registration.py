"""Registering a task: from a template, by an application that is not the agent, narrowed at most."""

from typing import Any

import pytest

from decider.policy.bundle import BundleError, load_bundle, read_bundle_source
from decider.source import SourceError
from decider.task.contract import Contract
from decider.task.contract_source import contract_message, load_contract, load_values, narrowed_contract
from decider.task.registration import Desk, judge_registration, may_register, same_registration
from decider.task.task_store import task_of
from decider.task.task_template import load_templates
from licet.refusal import Reason, Refusal
from licet.strict import canonical
from licet.v1 import bundle_pb2, task_pb2
from tests.worlds.decisions import POLICY

NOW_MS = 1_790_000_000_000
APP = "spiffe://licet.local/dev/app/desk"
OPS = "spiffe://licet.local/dev/app/ops"
BOT = "spiffe://licet.local/dev/agent/refund-bot"

MANIFEST = (POLICY / "bundle.yaml").read_text().partition("# What kinds of work")[0]
TEMPLATES = """
templates:
  answer-refund-request:
    agents: [refund-bot]
    hours: 4
    contract:
      allow: [read_order, refund]
      approve: [refund]
      approver: finance-lead
      autonomy: full
      addresses: ["@t1.example.com", www.example.com]
      values: {refund: {order_id: [O1, O2]}}
    budgets: {refunds: {money: {USD: 10000}, operations: [refund]}, calls: {calls: 40}}
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> bundle_pb2.Bundle:
    directory = tmp_path_factory.mktemp("policy")
    for name in ("rules.cedar", "schema.cedarschema"):
        (directory / name).write_text((POLICY / name).read_text())
    (directory / "bundle.yaml").write_text(MANIFEST + TEMPLATES)
    return bundle_pb2.Bundle.FromString(read_bundle_source(directory, environment="dev"))


@pytest.fixture
def desk(bundle: bundle_pb2.Bundle) -> Desk:
    registrars = {APP: frozenset({"t1"}), OPS: frozenset({"*"})}
    return Desk("dev", "licet.local", registrars, load_templates(bundle.templates), 7, 1)


def asked(**changes: Any) -> task_pb2.RegisterTaskRequest:
    values: dict[str, Any] = {
        "template": "answer-refund-request",
        "task_id": "task_901",
        "caller": BOT,
        "agent": "refund-bot",
        "principal": "ana@t1.example.com",
        "tenant": "t1",
        "intent": "answer the request",
    }
    return task_pb2.RegisterTaskRequest(**{**values, **changes})


def test_a_task_has_its_templates_contract_budgets_and_time(desk: Desk) -> None:
    task = judge_registration(asked(), APP, desk, now_ms=NOW_MS)
    assert not isinstance(task, Refusal), task
    assert (task.registered_by, task.template, task.bundle_version) == (APP, "answer-refund-request", 7)
    assert task.not_after_ms == NOW_MS + 4 * 3_600_000
    known = task_of(task)
    assert known.contract is not None
    assert known.contract.allowed == {"read_order", "refund"}
    assert known.contract.needs_approval == {"refund"}
    assert [(one.name, dict(one.limits), one.per) for one in known.budgets] == [
        ("refunds", {"USD": 10_000}, ("task",)),
        ("calls", {"": 40}, ("task",)),
    ]
    assert not known.closed


@pytest.mark.parametrize(
    ("peer", "tenant"),
    [(BOT, "t1"), ("spiffe://licet.local/dev/app/stranger", "t1"), (APP, "t2"), (APP, "*"), ("", "t1")],
)
def test_who_may_not_register_for_the_tenant_registers_nothing(desk: Desk, peer: str, tenant: str) -> None:
    refused = judge_registration(asked(tenant=tenant), peer, desk, now_ms=NOW_MS)
    assert isinstance(refused, Refusal)
    assert refused.reason is Reason.REGISTRATION_REFUSED


def test_an_application_for_every_tenant_may_register_for_any(desk: Desk) -> None:
    assert not isinstance(judge_registration(asked(tenant="t2"), OPS, desk, now_ms=NOW_MS), Refusal)
    assert not may_register(OPS, "t2", {OPS: frozenset({"t1"})})


@pytest.mark.parametrize(
    "changes",
    [
        {"template": "another"},
        {"task_id": ""},
        {"task_id": "a b"},
        {"task_id": "x" * 129},
        {"caller": APP},  # its own task
        {"caller": OPS},  # another application's
        {"caller": "spiffe://licet.local/prod/agent/refund-bot"},
        {"caller": "spiffe://elsewhere/dev/agent/refund-bot"},
        {"caller": "spiffe://licet.local/dev/sidecar/finance"},
        {"caller": "refund-bot"},
        {"agent": "support-bot"},
        {"agent": ""},
        {"principal": ""},
        {"principal": " ana"},
        {"principal": "ana\n"},
        {"principal": "\u0430na@t1.example.com"},  # the first letter is Cyrillic
        {"intent": "x" * 2_001},
        {"life_s": 4 * 3_600 + 1},
        {"delegation": "../x"},
        {"addresses": ["www.example.com"]},  # bounds nothing, and so is a mistake
        {"addresses": ["evil.example.net"], "bounds_addresses": True},
        {"values": [task_pb2.BoundValue(operation="refund", path="order_id", values=["O3"])]},
        {"values": [task_pb2.BoundValue(operation="wipe", path="order_id", values=["O1"])]},
        {"values": [task_pb2.BoundValue(operation="refund", path="order_id", values=["O1"])] * 2},
        {"values": [task_pb2.BoundValue(operation="refund", path="", values=["O1"])]},
    ],
)
def test_what_is_no_task_of_the_template_is_refused(desk: Desk, changes: dict[str, Any]) -> None:
    refused = judge_registration(asked(**changes), APP, desk, now_ms=NOW_MS)
    assert isinstance(refused, Refusal)
    assert refused.reason is Reason.TASK_INVALID
    assert not isinstance(judge_registration(asked(), APP, desk, now_ms=NOW_MS), Refusal)


def test_a_registration_narrows_and_never_widens(desk: Desk) -> None:
    narrow = asked(
        life_s=60,
        addresses=["https://www.example.com/"],
        bounds_addresses=True,
        values=[
            task_pb2.BoundValue(operation="refund", path="order_id", values=["O1"]),
            task_pb2.BoundValue(operation="read_order", path="order_id", values=["O9"]),
        ],
    )
    task = judge_registration(narrow, APP, desk, now_ms=NOW_MS)
    assert not isinstance(task, Refusal), task
    contract = load_contract(task.contract)
    assert contract.addresses == {"www.example.com"}
    assert contract.values["refund"]["order_id"] == {"O1"}
    assert contract.values["read_order"]["order_id"] == {"O9"}
    assert task.not_after_ms == NOW_MS + 60_000


def test_a_retry_is_the_same_registration_and_anything_else_is_another(desk: Desk) -> None:
    first = judge_registration(asked(), APP, desk, now_ms=NOW_MS)
    later = judge_registration(asked(), APP, desk, now_ms=NOW_MS + 5_000)
    assert isinstance(first, task_pb2.Task)
    assert isinstance(later, task_pb2.Task)
    assert same_registration(first, later)
    for changes in ({"principal": "ben"}, {"life_s": 60}, {"intent": "other"}):
        other = judge_registration(asked(**changes), APP, desk, now_ms=NOW_MS)
        assert isinstance(other, task_pb2.Task)
        assert not same_registration(first, other)
    closed = task_pb2.Task()
    closed.CopyFrom(first)
    closed.closed_at_ms = 1
    assert not same_registration(first, closed)  # what was closed is not opened by asking again


def test_contracts_come_back_as_they_were_written() -> None:
    contract = Contract(
        allowed=frozenset({"a", "b"}),
        forbidden=frozenset({"c"}),
        needs_approval=frozenset({"a"}),
        autonomy=2,
        addresses=frozenset(),
        approver="lead",
        values={"a": {"x.y": frozenset({"1", "2"})}},
    )
    assert load_contract(contract_message(contract)) == contract
    unbound = narrowed_contract(contract, addresses=None, values=load_values([]))
    assert unbound.addresses == frozenset()  # no address at all is the narrowest


@pytest.mark.parametrize(
    "text",
    [
        "templates: {x: {agents: [bot]}}",
        "templates: {x: {contract: {allow: [a]}}}",
        "templates: {x: {agents: [bot], contract: {allow: [a], approve: [b]}}}",
        "templates: {x: {agents: [bot], hours: 24, contract: {allow: [a]}}}",
        "templates: {x: {agents: [bot], contract: {allow: [a]}, budgets: {b: {calls: 1, money: {USD: 1}}}}}",
        "budgets: {a: {period: day, calls: 1}, b: {period: day, calls: 1, operations: refund}}",
        "budgets: {b: {calls: 1}}",
        "budgets: {b: {period: week, calls: 1}}",
        "budgets: {b: {period: task, calls: 1}}",
        "budgets: {b: {period: day, calls: -1}}",
        "budgets: {b: {period: day, calls: 9223372036854775808}}",
        "budgets: {b: {period: day, money: {usd: 1}}}",
        "budgets: {b: {period: day, money: {}}}",
        "budgets: {b: {period: day, cost: {a: 1, b: 2}}}",
        "budgets: {b: {period: day, per: [planet], calls: 1}}",
        "budgets: {B!: {period: day, calls: 1}}",
    ],
)
def test_a_template_or_budget_that_makes_no_sense_is_not_built(tmp_path: Any, text: str) -> None:
    for name in ("rules.cedar", "schema.cedarschema"):
        (tmp_path / name).write_text((POLICY / name).read_text())
    (tmp_path / "bundle.yaml").write_text(MANIFEST + text + "\n")
    with pytest.raises(SourceError):
        read_bundle_source(tmp_path, environment="dev")


def test_a_signed_bundle_with_a_budget_that_is_not_understood_decides_nothing(
    bundle: bundle_pb2.Bundle,
) -> None:
    assert load_bundle(canonical(bundle)).templates.keys() == {"answer-refund-request"}
    for unit, period in ((0, 2), (1, 0), (2, 2), (3, 2)):
        spoilt = bundle_pb2.Bundle()
        spoilt.CopyFrom(bundle)
        budget = spoilt.budgets.add(name="b", unit=unit, period=period)
        budget.limits.add(limit=1)
        with pytest.raises(BundleError):
            load_bundle(canonical(spoilt))


def test_a_template_s_budget_has_a_name_of_its_own(tmp_path: Any) -> None:
    """A denial names one budget, and a note is about one."""
    for name in ("rules.cedar", "schema.cedarschema"):
        (tmp_path / name).write_text((POLICY / name).read_text())
    manifest = MANIFEST + TEMPLATES
    (tmp_path / "bundle.yaml").write_text(manifest + "budgets: {calls: {period: day, calls: 1}}\n")
    with pytest.raises(SourceError, match="the bundle has a budget `calls`, too"):
        read_bundle_source(tmp_path, environment="dev")
    (tmp_path / "bundle.yaml").write_text(manifest + "budgets: {all-calls: {period: day, calls: 1}}\n")
    assert read_bundle_source(tmp_path, environment="dev")
