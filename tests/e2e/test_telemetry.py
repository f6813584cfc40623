"""What leaves a running house as telemetry: a secret in arguments appears nowhere, refusals are no errors."""

import base64
import contextlib
import json
import os
import re
import secrets
import sqlite3
import subprocess
import sys
import time
from typing import Any

import grpc
import pytest

from examples.refund.demo.evidence import wait_for_spans
from examples.refund.demo.house import TASK, TENANT, House
from examples.refund.demo.wire import GET_ORDER, REFUND, Step
from examples.refund.fin.v1.finance_pb2 import Amount, GetOrderRequest, IssueRefundRequest, Note
from licet import metadata, telemetry
from licet.embedded.trace_store import StoredSpan
from licet.tracing import inject
from licet.v1 import decider_pb2_grpc
from licet.v1.decider_pb2 import DecideRequest
from licet.v1.decision_pb2 import Codec
from tests.conformance.test_otel_names import KINDS, check_all, read_listed
from tests.worlds.panels import DASHBOARDS, Panel, panels
from tests.worlds.queries import series
from tests.worlds.scrape import samples, text, total
from tests.worlds.stored_files import files_with

pytestmark = [pytest.mark.xdist_group("house"), pytest.mark.timeout(180)]

CANARY = f"canary{secrets.token_hex(12)}"


def request(order: str, minor: int = 5000, **changed: Any) -> bytes:
    notes = {f"by-{CANARY}": Note(text=CANARY)}
    fields = {"reason": CANARY, "memo": CANARY, "notes": notes, **changed}
    message = IssueRefundRequest(order_id=order, amount=Amount(minor=minor, currency="USD"), **fields)
    return message.SerializeToString()


def spellings(secret: str) -> tuple[bytes, ...]:
    """Return how a secret may look where it leaked: plain, hex, base64 at each of the three offsets."""
    plain = secret.encode()
    coded = [base64.b64encode(b"\0" * pad + plain)[4:-4] for pad in range(3)]
    return (plain, plain.hex().encode(), plain.hex().upper().encode(), *coded)


@pytest.fixture(scope="module")
def told(house: House) -> dict[str, Step]:
    """Tell the secret in every way a call can end: executed, denied, refused, broken, failed."""
    steps = {}

    def step(name: str) -> Step:
        steps[name] = house.wire.step(house.call_id(), TASK)
        return steps[name]

    order = house.order()
    one = step("executed")
    permit = house.wire.decide(one, REFUND, request(order)).sent
    assert house.wire.present(one, REFUND, request(order), (permit,)).reason == "OK"
    two = step("denied")
    assert house.wire.decide(two, REFUND, request("O3")).reason
    three = step("changed")
    other = house.order()
    permit = house.wire.decide(three, REFUND, request(other)).sent
    refused = house.wire.present(three, REFUND, request(other, reason=CANARY * 2), (permit,))
    assert refused.reason == "DIGEST_MISMATCH"
    four = step("no permit")
    assert house.wire.present(four, REFUND, request(order), ()).reason == "NO_PERMIT"
    five = step("broken")
    assert house.wire.decide(five, REFUND, b"\xff" + CANARY.encode()).reason
    assert house.wire.present(five, REFUND, b"\xff" + CANARY.encode(), (permit,)).reason != "OK"
    assert house.wire.decide(step("unknown"), REFUND, request("no-such-order")).reason == "RESOURCE_UNKNOWN"
    beside(house, step("beside"))
    answered(house, step("answered"))
    wait_for_spans(house, steps["answered"].trace_id)  # the tool must have sent its own before it goes
    house.stack.processes["tool-finance"].stop()
    with pytest.raises(grpc.RpcError):
        house.wire.decide(step("facts"), REFUND, request(house.order()))
    house.stack.restart("tool-finance")
    house.until(lambda: decides(house), "the tool is read again")
    for each in steps.values():
        each.recording.close()
    house.until(lambda: len(stored(house, steps["executed"])) > 8, "the trace arrives")
    return steps


def decides(house: House) -> bool:
    step = house.wire.step(house.call_id(), TASK)
    try:
        return bool(house.wire.decide(step, REFUND, request(house.order())).sent)
    except grpc.RpcError:
        return False
    finally:
        step.recording.close()


BESIDE: tuple[tuple[str, str | bytes], ...] = (
    ("authorization", f"Bearer {CANARY}"),
    ("baggage", f"customer={CANARY}"),
    ("x-note", CANARY),
    ("x-note-bin", CANARY.encode()),
)
"""Metadata that is no business of ours."""


def beside(house: House, step: Step) -> None:
    """Tell the secret beside the arguments, too: in metadata, as the model's intent, as a user's token."""
    order = request(house.order())
    fields = {"method": REFUND, "request": order, "codec": Codec.CODEC_PROTOBUF, "task_id": TASK}
    sent = ((metadata.DEV_IDENTITY, house.identity), *BESIDE, *inject(step.root.context))
    with (
        grpc.insecure_channel(house.stack.decider) as decider,
        grpc.insecure_channel(house.stack.sidecar("finance")) as door,
    ):
        stub: Any = decider_pb2_grpc.DeciderServiceStub(decider)
        asked = DecideRequest(**fields, call_id=step.call_id, claimed_intent=CANARY)
        permit = stub.Decide(asked, metadata=sent, timeout=15).signed.SerializeToString()
        call: Any = door.unary_unary(REFUND)
        assert call(order, metadata=(*sent, (metadata.PERMIT, permit)), timeout=15)
        with contextlib.suppress(grpc.RpcError):
            stub.Decide(
                DecideRequest(**fields, call_id=house.call_id(), user_token=CANARY), metadata=sent, timeout=15
            )
        with pytest.raises(grpc.RpcError):
            call(order, metadata=(*sent, (metadata.PERMIT, CANARY.encode())), timeout=15)


def answered(house: House, step: Step) -> None:
    """Let the tool tell the secret: to an agent that reads, and to the decider that asks for facts."""
    row = (f"OC{secrets.token_hex(4)}", TENANT, "paid", 1, 1, 5000, CANARY, 0)
    with contextlib.closing(sqlite3.connect(house.ledger, isolation_level=None, timeout=30)) as db:
        db.execute("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    body = GetOrderRequest(order_id=row[0]).SerializeToString()
    permit = house.wire.decide(step, GET_ORDER, body).sent
    with grpc.insecure_channel(house.stack.sidecar("finance")) as door:
        call: Any = door.unary_unary(GET_ORDER)
        sent = (
            (metadata.DEV_IDENTITY, house.identity),
            (metadata.PERMIT, permit),
            *inject(step.root.context),
        )
        assert CANARY.encode() in call(body, metadata=sent, timeout=15), "the caller is told"
    asked = IssueRefundRequest(order_id=row[0], amount=Amount(minor=1, currency="USD")).SerializeToString()
    house.wire.decide(house.wire.step(house.call_id(), TASK), REFUND, asked)


def stored(house: House, step: Step) -> tuple[StoredSpan, ...]:
    assert house.stack.traces is not None
    return house.stack.traces.trace(step.trace_id)


def rows(house: House) -> dict[str, bytes]:
    """Return every row of every table of the store, as bytes."""
    names = [row[0] for row in house.store.query("SELECT name FROM system.tables WHERE database = 'default'"
             " AND NOT engine LIKE '%View'").result_rows]  # fmt: skip
    return {name: house.store.raw_query(f"SELECT * FROM `{name}` FORMAT JSONEachRow") for name in names}


def test_a_secret_in_arguments_is_in_no_reply(told: dict[str, Step]) -> None:
    said = [reply.message for step in told.values() for reply in step.replies]
    assert said
    assert [one for one in said if CANARY in one] == []


def test_a_secret_in_arguments_is_in_no_span_log_stream_or_spool(house: House, told: dict[str, Step]) -> None:
    data = house.stack.layout.root
    known = (told["executed"].call_id.encode(), told["executed"].trace_id.encode())
    seen = {path.relative_to(data).parts[0] for path in files_with(data, *known)}
    assert {"nats", "spool"} <= seen, "the search finds what is there"
    assert any(name.startswith("traces.db") for name in seen)
    told_it = str(house.ledger.relative_to(data))
    found = (str(path.relative_to(data)) for path in files_with(data, *spellings(CANARY)))
    leaked = [name for name in found if not name.startswith(told_it)]
    assert leaked == [], "but for the tool's own book"


def whole_lines(text: str) -> list[str]:
    """Return the lines of a log that is still written to, without the one that may be half written."""
    return text.rpartition("\n")[0].splitlines()


def test_every_log_line_is_an_event_and_debug_is_on(house: House, told: dict[str, Step]) -> None:
    """What was searched for the secret above is all that can be logged."""
    logs = {path.stem: path.read_text() for path in (house.stack.layout.root / "log").glob("*.log")}
    lines = {
        name: [json.loads(line) for line in whole_lines(text) if line.startswith("{")]
        for name, text in logs.items()
    }
    said = [one for name, found in lines.items() if name != "nats" for one in found]
    assert any(one["level"] == "debug" for one in said)
    assert all(re.fullmatch(r"[a-z_]+(\.[a-z_]+)+", one["event"]) for one in said)
    for name in ("decider", "sidecar-finance-0"):
        assert lines[name], name


def test_every_span_follows_its_convention(house: House, told: dict[str, Step]) -> None:
    listed = read_listed()
    assert house.stack.traces is not None
    services = {"agent", "licet-decider", "licet-sidecar", "finance"}
    house.until(lambda: services <= {one.service for one in stored(house, told["executed"])}, "all spans")
    spans = [one for step in told.values() for one in stored(house, step)]
    spans += [one for step in told.values() for one in house.stack.traces.linked_to(step.trace_id)]
    recorded = [(one.name, one.kind, dict(one.attributes), bool(one.error)) for one in spans]
    assert check_all(listed, recorded) == set(KINDS.values())


def test_a_secret_in_arguments_is_in_no_row_of_the_store(house: House, told: dict[str, Step]) -> None:
    executed = told["executed"].asked[0].decision.spend_id
    count = "SELECT count() FROM events WHERE spend_id = {id:String} AND kind = 'ledger.changed'"
    house.until(
        lambda: house.store.query(count, parameters={"id": executed}).result_rows[0][0] == 2, "the evidence"
    )
    kept = rows(house)
    assert executed.encode() in kept["events"], "the search finds what is there"
    leaked = [name for name, body in kept.items() if any(one in body for one in spellings(CANARY))]
    assert leaked == []


def test_a_refusal_is_no_error_and_a_failure_to_decide_is(house: House, told: dict[str, Step]) -> None:
    def errors(name: str) -> dict[str, str]:
        return {one.name: one.error for one in stored(house, told[name]) if one.error}

    house.until(lambda: len(stored(house, told["facts"])) > 2, "the trace of a failure arrives")
    for name in ("executed", "denied", "changed", "no permit", "broken", "beside"):
        assert errors(name) == {}, name
    assert telemetry.SPAN_DECIDE in errors("facts")
    spans = [one for one in stored(house, told["changed"]) if one.name == REFUND[1:]]
    doors = [
        one.attributes[telemetry.ENFORCEMENT] for one in spans if telemetry.ENFORCEMENT in one.attributes
    ]
    assert doors == ["refused"]
    (decided,) = (one for one in stored(house, told["changed"])
                  if one.name == telemetry.SPAN_DECIDE and one.kind == "server")  # fmt: skip
    assert decided.attributes[telemetry.DECISION] == "allow", "decided and enforced are two things"


def answers(port: int) -> bool:
    """Writer and reconciler start when everything else is there: they may be the last."""
    try:
        text(port)
    except OSError:
        return False
    return True


def test_every_process_is_scraped_and_names_nobody(house: House, told: dict[str, Step]) -> None:
    ports = {name: int(address.rpartition(":")[2]) for name, address in house.stack.metrics.items()}
    assert set(ports) == {"decider", "sidecar-finance-0", "sidecar-finance-1", "writer", "reconciler"}
    house.until(lambda: all(answers(port) for port in ports.values()), "every process answers", within_s=60)
    said = {name: text(port) for name, port in ports.items()}
    step = told["executed"]
    ids = (step.call_id, step.trace_id, step.asked[0].decision.spend_id, TASK, CANARY, house.identity)
    assert [(name, one) for name, body in said.items() for one in ids if f'"{one}"' in body] == []
    found = [sample for port in ports.values() for sample in samples(port)]
    assert total(found, "licet_decisions_total", decision="deny") > 0
    assert total(found, "licet_decision_failures_total") > 0
    assert total(found, "licet_door_calls_total", enforcement="refused", reason="DIGEST_MISMATCH") > 0
    assert total(found, "licet_spend_duration_seconds_count", reason="none") > 0
    names = {sample.name for sample in found}
    assert {"licet_door_open_calls", "licet_decision_open", "licet_bundle_shadow"} <= names
    assert total(found, "licet_bundle_shadow") == 0, "the example enforces"
    end = time.monotonic() + 60
    while not total(samples(ports["reconciler"]), "licet_findings_total", finding="ALLOWED_EXECUTED"):
        assert time.monotonic() < end
        time.sleep(0.2)


def show(house: House, step: Step, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "licet", "trace", "show", step.trace_id, "--width", "300"]
    command += ["--data", str(house.stack.layout.root)]
    beside = {name: value for name, value in os.environ.items() if name != "LICET_CLICKHOUSE_URL"}
    return subprocess.run(
        command, env={**beside, **environment}, capture_output=True, text=True, check=False, timeout=60
    )


def test_trace_show_prints_the_tree_and_the_three_evidences(house: House, told: dict[str, Step]) -> None:
    step, environment = told["executed"], house.stack.audit_environment()
    spend_id = step.asked[0].decision.spend_id
    house.until(
        lambda: "ALLOWED_EXECUTED" in show(house, step, **environment).stdout, "the finding", within_s=60
    )
    said = show(house, step, **environment)
    assert said.returncode == 0, said.stderr
    tree, _, evidence = said.stdout.partition("\n\n")
    assert telemetry.SPAN_LEDGER_COMMIT in tree
    assert spend_id in evidence
    for word in ("policy", "authorization", "ledger"):
        assert word in evidence.lower()
    alone = show(house, step)
    assert alone.returncode == 0, alone.stderr
    assert "ALLOWED_EXECUTED" not in alone.stdout.partition("reconcile")[0]


def test_trace_show_says_when_the_store_does_not_answer(house: House, told: dict[str, Step]) -> None:
    elsewhere = {**house.stack.audit_environment(), "LICET_CLICKHOUSE_URL": "http://127.0.0.1:1"}
    said = show(house, told["executed"], **elsewhere)
    assert said.returncode == 1
    assert "the evidences cannot be read" in said.stderr
    assert telemetry.SPAN_LEDGER_COMMIT in said.stdout


EMPTY_IS_WELL = (
    "'DENIED_BUT_BYPASSED'", "signature NOT IN", "FROM quarantine", "approval.%", "'approval.voted'",
)  # fmt: skip
"""Panels that show nothing in a house where nothing went wrong and nobody was asked."""


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: f"{panel.board}: {panel.title}")
def test_panel_asks_the_real_store_and_is_answered(house: House, told: dict[str, Step], panel: Panel) -> None:
    house.store.command((DASHBOARDS.parent / "otel_traces.sql").read_text())
    now_ms, decision = time.time_ns() // 1_000_000, told["executed"].asked[0].decision
    about = {"agent": decision.agent, "task": TASK, "call": decision.call_id, "id": decision.spend_id}
    about |= {"operation": "refund", "resource": decision.resource}
    asked = panel.filled(now_ms - 3_600_000, now_ms + 60_000, **about)
    if any(part in panel.sql for part in EMPTY_IS_WELL):
        house.store.query(asked)
    else:
        house.until(lambda: bool(house.store.query(asked).result_rows), "rows for the panel")
    if "$__from" in panel.sql and "$__to" in panel.sql:
        before = panel.filled(0, 1000, **about)
        assert house.store.query(before).result_rows == [], "the time range of the dashboard counts"
    if "$__from" in panel.sql:
        after = panel.filled(now_ms + 3_600_000, now_ms + 7_200_000, **about)
        assert house.store.query(after).result_rows == [], "the time range of the dashboard counts"


def test_series_that_alerts_and_panels_ask_for_are_exposed(house: House, told: dict[str, Step]) -> None:
    """Counters that nothing has moved yet are not there; all else is."""
    ports = [int(address.rpartition(":")[2]) for address in house.stack.metrics.values()]
    house.until(
        lambda: series().keys() - UNMOVED <= {one.name for port in ports for one in samples(port)}, "series"
    )


UNMOVED = {
    "licet_budget_burn_total",  # the example has no budgets
    "licet_budget_refusals_total",
}
