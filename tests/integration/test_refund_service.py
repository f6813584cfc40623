"""The example's tool as a process, gated on its socket and ungated on loopback."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from examples.refund.fin.v1 import finance_pb2, finance_pb2_grpc
from examples.refund.orders import FIRST_ORDERS, bulk_orders, open_book, read_order, seed
from licet import metadata
from licet.v1 import guard_pb2, guard_pb2_grpc
from tests.worlds.guarded_tool import QuickMint, preconditions
from tests.worlds.mint import refund

ROOT = Path(__file__).parents[2]
START_S = 60.0
TIMEOUT_S = 10.0
FACTS = {"order.version": 1, "order.tenant": "t1", "order.status": "paid"}


@pytest.fixture(scope="module")
def mint(tmp_path_factory: pytest.TempPathFactory) -> QuickMint:
    return QuickMint(tmp_path_factory.mktemp("mint"))


def settings(mint: QuickMint, directory: Path) -> dict[str, str]:
    return {
        "LICET_TOOL_SOCKET": str(directory / "finance.sock"),
        "LICET_TOOL_CALLS_FILE": str(directory / "calls.log"),
        "REFUND_LEDGER": str(directory / "ledger.db"),
        "LICET_CATALOG": str(mint.catalog_file),
        "LICET_ROOT_KEY_FILE": str(mint.keys_dir / "root.pub"),
        "LICET_TOOL_KEY_FILE": str(mint.keys_dir / "tool-finance.key"),
    }


@contextmanager
def tool(settings: dict[str, str], *arguments: str, ready: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "examples.refund.service", *arguments]
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **settings}, stderr=subprocess.PIPE)
    until = time.monotonic() + START_S
    try:
        while not ready.exists():
            assert process.poll() is None, process.stderr and process.stderr.read().decode()
            assert time.monotonic() < until
            time.sleep(0.02)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, said.decode()


@contextmanager
def loopback(port_file: Path) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(f"127.0.0.1:{port_file.read_text().strip()}") as channel:
        yield channel


def calls_of(directory: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in (directory / "calls.log").read_text().splitlines()]


def ledger_of(directory: Path) -> list[Any]:
    book = sqlite3.connect(directory / "ledger.db")
    rows = book.execute("SELECT order_id, account, amount_minor FROM ledger ORDER BY change_id").fetchall()
    book.close()
    return rows


def test_gated_it_refunds_under_a_permit_and_counts_every_call(mint: QuickMint, tmp_path: Path) -> None:
    socket = tmp_path / "finance.sock"
    with tool(settings(mint, tmp_path), ready=socket), grpc.insecure_channel(f"unix:{socket}") as channel:
        finance, guard = finance_pb2_grpc.FinanceStub(channel), guard_pb2_grpc.GuardServiceStub(channel)
        order = finance.GetOrder(
            finance_pb2.GetOrderRequest(order_id="O1"), wait_for_ready=True, timeout=TIMEOUT_S
        )
        assert (order.tenant, order.version, order.refund_allowed) == ("t1", 1, True)
        assert socket.stat().st_mode & 0o777 == 0o660
        beacon = guard_pb2.BeaconRequest(beacon=mint.beacon(), keyset=mint.keyset_signed)
        assert guard.Beacon(beacon, timeout=TIMEOUT_S).accepted
        decision = mint.decision(preconditions=preconditions(**FACTS))
        with pytest.raises(grpc.RpcError) as refused:
            finance.IssueRefund(refund(), timeout=TIMEOUT_S)
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        sent = ((metadata.PERMIT, mint.sign(decision)), (metadata.ATTEMPT, "a" * 32))
        reply = finance.IssueRefund(refund(), metadata=sent, timeout=TIMEOUT_S)
        assert (reply.order_id, reply.amount.minor, reply.order_version) == ("O1", 5000, 2)
        changes = guard.Outbox(guard_pb2.OutboxRequest(limit=10), timeout=TIMEOUT_S).changes
        assert [(change.entry, change.amount_minor) for change in changes] == [(1, -5000), (2, 5000)]
        after = finance.GetOrder(finance_pb2.GetOrderRequest(order_id="O1"), timeout=TIMEOUT_S)
        assert (after.status, after.refunded_minor, after.version) == ("refunded", 5000, 2)
    assert ledger_of(tmp_path) == [("O1", "merchant:t1", -5000), ("O1", "customer:O1", 5000)]
    assert calls_of(tmp_path) == [
        {"method": "GetOrder", "attempt": "", "spend_id": ""},
        {"method": "IssueRefund", "attempt": "", "spend_id": ""},
        {"method": "IssueRefund", "attempt": "a" * 32, "spend_id": decision.spend_id},
        {"method": "GetOrder", "attempt": "", "spend_id": ""},
    ]


def test_ungated_it_pays_whatever_is_asked_and_pays_again(mint: QuickMint, tmp_path: Path) -> None:
    """What the gate is there for: the order says refund_allowed=false, and 50 USD leave, twice."""
    port_file = tmp_path / "port"
    environment = {**settings(mint, tmp_path), "LICET_PORT_FILE": str(port_file)}
    with tool(environment, "--ungated", ready=port_file), loopback(port_file) as channel:
        finance = finance_pb2_grpc.FinanceStub(channel)
        request = finance_pb2.GetOrderRequest(order_id="O3")
        assert not finance.GetOrder(request, wait_for_ready=True, timeout=TIMEOUT_S).refund_allowed
        for _ in range(2):
            finance.IssueRefund(refund("O3"), timeout=TIMEOUT_S)
        with pytest.raises(grpc.RpcError) as refused:
            finance.IssueRefund(refund("O99"), timeout=TIMEOUT_S)
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND
    assert [minor for _, account, minor in ledger_of(tmp_path) if account == "merchant:t1"] == [-5000, -5000]
    assert [call["method"] for call in calls_of(tmp_path)].count("IssueRefund") == 3


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"LICET_LISTEN": "0.0.0.0:0"}, "loopback only"),
        ({}, "this ledger is guarded"),
    ],
    ids=["not on loopback", "a guarded ledger"],
)
def test_ungated_it_refuses_to_reach_further_than_the_demonstration(
    mint: QuickMint, tmp_path: Path, changes: dict[str, str], said: str
) -> None:
    environment = {**settings(mint, tmp_path), "REFUND_UNGATED": "1", **changes}
    if not changes:
        with tool(settings(mint, tmp_path), ready=tmp_path / "finance.sock"):
            pass
    assert said in refused_start(environment)


@pytest.mark.parametrize(
    "missing", ["LICET_TOOL_SOCKET", "LICET_CATALOG", "LICET_ROOT_KEY_FILE", "REFUND_LEDGER"]
)
def test_a_missing_setting_is_named(mint: QuickMint, tmp_path: Path, missing: str) -> None:
    environment = settings(mint, tmp_path)
    del environment[missing]
    assert f"set {missing}" in refused_start(environment)


def test_a_key_file_that_others_may_read_is_refused(mint: QuickMint, tmp_path: Path) -> None:
    loose = tmp_path / "tool-finance.key"
    loose.write_text("0" * 64)
    loose.chmod(0o644)
    environment = {**settings(mint, tmp_path), "LICET_TOOL_KEY_FILE": str(loose)}
    assert "chmod 600" in refused_start(environment)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"REFUND_LEDGER": "/nonexistent/ledger.db"}, "unable to open"),
        ({"LICET_TOOL_SOCKET": "/nonexistent/" + "x" * 100}, "longer than 107 bytes"),
        ({"LICET_TOOL_SOCKET": "/nonexistent/finance.sock"}, "/nonexistent/finance.sock"),
        ({"LICET_ENVIRONMENT": "a/b"}, "is no name"),
    ],
)
def test_a_wrong_setting_is_told_in_one_line(
    mint: QuickMint, tmp_path: Path, changes: dict[str, str], said: str
) -> None:
    refused = refused_start({**settings(mint, tmp_path), **changes})
    assert said in refused
    assert "Traceback" not in refused


def refused_start(environment: dict[str, str]) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("LICET_", "REFUND_"))}
    done = subprocess.run(
        [sys.executable, "-m", "examples.refund.service"],
        cwd=ROOT,
        env={**clean, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=START_S,
    )
    assert done.returncode == 2, done
    return done.stderr


def test_seeding_again_keeps_what_happened_since(tmp_path: Path) -> None:
    book = open_book(tmp_path / "ledger.db")
    assert seed(book, (*FIRST_ORDERS, *bulk_orders(3))) == 7
    book.execute("UPDATE orders SET version = 9 WHERE order_id = 'B0002'")
    assert seed(book, (*FIRST_ORDERS, *bulk_orders(5))) == 2
    assert read_order(book, "B0002").version == 9
    assert read_order(book, "O4").tenant == "t2"
    book.close()


def test_generated_code_and_descriptors_are_those_of_the_proto() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.refund.generate", "--check"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
