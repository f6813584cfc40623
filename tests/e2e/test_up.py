"""`licet up` as a person runs it: start, use, stop, start again on the same data, kill."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.refund.demo.house import balance_minor
from examples.refund.fin.v1.finance_pb2 import Amount, IssueRefundRequest
from examples.refund.fin.v1.finance_pb2_grpc import FinanceStub
from licet.client import Client, Refused

ROOT = Path(__file__).resolve().parents[2]
WITHIN_S = 60
pytestmark = pytest.mark.timeout(180)


class Up:
    """A `licet up` in a process of its own."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.process = subprocess.Popen(
            command(data), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.addresses = self._addresses()

    def _addresses(self) -> dict[str, object]:
        """Return what it says about itself once it is up."""
        file, end = self.data / "up.json", time.monotonic() + WITHIN_S
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise AssertionError(self.process.communicate()[1])
            if file.exists():
                found = json.loads(file.read_text())
                if found["pid"] == self.process.pid:
                    return dict(found)
            time.sleep(0.05)
        self.process.kill()
        raise AssertionError("not up in time")

    @property
    def pids(self) -> list[int]:
        pids = self.addresses["pids"]
        assert isinstance(pids, dict)
        return [int(pid) for pid in pids.values()]

    def stop(self, number: int = signal.SIGINT) -> tuple[int, str, str]:
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=WITHIN_S)
        return self.process.returncode, out, err

    def refund(self, call_id: str, order: str = "O1") -> str:
        sidecars = self.addresses["sidecars"]
        assert isinstance(sidecars, dict)
        with Client(
            decider=str(self.addresses["decider"]),
            tools={"finance": sidecars["finance"][0]},
            identity="spiffe://licet.local/dev/agent/refund-bot",
        ) as gate:
            request = IssueRefundRequest(order_id=order, amount=Amount(minor=100, currency="USD"))
            finance = gate.stub(FinanceStub, task="task_789")
            return str(finance.IssueRefund(request, call_id=call_id).refund_id)

    def evidence(self, call_id: str) -> dict[str, object]:
        """Ask `licet audit evidence` until all of it is there."""
        environment = {
            **os.environ,
            "LICET_CLICKHOUSE_URL": str(self.addresses["clickhouse"]),
            "LICET_CLICKHOUSE_PASSWORD_FILE": str(self.data / "clickhouse.password"),
        }
        asked = [
            sys.executable,
            "-m",
            "licet",
            "audit",
            "evidence",
            "--call",
            f"task_789/{call_id}",
            "--json",
        ]
        end = time.monotonic() + WITHIN_S
        while True:
            done = subprocess.run(asked, env=environment, capture_output=True, text=True, check=False)
            found = json.loads(done.stdout) if done.returncode == 0 else {}
            if found.get("finding") == "ALLOWED_EXECUTED" and found.get("settled"):
                return dict(found)
            assert time.monotonic() < end, done.stderr or found
            time.sleep(0.5)


def command(data: Path) -> list[str]:
    project = str(ROOT / "examples" / "refund")
    return [sys.executable, "-m", "licet", "up", "--project", project, "--data", str(data), "--json"]


class Ups:
    """One data directory and whoever is up on it; started again where nobody is.

    A start costs every part's, so a test takes what the one before it left up.
    """

    def __init__(self, data: Path) -> None:
        self.data = data
        self._last: Up | None = None

    def up(self) -> Up:
        if self._last is None or self._last.process.poll() is not None:
            self._last = Up(self.data)
        return self._last

    def end(self) -> None:
        if self._last is not None and self._last.process.poll() is None:
            self._last.stop()


@pytest.fixture(scope="module")
def ups(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ups]:
    made = Ups(tmp_path_factory.mktemp("up") / "d")
    yield made
    made.end()


def gone(pids: list[int], within_s: float = WITHIN_S) -> list[int]:
    """Return which of these processes still run after a while."""
    end = time.monotonic() + within_s
    left = pids
    while left and time.monotonic() < end:
        left = [pid for pid in left if Path(f"/proc/{pid}").exists() and _state(pid) != "Z"]
        time.sleep(0.05)
    return left


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def test_a_second_up_on_the_same_data_is_refused_and_harms_nothing(ups: Ups) -> None:
    first = ups.up()
    second = subprocess.run(command(ups.data), capture_output=True, text=True, check=False, timeout=WITHIN_S)
    assert second.returncode == 1
    assert "is in use by another `licet up`" in second.stderr
    assert "--data" in second.stderr
    assert first.refund("beside_a_second")


@pytest.mark.parametrize("part", ["decider", pytest.param("sidecar-finance-0", marks=pytest.mark.soak)])
def test_up_ends_with_the_log_of_a_part_that_died(ups: Ups, part: str) -> None:
    up = ups.up()
    pids = up.addresses["pids"]
    assert isinstance(pids, dict)
    os.kill(pids[part], signal.SIGKILL)
    out, err = up.process.communicate(timeout=WITHIN_S)
    assert up.process.returncode == 1, out
    assert f"`{part}` ended by itself" in err
    assert gone(up.pids) == []


def test_a_killed_up_leaves_no_child_and_starts_again(ups: Ups) -> None:
    first = ups.up()
    first.refund("before_the_kill")
    first.process.kill()
    first.process.communicate()
    assert gone(first.pids) == []
    with pytest.raises(Refused, match="SPENT"):
        ups.up().refund("before_the_kill")


def test_up_stops_cleanly_and_starts_again_on_the_same_data(ups: Ups) -> None:
    first, ledger = ups.up(), ups.data / "tool" / "finance" / "ledger.db"
    before = balance_minor(ledger)
    refund_id = first.refund("call_1")
    evidence = first.evidence("call_1")
    assert {"policy", "authorization", "ledger"} <= evidence.keys()
    status, out, err = first.stop(signal.SIGINT)
    assert status == 0, err
    assert json.loads(out)["decider"] == first.addresses["decider"]
    assert gone(first.pids) == []
    assert not (ups.data / "up.json").exists()

    second = ups.up()
    assert second.addresses["decider"] == first.addresses["decider"]
    assert second.addresses["clickhouse"] == first.addresses["clickhouse"]
    assert balance_minor(ledger) == before - 100
    with pytest.raises(Refused, match="SPENT"):
        second.refund("call_1")
    assert second.refund("call_2") != refund_id
    assert balance_minor(ledger) == before - 200
    assert second.evidence("call_1")["ledger"] == evidence["ledger"]
    status, _, err = second.stop(signal.SIGTERM)
    assert status == 0, err
    assert gone(second.pids) == []
